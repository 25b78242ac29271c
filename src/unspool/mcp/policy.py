"""Whether a tool may run: what the operator said of it, made stricter where its definition is not the pinned one.

What a server says of its own tools makes nothing looser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unspool.mcp.settings import ToolRules
from unspool.mcp.tools import Policy

STRICTNESS: tuple[Policy, ...] = ("allow", "ask", "deny")
ANY = "*"


def stricter(one: Policy, other: Policy) -> Policy:
    """The stricter of two policies."""
    return max(one, other, key=STRICTNESS.index)


def policy_of(name: str, digest: str, annotations: Mapping[str, Any], rules: ToolRules) -> Policy:
    """The policy of a tool by its name on the wire; ``ask`` if nothing is said of it.

    A tool that calls itself destructive is not allowed by ``*``, only by its name.
    """
    policy = rules.policies.get(name)
    if policy is None:
        policy = rules.policies.get(ANY, "ask")
        if annotations.get("destructiveHint") is True:
            policy = stricter(policy, "ask")
    if rules.pins is not None and rules.pins.get(name) != digest:
        policy = stricter(policy, rules.unpinned)
    return policy


def reads_only(name: str, annotations: Mapping[str, Any], rules: ToolRules) -> bool:
    """Whether the operator said that a tool only reads, and the tool itself doesn't deny it."""
    said = name in rules.read_only or ANY in rules.read_only
    return said and annotations.get("destructiveHint") is not True and annotations.get("readOnlyHint") is not False
