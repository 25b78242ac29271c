"""Markers in a stream, and what must be held back."""

from __future__ import annotations

import pytest

from unspool.parsing.scanner import Watch

WATCH = Watch(("\n\n", ["<tool_call>"]), ("", ["<|im_end|>", "<|im"]), ("", []))


@pytest.mark.parametrize(
    ("text", "start", "group", "literal"),
    [
        ("abc", None, None, None),
        ("abc<tool_call>x", 3, 1, "<tool_call>"),
        ("abc\n\n\n<tool_call>x", 4, 1, "<tool_call>"),
        ("abc\n\nx", None, None, None),
        ("abc\n", 3, None, None),
        ("abc<", 3, None, None),
        ("abc\n<tool_cal", 3, None, None),
        ("abc<|im", 3, None, None),
        ("abc<|im_end", 3, None, None),
        ("abc<|im_x", 3, 2, "<|im"),
        ("abc<|im_end|>", 3, 2, "<|im_end|>"),
    ],
)
def test_what_is_found(text: str, start: int | None, group: int | None, literal: str | None) -> None:
    found = WATCH.find(text, 0, False)
    assert (found and found.start()) == start
    if found is not None:
        assert found.lastindex == group
        assert group is None or found.group(group) == literal


@pytest.mark.parametrize(
    ("text", "start"), [("abc\n", None), ("abc<", None), ("abc<|im", 3), ("abc<tool_cal", None)]
)
def test_nothing_is_held_at_the_end(text: str, start: int | None) -> None:
    found = WATCH.find(text, 0, True)
    assert (found and found.start()) == start


@pytest.mark.parametrize(
    ("text", "stops"), [("plain text", False), ("a < b", True), ("line\n", True), ("a\nb", False)]
)
def test_the_quick_test(text: str, stops: bool) -> None:
    assert (WATCH.stop(text) is not None) == stops


def test_a_watch_for_nothing_finds_nothing() -> None:
    watch = Watch(("\n", []))
    assert watch.find("any\nthing <", 0, False) is None
    assert watch.stop("any\nthing <") is None


@pytest.mark.parametrize(
    ("text", "ended", "start", "literal"),
    [
        ("x\n<call>", False, 1, None),
        ("x\n<call>all", False, 1, None),
        ("x\n<call>al.", False, 1, "<call>"),
        ("x\n<call>all.", False, 2, "<call>all."),
        ("x\n<call>", True, 1, "<call>"),
    ],
)
def test_layout_waits_with_a_marker_that_may_become_another(
    text: str, ended: bool, start: int, literal: str | None
) -> None:
    watch = Watch(("\n", ("<call>",)), ("", ("<call>all.",)))
    found = watch.find(text, 0, ended)
    assert found is not None
    assert found.start() == start
    assert (found.group(found.lastindex) if found.lastindex else None) == literal


@pytest.mark.parametrize(
    ("text", "ended", "group", "literal"),
    [
        ("<|sep|>", False, None, None),
        ("<|sep|>function", False, None, None),
        ("<|sep|>function call", False, 1, "<|sep|>function call"),
        ("<|sep|>func.", False, 2, "<|sep|>"),
        ("<|sep|>func", True, 2, "<|sep|>"),
        ("ab", False, None, None),
        ("abd", False, 1, "ab"),
        ("abc", False, 2, "abc"),
        ("a", False, None, None),
        ("ab", True, 1, "ab"),
    ],
)
def test_the_longest_marker_counts_whichever_group_it_is_in(
    text: str, ended: bool, group: int | None, literal: str | None
) -> None:
    watch = Watch(("", ("<|sep|>function call", "ab")), ("", ("<|sep|>", "abc")))
    found = watch.find(text, 0, ended)
    assert found is not None
    assert found.lastindex == group
    assert group is None or found.group(group) == literal
