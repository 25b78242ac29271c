"""The canitoolcall suite, run by its own command line.

469 recorded outputs of nine families, each parsed as a whole and in every chunking. The first run gives
the parser token ids and counts; the second withholds them, which no engine with ids has to suffer, and
shows what text alone can decide. A fixture that does not pass strictly is listed here with its reason and
explained, with evidence, in ``docs/conformance.md``; an entry that passes again fails the test, so the
lists can only shrink.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from canitoolcall.chunking import DEFAULT_STRATEGIES
from canitoolcall.results import CaseResult, CheckResult, RunResults, Status

from tests.conformance.documented import PAGE, table_below

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

FIXTURES = 469
STRATEGIES = (*(strategy.id for strategy in DEFAULT_STRATEGIES), "rand:101:3")
TEXT_STRATEGIES = ("one", "token", "char:0", "rand:101:3")

# The same suite, fixtures and set-up on other parsers: strict passes, soft passes, failures.
REFERENCES: Mapping[str, tuple[int, int, int]] = {
    "vLLM 0.33": (289, 67, 113),
    "SGLang 0.5.23": (231, 39, 199),
}

# Strict passes of a parser that returns everything as content: what the suite gives for nothing.
FLOOR: Mapping[str, int] = {
    "deepseek": 13,
    "gemma4": 7,
    "glm": 3,
    "gpt-oss": 6,
    "kimi": 4,
    "llama": 8,
    "mistral": 5,
    "qwen3-hermes": 10,
    "qwen3-xml": 3,
}

# Fixtures that do not pass strictly, and why.
EXCEPTIONS: Mapping[str, str] = {
    "gemma4/vllm-text-before-call": (
        "strips the space before a call, which two other fixtures of the family demand as content"
    ),
}

# Fixtures that only token ids can decide: without ids, marker text and a marker are the same letters.
TEXT_EXCEPTIONS: Mapping[str, str] = {
    "gpt-oss/harmony-marker-in-reasoning": "the reasoning quotes a message terminator, letter for letter",
}


@pytest.fixture(scope="module")
def by_ids(tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    return _run("UnspoolAdapter", STRATEGIES, tmp_path_factory.mktemp("ids"))


@pytest.fixture(scope="module")
def by_text(tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    return _run("UnspoolTextAdapter", TEXT_STRATEGIES, tmp_path_factory.mktemp("text"))


def test_every_fixture_ran_in_every_chunking(by_ids: RunResults, by_text: RunResults) -> None:
    for run, strategies in ((by_ids, STRATEGIES), (by_text, TEXT_STRATEGIES)):
        assert len(run.cases) == FIXTURES
        assert run.run.strategies == strategies
        assert not [case.fixture_id for case in run.cases if case.skipped_strategies]
        for case in run.cases:
            assert case.status not in (Status.UNSUPPORTED, Status.ERROR), (
                case.fixture_id,
                case.harness_error,
            )


def test_every_fixture_passes_strictly_by_ids(by_ids: RunResults) -> None:
    _assert_only(EXCEPTIONS, by_ids)


def test_text_alone_decides_all_but_quoted_terminators(by_text: RunResults) -> None:
    _assert_only({**EXCEPTIONS, **TEXT_EXCEPTIONS}, by_text)


def test_streaming_and_whole_agree_in_every_chunking(by_ids: RunResults, by_text: RunResults) -> None:
    disagreements = [
        (case.fixture_id, row.strategy, row.detail)
        for run in (by_ids, by_text)
        for case, row in _rows(run, "stream_equals_nonstream", "split_invariance")
        if row.status is not Status.PASS
    ]
    assert not disagreements


def test_no_marker_leaks(by_ids: RunResults) -> None:
    leaks = [
        (case.fixture_id, row.strategy, row.detail)
        for case, row in _rows(by_ids, "no_leakage")
        if row.status is not Status.PASS
    ]
    assert not leaks


def test_the_tables_in_the_docs_are_these(
    by_ids: RunResults, by_text: RunResults, capsys: pytest.CaptureFixture[str]
) -> None:
    by_engines = [_line(name, *counts, "") for name, counts in REFERENCES.items()]
    for title, run, others in (("canitoolcall", by_ids, by_engines), ("By text alone", by_text, [])):
        table = "\n".join([*_table(run), *others])
        with capsys.disabled():
            print(f"\n{title}\n{table}")
        assert table_below(title) == table, f"docs/conformance.md needs this table below {title!r}:\n{table}"


def test_the_table_of_the_readme_is_this(by_ids: RunResults, by_text: RunResults) -> None:
    passed = [sum(case.status is Status.PASS for case in run.cases) for run in (by_ids, by_text)]
    engines = {name: counts[0] for name, counts in REFERENCES.items()}
    rows = re.findall(r"^\| (.*) \| (\S*\d\S*) \|$", README.read_text("utf-8"), re.MULTILINE)
    assert [number.strip("*") for _, number in rows] == [str(number) for number in (*passed, *engines.values())]
    assert [name for name, _ in rows[2:]] == list(engines)


def _run(adapter: str, strategies: tuple[str, ...], out: Path) -> RunResults:
    """One run of the suite's command line; its exit code 1 means that some fixture failed."""
    command = [sys.executable, "-m", "canitoolcall", "run", "--jobs", "2", "--observed", "failures"]
    command += ["--engine", f"tests.conformance.adapter:{adapter}", "--python", sys.executable]
    command += ["--env", f"PYTHONPATH={ROOT}", "--out", str(out)]
    for strategy in strategies:
        command += ["--strategy", strategy]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    [results] = out.glob("*.json")
    return RunResults.load(results)


def _rows(run: RunResults, *checks: str) -> Iterator[tuple[CaseResult, CheckResult]]:
    for case in run.cases:
        for row in case.checks:
            if row.check in checks:
                yield case, row


def _assert_only(exceptions: Mapping[str, str], run: RunResults) -> None:
    found = {case.fixture_id: case for case in run.cases if case.status is not Status.PASS}
    surprises = [_describe(case) for name, case in found.items() if name not in exceptions]
    assert not surprises, "\n".join(surprises)
    assert found.keys() == exceptions.keys(), "these pass now; take them off the list"
    assert not [name for name in exceptions if name not in PAGE], "not explained in docs/conformance.md"


def _describe(case: CaseResult) -> str:
    rows = [row for row in case.checks if row.status is not Status.PASS]
    return f"{case.fixture_id} {case.status.value}: " + "; ".join(
        f"{row.check}[{row.strategy}] {row.detail}" for row in rows[:2]
    )


def _table(run: RunResults) -> list[str]:
    """The lines of a table: the results per family, and their totals."""
    families: dict[str, Counter[Status]] = {}
    for case in run.cases:
        families.setdefault(case.family, Counter())[case.status] += 1
    lines = ["| family | pass | soft pass | fail | pass, parsing nothing |", "|---|--:|--:|--:|--:|"]
    lines += [_line(family, *_counts(counts), FLOOR[family]) for family, counts in sorted(families.items())]
    total = sum(families.values(), Counter[Status]())
    return [*lines, _line("**unspool**", *_counts(total), sum(FLOOR.values()))]


def _counts(counts: Counter[Status]) -> tuple[int, int, int]:
    return counts[Status.PASS], counts[Status.SOFT_PASS], counts[Status.FAIL]


def _line(name: str, *numbers: int | str) -> str:
    return f"| {name} | {' | '.join(map(str, numbers))} |"
