"""Tools, vocabularies and random walks for the tests of turns.

A walk takes one of the tokens that a mask allows, again and again, until the turn may end. It prefers what can be
read in a failure, and when it gets long, what leads to the end: markers, quotes and brackets.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.constrained.vocabularies import CORPUS, Letters
from tests.laws.messages import special_tokens
from tests.laws.strategies import markers
from unspool import Format
from unspool.constrained import LLGuidanceConstraint
from unspool.constrained.base import allowed, new_mask
from unspool.constrained.turns import TurnGrammar
from unspool.constrained.vocabulary import vocabulary_of

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"type": "string", "enum": ["c", "f", "kelvin"]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "at": {
                "type": "object",
                "properties": {"lat": {"type": "number"}, "sure": {"type": ["null", "boolean"]}},
                "required": ["lat"],
                "additionalProperties": False,
            },
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
    "get": {
        "type": "object",
        "properties": {
            "what": {
                "anyOf": [{"type": "integer", "minimum": 5}, {"type": "string", "minLength": 2, "maxLength": 6}]
            },
            "sure": {"type": "boolean"},
            "note": {"type": ["string", "null", "boolean"]},
            "kind": {"enum": [1, "a", None, True]},
            "list": {
                "type": "array",
                "items": {"$ref": "#/$defs/entry"},
                "maxItems": 2,
            },
        },
        "required": ["sure"],
        "additionalProperties": False,
        "$defs": {
            "entry": {
                "type": "object",
                "properties": {"a": {"type": "string", "maxLength": 3}, "in": {"$ref": "#/$defs/entry"}},
                "required": ["a"],
                "additionalProperties": False,
            }
        },
    },
    "save": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^[a-c]{1,4}$"},
            "day": {"type": "string", "format": "date"},
            "data": {},
            "none": {"type": "object", "additionalProperties": False},
        },
        "required": ["code", "day"],
        "additionalProperties": False,
    },
    "anything": {"type": "object"},
}
TOOLS = [
    {"type": "function", "function": {"name": name, "strict": True, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]

_WORDS = (
    *("the ", "a", "b", " and", "call", "true", "null", "12", "think", "get_weather", "\n", "\n\n"),
    ": ",
    ", ",
)
_LEADS_ON = frozenset("\"'}])>")
_MOST = 4000  # tokens of a walk


@cache
def letters(fmt: Format) -> Letters:
    """Nothing is a special token, but a token may be a whole marker."""
    words = [word for mark in markers(fmt) for word in (mark, *re.findall(r"<[^<>]+>|\S+", mark))]
    return Letters(words=tuple(dict.fromkeys(word for word in (*_WORDS, *words) if len(word) > 1)))


@cache
def byte_pairs(fmt: Format) -> Tokenizer:
    """A byte-level BPE with the format's special tokens, every other of them not flagged, as Qwen3's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=1
    )
    tokenizer.train_from_iterator([*CORPUS, *map(str, SCHEMAS.values()), *markers(fmt)] * 2, trainer)
    special = [mark for mark in special_tokens(fmt) if mark[:1] == "<" and mark[-1:] == ">"]
    tokenizer.add_special_tokens(["<|endoftext|>", *special[::2]])
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in special[1::2]])
    return tokenizer


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """A text as the tokens of a vocabulary, markers that are special tokens by id."""
    if isinstance(tokenizer, Letters):
        return tokenizer.ids(text)
    if isinstance(tokenizer, Tokenizer):
        return list(tokenizer.encode(text, add_special_tokens=False).ids)
    known = vocabulary_of(tokenizer).markers
    ids: list[int] = []
    for part in re.split("(" + "|".join(map(re.escape, known)) + ")", text):
        ids += [known[part]] if part in known else tokenizer.encode(part, bos=False, eos=False)
    return ids


def refused(grammar: TurnGrammar, tokenizer: Any, text: str) -> str | None:
    """Where a text stops being allowed, with what stands around it; ``None`` if it is a whole turn."""
    held = LLGuidanceConstraint(grammar, tokenizer, end_tokens=[])
    ids = ids_of(tokenizer, text)
    for place, token in enumerate(ids):
        if not held.accept(token):
            return f"token {place} of {ids_of(tokenizer, text[:1])!r}... in {text!r}"
    return None if held.may_end else f"the end of {text!r}"


def walk(grammar: TurnGrammar, tokenizer: Any, seed: object) -> list[int] | None:
    """A random turn that a grammar allows; ``None`` if it never came to an end."""
    chance = random.Random(str(seed))
    held = LLGuidanceConstraint(grammar, tokenizer, end_tokens=[])
    mask = new_mask(held.vocab_size)
    size = chance.choice((20, 100, 300))
    ids: list[int] = []
    while len(ids) < _MOST:
        if held.is_stopped or (held.may_end and (len(ids) > size or chance.random() < 0.02)):
            return ids
        held.mask(mask)
        choices = [int(token) for token in allowed(mask, held.vocab_size).nonzero()[0]]
        assert choices or held.may_end, "nothing may come, and the turn is not complete"
        token = chance.choice(_preferred(tokenizer, choices, len(ids) > size, chance) or choices)
        assert held.accept(token), "a token that the mask allows is refused"
        ids.append(token)
    return None


def _preferred(tokenizer: Any, choices: Sequence[int], late: bool, chance: random.Random) -> list[int]:
    pieces = _pieces(tokenizer)
    if late and chance.random() < 0.5:
        marks = [token for token in choices if pieces[token][:1] in ("<", "[", "]") and len(pieces[token]) > 3]
        return marks or [token for token in choices if pieces[token] in _LEADS_ON]
    return [token for token in choices if pieces[token].isprintable() or pieces[token] == "\n"]


_known: dict[int, tuple[Any, list[str]]] = {}


def _pieces(tokenizer: Any) -> list[str]:
    """The text of every token."""
    if id(tokenizer) not in _known:
        if isinstance(tokenizer, Letters):
            found = [tokenizer.piece(token).decode("utf-8", "replace") for token in range(tokenizer.size)]
        else:
            found = [
                tokenizer.decode([token], skip_special_tokens=False) for token in range(tokenizer.get_vocab_size())
            ]
        _known[id(tokenizer)] = tokenizer, found
    return _known[id(tokenizer)][1]
