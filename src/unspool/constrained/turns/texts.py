"""Whether llguidance finds a text for what is demanded of one."""

from __future__ import annotations

import re
from functools import lru_cache

from unspool.constrained.base import GrammarError, new_mask
from unspool.constrained.grammars import guidance, lark
from unspool.constrained.turns.lark import to_lark
from unspool.constrained.turns.nodes import Regex, Tree

_REASON = re.compile(r"error: (.+)")


@lru_cache(512)
def text_fault(node: Regex) -> str | None:
    """Why no text can match these expressions, or none can be held to them; ``None`` if one can."""
    try:
        grammar = lark(to_lark(Tree(node, {}), {}, ()))
    except GrammarError as error:
        reason = _REASON.search(str(error))
        return reason[1] if reason else str(error).partition("\n")[0]
    from llguidance import LLTokenizer

    # One token a byte: whether there is a text does not depend on the tokens that spell it.
    tokenizer = LLTokenizer("byte")
    matcher = guidance()(tokenizer, grammar.text, log_level=0)
    mask = new_mask(tokenizer.vocab_size)
    if not matcher.is_error():
        matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    if not matcher.is_error():
        return None
    reason = matcher.get_error().strip().partition("\n")[0]
    return "no text satisfies it" if "NoExtensionBias" in reason else reason
