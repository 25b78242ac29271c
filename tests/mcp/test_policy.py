"""Whether a tool may run."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.mcp.policy import policy_of, reads_only
from unspool.mcp.settings import ToolRules

DESTRUCTIVE = {"destructiveHint": True}
HARMLESS = {"destructiveHint": False, "readOnlyHint": True}


@pytest.mark.parametrize(
    ("policies", "annotations", "policy"),
    [
        ({}, {}, "ask"),
        ({}, HARMLESS, "ask"),
        ({"t": "allow"}, {}, "allow"),
        ({"*": "allow"}, {}, "allow"),
        ({"*": "deny"}, HARMLESS, "deny"),
        ({"*": "allow", "t": "deny"}, HARMLESS, "deny"),
        ({"*": "deny", "t": "allow"}, {}, "allow"),
        ({"*": "allow"}, DESTRUCTIVE, "ask"),
        ({"*": "deny"}, DESTRUCTIVE, "deny"),
        ({"t": "allow"}, DESTRUCTIVE, "allow"),
        ({"T": "allow", "tt": "allow"}, {}, "ask"),
    ],
)
def test_what_the_operator_said_counts_and_annotations_make_nothing_looser(
    policies: dict[str, Any], annotations: dict[str, Any], policy: str
) -> None:
    assert policy_of("t", "d", annotations, ToolRules(policies)) == policy


@pytest.mark.parametrize(
    ("pins", "unpinned", "policy"),
    [
        (None, "ask", "allow"),
        ({"t": "d"}, "ask", "allow"),
        ({"t": "other"}, "ask", "ask"),
        ({"t": "other"}, "deny", "deny"),
        ({}, "ask", "ask"),
        ({"other": "d"}, "deny", "deny"),
    ],
)
def test_with_pins_only_the_pinned_definition_is_trusted(pins: Any, unpinned: Any, policy: str) -> None:
    assert policy_of("t", "d", {}, ToolRules({"t": "allow"}, pins=pins, unpinned=unpinned)) == policy


@pytest.mark.parametrize(
    ("named", "annotations", "read_only"),
    [
        ([], HARMLESS, False),
        (["t"], {}, True),
        (["*"], {}, True),
        (["t"], DESTRUCTIVE, False),
        (["t"], {"readOnlyHint": False}, False),
        (["other"], {}, False),
    ],
)
def test_a_tool_only_reads_if_the_operator_says_so_and_it_does_not_deny_it(
    named: list[str], annotations: dict[str, Any], read_only: bool
) -> None:
    assert reads_only("t", annotations, ToolRules(read_only=frozenset(named))) is read_only
