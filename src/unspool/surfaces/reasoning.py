"""What a request says about reasoning: whether, how hard, how many tokens, and who gets to see it.

Each vendor has a field of its own; here they become one value. What only the chat template can follow is passed on
to it under the names that templates have for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from unspool.surfaces.fields import Fields

log = logging.getLogger(__name__)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ReasoningOptions:
    """How the model is to reason.

    ``template_kwargs`` are the chat template's keyword arguments. ``shown``: the client gets the reasoning.
    ``budget`` is the most tokens of it (``None``: any number); 0 where it was switched off.
    """

    template_kwargs: dict[str, Any] = field(default_factory=dict)
    shown: bool = True
    budget: int | None = None


def decode_reasoning(body: Fields) -> ReasoningOptions:
    """Reads every spelling; of several budgets the smallest holds. Raises :class:`InvalidRequestError`."""
    kwargs = dict(body.mapping("chat_template_kwargs") or {})
    effort = body.string("reasoning_effort")
    enabled = body.boolean("enable_thinking")
    shown = body.boolean("include_reasoning") is not False
    options = body.fields("reasoning")
    budgets = [
        _tokens(body, "thinking_token_budget"),
        _tokens(Fields(kwargs, "chat_template_kwargs"), "thinking_budget"),
    ]
    if options is not None:
        effort = options.string("effort") or effort
        enabled = options.boolean("enabled") if enabled is None else enabled
        shown = shown and not options.boolean("exclude")
        budgets.append(_tokens(options, "max_tokens"))
    thinking = body.fields("thinking")
    if thinking is not None:
        switch = _switch(thinking)
        enabled = switch if enabled is None else enabled
        budgets.append(_tokens(thinking, "budget_tokens"))
    budgets.append(budget := _tokens(body, "reasoning_budget"))
    if budget == 0 or effort == "none":
        enabled = False
    elif effort is not None:
        kwargs.setdefault("reasoning_effort", _known(effort))
    if enabled is not None:
        # The two names that templates in the wild use for one switch.
        kwargs.setdefault("enable_thinking", enabled)
        kwargs.setdefault("thinking", enabled)
    if kwargs.get("enable_thinking", kwargs.get("thinking")) is False:
        # Some templates open the reasoning all the same.
        budgets.append(0)
    return ReasoningOptions(kwargs, shown, min((each for each in budgets if each is not None), default=None))


def _tokens(fields: Fields, name: str) -> int | None:
    """A budget in tokens; -1 is how several clients spell "no limit"."""
    value = fields.integer(name, -1, _INT64)
    return None if value == -1 else value


def _switch(thinking: Fields) -> bool | None:
    """One vendor's spelling of "think", "don't" and "as you like"."""
    kind = thinking.required_string("type")
    if kind not in ("enabled", "disabled", "adaptive", "auto"):
        raise thinking.wrong("type", "enabled or disabled")
    return {"enabled": True, "disabled": False}.get(kind)


def _known(effort: str) -> str:
    if effort in EFFORTS:
        return effort
    # New tiers appear faster than servers learn them; the strongest known one is what was meant.
    log.warning("Unknown reasoning_effort %r is taken as 'max'", effort)
    return "max"
