from __future__ import annotations

from typing import Any

import pytest

from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields
from unspool.surfaces.reasoning import ReasoningOptions, decode_reasoning

OFF = {"enable_thinking": False, "thinking": False}


def decoded(**fields: Any) -> ReasoningOptions:
    return decode_reasoning(Fields(fields))


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({"enable_thinking": False}, OFF),
        ({"reasoning": {"enabled": True}}, {"enable_thinking": True, "thinking": True}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "none"}, OFF),
        ({"reasoning_effort": "ultra"}, {"reasoning_effort": "max"}),
        ({"thinking": {"type": "disabled"}}, OFF),
        ({"thinking": {"type": "adaptive"}}, {}),
        ({"reasoning_budget": 0}, OFF),
        (
            {"chat_template_kwargs": {"enable_thinking": True, "x": 1}, "enable_thinking": False},
            {"enable_thinking": True, "thinking": False, "x": 1},
        ),
    ],
)
def test_every_spelling_of_thinking_reaches_the_template(fields: dict[str, Any], kwargs: dict[str, Any]) -> None:
    assert decoded(**fields).template_kwargs == kwargs


@pytest.mark.parametrize("fields", [{"include_reasoning": False}, {"reasoning": {"exclude": True}}])
def test_reasoning_can_be_kept_from_the_client(fields: dict[str, Any]) -> None:
    assert not decoded(**fields).shown
    assert decoded().shown


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, None),
        ({"thinking_token_budget": 16}, 16),
        ({"thinking_token_budget": 0}, 0),
        ({"thinking_token_budget": -1}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 1024),
        ({"thinking": {"type": "enabled"}}, None),
        ({"reasoning": {"max_tokens": 7}}, 7),
        ({"reasoning_budget": 5}, 5),
        ({"reasoning_budget": -1}, None),
        ({"chat_template_kwargs": {"thinking_budget": 9}}, 9),
        ({"chat_template_kwargs": {"thinking_budget": -1}}, None),
        ({"thinking_token_budget": 16, "reasoning": {"max_tokens": 7}}, 7),
        ({"reasoning_effort": "low"}, None),
    ],
)
def test_every_spelling_of_a_budget(fields: dict[str, Any], budget: int | None) -> None:
    assert decoded(**fields).budget == budget


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_effort": "none"},
        {"reasoning": {"effort": "none"}},
        {"enable_thinking": False},
        {"reasoning": {"enabled": False}},
        {"thinking": {"type": "disabled"}},
        {"reasoning_budget": 0},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"chat_template_kwargs": {"thinking": False}},
        {"reasoning_effort": "none", "thinking_token_budget": 16},
    ],
)
def test_reasoning_that_is_switched_off_has_no_budget_left(fields: dict[str, Any]) -> None:
    assert decoded(**fields).budget == 0


def test_a_budget_for_the_template_stays_in_its_arguments() -> None:
    assert decoded(chat_template_kwargs={"thinking_budget": 9}).template_kwargs == {"thinking_budget": 9}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs"),
        ({"reasoning": {"enabled": "yes"}}, "reasoning.enabled"),
        ({"thinking": {"type": "maybe"}}, "thinking.type"),
        ({"thinking": {"budget_tokens": 5}}, "thinking.type"),
        ({"thinking_token_budget": -2}, "thinking_token_budget"),
        ({"thinking_token_budget": 1.5}, "thinking_token_budget"),
        ({"thinking": {"type": "enabled", "budget_tokens": "x"}}, "thinking.budget_tokens"),
        ({"reasoning": {"max_tokens": True}}, "reasoning.max_tokens"),
        ({"reasoning_budget": "all"}, "reasoning_budget"),
        ({"chat_template_kwargs": {"thinking_budget": "x"}}, "chat_template_kwargs.thinking_budget"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        decoded(**fields)
    assert (caught.value.param, caught.value.status) == (param, 400)
    assert f"`{param}`" in caught.value.message
