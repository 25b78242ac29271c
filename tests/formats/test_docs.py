"""The page about detection: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unspool
from unspool.formats import registry

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/detection.md").read_text("utf-8"), re.M | re.S)


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    unspool.formats()
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_names", dict(registry._names))
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(compile(example, "detection.md", "exec"), names)
    assert capsys.readouterr().out.splitlines() == [
        'hermes the chat template has "<tool_call>"',
        'the chat template has "<gadget>"',
    ]
