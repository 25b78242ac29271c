"""The names that models see."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from unspool.mcp.names import exposed_names


def test_a_name_is_the_servers_and_the_tools() -> None:
    tools = [("files", "read"), ("web", "read"), ("a b", "x.y/z")]
    assert exposed_names(tools) == {
        ("files", "read"): "files__read",
        ("web", "read"): "web__read",
        ("a b", "x.y/z"): "a_b__x_y_z",
    }


def test_names_that_would_be_the_same_get_a_hash_each() -> None:
    names = exposed_names([("a", "b.c"), ("a", "b_c"), ("a__b", "c"), ("a", "b__c")])
    assert re.fullmatch("a__b_c_[0-9a-f]{8}", names["a", "b.c"])
    assert re.fullmatch("a__b_c_[0-9a-f]{8}", names["a", "b_c"])
    assert len(set(names.values())) == 4


def test_a_name_does_not_depend_on_which_tool_came_first() -> None:
    tools = [("a", "b.c"), ("a", "b_c"), ("z", "y")]
    assert exposed_names(tools) == exposed_names(reversed(tools))


def test_a_name_that_a_hash_was_made_for_can_not_be_taken() -> None:
    clash = exposed_names([("a", "b.c"), ("a", "b_c")])["a", "b.c"]
    names = exposed_names([("a", "b.c"), ("a", "b_c"), ("a", clash.removeprefix("a__"))])
    assert len(set(names.values())) == 3


@given(st.lists(st.tuples(st.text(min_size=1, max_size=70), st.text(min_size=1, max_size=130)), unique=True))
def test_names_are_within_what_every_api_takes_and_never_shared(tools: list[tuple[str, str]]) -> None:
    names = exposed_names(tools)
    assert set(names) == set(tools)
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
