"""What a model may write next: grammars, JSON Schema, the reasoning boundary and its budget, as token masks.

Everything is a :class:`Constraint`: ``mask(out)`` says which tokens may come, ``accept(token)`` takes one,
``rollback(n)`` takes some back. The logits processors apply one inside an engine. This needs the extra
``unspool[constrained]``; the package is imported only when something in it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy import attributes

if TYPE_CHECKING:
    from unspool.constrained.arrays import apply_mask
    from unspool.constrained.backends import constrain
    from unspool.constrained.backends.lmformatenforcer import LMFormatEnforcerConstraint
    from unspool.constrained.backends.xgrammar import XGrammarConstraint
    from unspool.constrained.base import Constraint, ConstraintError, GrammarError, SchemaError, new_mask
    from unspool.constrained.boundary import BoundaryTracker, Phase
    from unspool.constrained.grammars import Grammar, choice, ebnf, lark, regex
    from unspool.constrained.guidance import LLGuidanceConstraint
    from unspool.constrained.history import History
    from unspool.constrained.processors import (
        ConstraintLogitsProcessor,
        JSONSchemaLogitsProcessor,
        ThinkingAwareLogitsProcessor,
    )
    from unspool.constrained.remote import (
        RemoteConstraint,
        for_llama_server,
        for_sglang,
        for_vllm,
        turn_gbnf,
    )
    from unspool.constrained.schema import json_object, json_schema
    from unspool.constrained.thinking import ThinkingConstraint
    from unspool.constrained.tracking import reasoning_tracker
    from unspool.constrained.turns import TurnGrammar, turn_grammar

__all__ = [
    "BoundaryTracker",
    "Constraint",
    "ConstraintError",
    "ConstraintLogitsProcessor",
    "Grammar",
    "GrammarError",
    "History",
    "JSONSchemaLogitsProcessor",
    "LLGuidanceConstraint",
    "LMFormatEnforcerConstraint",
    "Phase",
    "RemoteConstraint",
    "SchemaError",
    "ThinkingAwareLogitsProcessor",
    "ThinkingConstraint",
    "TurnGrammar",
    "XGrammarConstraint",
    "apply_mask",
    "choice",
    "constrain",
    "ebnf",
    "for_llama_server",
    "for_sglang",
    "for_vllm",
    "json_object",
    "json_schema",
    "lark",
    "new_mask",
    "reasoning_tracker",
    "regex",
    "turn_gbnf",
    "turn_grammar",
]

__getattr__ = attributes(
    __name__,
    {
        "arrays": ("apply_mask",),
        "backends": ("constrain",),
        "backends.lmformatenforcer": ("LMFormatEnforcerConstraint",),
        "backends.xgrammar": ("XGrammarConstraint",),
        "base": ("Constraint", "ConstraintError", "GrammarError", "SchemaError", "new_mask"),
        "boundary": ("BoundaryTracker", "Phase"),
        "grammars": ("Grammar", "choice", "ebnf", "lark", "regex"),
        "guidance": ("LLGuidanceConstraint",),
        "history": ("History",),
        "processors": ("ConstraintLogitsProcessor", "JSONSchemaLogitsProcessor", "ThinkingAwareLogitsProcessor"),
        "remote": ("RemoteConstraint", "for_llama_server", "for_sglang", "for_vllm", "turn_gbnf"),
        "schema": ("json_object", "json_schema"),
        "thinking": ("ThinkingConstraint",),
        "tracking": ("reasoning_tracker",),
        "turns": ("TurnGrammar", "turn_grammar"),
    },
)
