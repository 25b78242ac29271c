"""The live probe of canitoolcall, run as its users run it, against a server that replays nine formats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.server.serving import served
from unspool.engines.replay import ReplayEngine, load_recordings


def test_the_probe_passes_all_its_scenarios(tmp_path: Path) -> None:
    recordings = load_recordings(Path(__file__).with_name("probe.jsonl"))
    report = tmp_path / "report.json"
    with served(ReplayEngine(recordings, chunking="random:3:5")) as url:
        probe = [sys.executable, "-m", "canitoolcall", "probe", "--base-url", f"{url}/v1", "--model", "replay"]
        run = subprocess.run([*probe, "--json", str(report)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    outcomes = json.loads(report.read_text())["outcomes"]
    assert {outcome["scenario_id"] for outcome in outcomes} == {recording.id for recording in recordings}
    assert len(outcomes) == 3 * len(recordings)
    assert [outcome for outcome in outcomes if outcome["status"] != "pass" or outcome["warnings"]] == []
    calls = [outcome for outcome in outcomes if (outcome["observed"] or {}).get("reasoning_content")]
    assert {outcome["scenario_id"] for outcome in calls} == {"single-call", "reasoning-then-call"}
