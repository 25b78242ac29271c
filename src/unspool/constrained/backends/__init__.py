"""Other libraries behind the interface of :class:`~unspool.constrained.base.Constraint`, where they are installed.

llguidance is the backend that everything else here is made for. xgrammar and lm-format-enforcer are for hosts that
have them anyway. Both ignore much of JSON Schema without a word; :mod:`.fragment` knows what they do enforce, and
nothing else is handed to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from unspool.constrained.backends.lmformatenforcer import LMFormatEnforcerConstraint
from unspool.constrained.backends.xgrammar import XGrammarConstraint
from unspool.constrained.base import Constraint, ConstraintError
from unspool.constrained.grammars import Grammar
from unspool.constrained.guidance import LLGuidanceConstraint
from unspool.constrained.schema import json_schema

Backend: TypeAlias = Literal["llguidance", "xgrammar", "lm-format-enforcer"]


def constrain(
    grammar: Grammar | Mapping[str, Any] | bool,
    tokenizer: Any,
    *,
    backend: Backend = "llguidance",
    strict: bool = True,
    end_tokens: Iterable[int] | None = None,
) -> Constraint:
    """A constraint that a backend follows, from a grammar or a JSON Schema, which ``strict`` says was demanded.

    Raises :class:`ConstraintError` for an unknown backend or one that isn't installed, :class:`GrammarError` for a
    grammar that it can't take, :class:`SchemaError` for a demanded schema that it would not enforce.
    """
    if backend == "xgrammar":
        return XGrammarConstraint(grammar, tokenizer, strict=strict, end_tokens=end_tokens)
    if backend == "lm-format-enforcer":
        return LMFormatEnforcerConstraint(grammar, tokenizer, strict=strict, end_tokens=end_tokens)
    if backend != "llguidance":
        raise ConstraintError(f"There is no backend {backend!r}; choose one of {', '.join(get_args(Backend))}.")
    if not isinstance(grammar, Grammar):
        grammar = json_schema(grammar, strict=strict)
    return LLGuidanceConstraint(grammar, tokenizer, end_tokens=end_tokens)
