"""xgrammar as a backend: JSON Schema, regular expressions, choices and EBNF.

It must not see what it would ignore. Of JSON Schema it gets its fragment; of regular expressions those that every
backend reads alike. Where an object declares properties it has no others, and a ``pattern`` is held to the whole
string; both leave fewer texts than the schema, never wrong ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unspool.constrained.backends.fragment import KEYWORDS, Fragment, schema_grammar
from unspool.constrained.backends.held import HeldText, package, source_of
from unspool.constrained.backends.patterns import foreign, read_alike
from unspool.constrained.base import GrammarError, Mask, SchemaError, allowed, new_mask
from unspool.constrained.grammars import Grammar, Source
from unspool.constrained.subschemas import subschemas
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of

_MOST_WHITESPACE = 64  # characters in a row between the parts of JSON
_FORMATS = frozenset(
    [
        "duration",
        "email",
        "ipv4",
        "json-pointer",
        "relative-json-pointer",
        "uri",
        "uri-reference",
        "uri-template",
        "uuid",
    ]
)


def _doubts(node: Mapping[str, Any]) -> Iterator[str]:
    if "format" in node and node["format"] not in _FORMATS:
        yield "format"
    if "pattern" in node:
        # It is matched on JSON text, in which quotes and backslashes are spelled differently.
        pattern = node["pattern"]
        if foreign(pattern) is not None or '"' in pattern or r"\\" in pattern:
            yield "pattern"
        yield from sorted({"minLength", "maxLength", "format"} & node.keys())
    elif "format" in node:
        yield from sorted({"minLength", "maxLength"} & node.keys())
    if "minProperties" in node and not node.get("properties"):
        # Members of the same name count as several.
        yield "minProperties"


FRAGMENT = Fragment(
    "xgrammar",
    {
        "number": KEYWORDS["number"] - {"multipleOf"},
        "string": KEYWORDS["string"],
        "array": frozenset(("items", "prefixItems", "minItems", "maxItems")),
        "object": frozenset(("properties", "additionalProperties", "required", "minProperties", "maxProperties")),
    },
    _doubts,
)


class XGrammarConstraint(HeldText):
    """A :class:`~unspool.constrained.base.Constraint` that xgrammar follows.

    ``grammar`` is one of :func:`json_schema`, :func:`regex`, :func:`choice` or :func:`ebnf`, or a JSON Schema,
    which ``strict`` says was demanded; ``end_tokens`` are the tokenizer's unless given. ``self.grammar`` says
    what of an offered schema is not enforced. Raises :class:`GrammarError` for what xgrammar can't take,
    :class:`SchemaError` for a demanded schema that it would not enforce, :class:`ConstraintError` if it isn't
    installed or the tokenizer can't be used.
    """

    def __init__(
        self,
        grammar: Grammar | Mapping[str, Any] | bool,
        tokenizer: Any,
        *,
        strict: bool = True,
        end_tokens: Iterable[int] | None = None,
    ) -> None:
        vocabulary = vocabulary_of(tokenizer)
        library = package("xgrammar", "xgrammar")
        source = source_of(grammar, strict)
        own, compiled = vocabulary.grammars.get(
            ("xgrammar", source), lambda: _compile(source, vocabulary, library)
        )
        super().__init__(own, vocabulary, end_tokens)
        self._matcher = library.GrammarMatcher(compiled)
        self._spare = new_mask(self._size)

    def _may_end(self) -> bool:
        return bool(self._matcher.is_completed())

    def _is_complete(self) -> bool:
        if not self._may_end():
            return False
        self._write(self._spare)
        return not self._spare.any()

    def _write(self, out: Mask) -> None:
        if not self._matcher.fill_next_token_bitmask(out.reshape(1, -1)):
            out.fill(-1)
        out.view(np.uint32)[-1] &= (1 << (self._size & 31)) - 1

    def _take(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def _undo(self, count: int) -> None:
        self._matcher.rollback(count)


def _compile(source: Source, vocabulary: Vocabulary, library: Any) -> tuple[Grammar, Any]:
    """The grammar as xgrammar has it, and what it made of that."""
    grammar = _translate(source)
    compiler = vocabulary.natives.get("xgrammar", lambda: _compiler(vocabulary, library))
    try:
        if source.kind == "json_schema":
            compiled = compiler.compile_json_schema(
                grammar.text, strict_mode=False, max_whitespace_cnt=_MOST_WHITESPACE
            )
        elif source.kind == "regex":
            compiled = compiler.compile_regex(grammar.text)
        else:
            compiled = compiler.compile_grammar(grammar.text)
    except (RuntimeError, ValueError) as error:
        kind = SchemaError if source.kind == "json_schema" else GrammarError
        raise kind(f"xgrammar can't take this: {_reason(error)}") from error
    mask = new_mask(vocabulary.spare)
    library.GrammarMatcher(compiled).fill_next_token_bitmask(mask.reshape(1, -1))
    if not allowed(mask, vocabulary.spare + 1).any():
        raise GrammarError("Nothing satisfies the grammar: no token may come first.")
    return grammar, compiled


def _compiler(vocabulary: Vocabulary, library: Any) -> Any:
    """The tokenizer as xgrammar's compiler, made once, in seconds; neither a marker nor the spare id is text."""
    tokens = [b"" if token in vocabulary.special else data for token, data in enumerate(vocabulary.tokens)]
    info = library.TokenizerInfo(
        [*tokens, b""], library.VocabType.RAW, vocab_size=vocabulary.spare + 1, stop_token_ids=[vocabulary.spare]
    )
    return library.GrammarCompiler(info, cache_enabled=False)


def _translate(source: Source) -> Grammar:
    """What xgrammar gets. Raises :class:`GrammarError`."""
    if source.kind == "json_schema":
        grammar = schema_grammar(source, FRAGMENT)
        return replace(grammar, text=json.dumps(_closed(json.loads(grammar.text))))
    if source.kind == "lark":
        raise GrammarError("xgrammar doesn't read llguidance's Lark; use ebnf, or the backend llguidance.")
    text = source.text
    if source.kind == "choice":
        text = "root ::= " + " | ".join(json.dumps(option, ensure_ascii=False) for option in json.loads(text))
    elif source.kind == "regex":
        text = read_alike(text, "xgrammar")
    return Grammar(text, source=source)


def _closed(schema: Any) -> Any:
    """A schema without other properties beside declared ones, whose names could be spelled with escapes there."""
    for _, node in subschemas(schema):
        if node.get("properties"):
            node["additionalProperties"] = False
    return schema


def _reason(error: Exception) -> str:
    """The message of an error of xgrammar, without the place in its own source that stands before it."""
    return str(error).partition(": ")[2].strip() or str(error)
