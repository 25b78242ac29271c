"""lm-format-enforcer as a backend: JSON Schema, regular expressions and choices.

A text is followed character by character, so only tokens that are whole characters can be offered, and each mask
takes milliseconds. Of JSON Schema it gets the fragment that it enforces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unspool.constrained.backends.fragment import RESTRICTING, Fragment, schema_grammar
from unspool.constrained.backends.held import HeldText, package, source_of
from unspool.constrained.backends.patterns import foreign, read_alike
from unspool.constrained.base import ConstraintError, GrammarError, Mask, SchemaError
from unspool.constrained.grammars import Grammar, Source
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of

_WHITESPACE = frozenset(" \t\r\n")
_REFERENCE = re.compile(r"#/\$defs/[^/~%]+")
_TYPES = ("null", "boolean", "number", "string", "array", "object")


def _is_plain(text: str) -> bool:
    """Whether JSON spells a text as it is."""
    return json.dumps(text, ensure_ascii=False)[1:-1] == text


def _is_listable(values: list[Any]) -> bool:
    """Whether it spells all these values as JSON does: plain texts, or numbers without an exponent."""
    if all(isinstance(value, str) for value in values):
        return all(map(_is_plain, values))
    return all(type(value) in (int, float) and "e" not in str(value) for value in values)


def _doubts(node: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in node and not _REFERENCE.fullmatch(node["$ref"]):
        yield "$ref"
    if "const" in node and not (isinstance(node["const"], str) and _is_plain(node["const"])):
        yield "const"
    if "enum" in node and not _is_listable(node["enum"]):
        yield "enum"
    if "pattern" in node:
        pattern = node["pattern"]
        if foreign(pattern) is not None or '"' in pattern or r"\\" in pattern:
            yield "pattern"
        yield from sorted({"minLength", "maxLength"} & node.keys())
    properties = node.get("properties", {})
    if not all(map(_is_plain, properties)) or False in properties.values():
        yield "properties"
    if node.get("additionalProperties") is False and "properties" not in node:
        yield "additionalProperties"
    if node.get("items") is False:
        yield "items"
    if not any(branch is not False for branch in node.get("anyOf", [True])):
        yield "anyOf"


FRAGMENT = Fragment(
    "lm-format-enforcer",
    {
        "string": frozenset(("minLength", "maxLength", "pattern")),
        "array": frozenset(("items", "minItems", "maxItems")),
        "object": frozenset(("properties", "additionalProperties", "required")),
    },
    _doubts,
)


class LMFormatEnforcerConstraint(HeldText):
    """A :class:`~unspool.constrained.base.Constraint` that lm-format-enforcer follows.

    ``grammar`` is one of :func:`json_schema`, :func:`regex` or :func:`choice`, or a JSON Schema, which ``strict``
    says was demanded; ``end_tokens`` are the tokenizer's unless given. ``self.grammar`` says what of an offered
    schema is not enforced. Raises :class:`GrammarError` for what it can't take, :class:`SchemaError` for a
    demanded schema that it would not enforce, :class:`ConstraintError` if it isn't installed or the tokenizer
    can't be used.
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
        library = package("lmformatenforcer", "lm-format-enforcer")
        source = source_of(grammar, strict)
        own = _translate(source)
        super().__init__(own, vocabulary, end_tokens)
        self._texts, data = vocabulary.natives.get("lm-format-enforcer", lambda: _tokenizer(vocabulary, library))
        # Behind finished JSON it would let whitespace go on.
        self._idle = _WHITESPACE if source.kind == "json_schema" else frozenset()
        try:
            self._enforcer = library.TokenEnforcer(data, _parser(own, library))
        except Exception as error:  # it has no errors of its own
            kind = SchemaError if source.kind == "json_schema" else GrammarError
            raise kind(f"lm-format-enforcer can't take this: {error}") from error
        self._parsers = [self._enforcer.root_parser]

    def _may_end(self) -> bool:
        return bool(self._parsers[-1].can_end())

    def _is_complete(self) -> bool:
        parser = self._parsers[-1]
        return parser.can_end() and self._idle.issuperset(parser.get_allowed_characters())

    def _write(self, out: Mask) -> None:
        out.fill(0)
        if self._is_complete():
            return
        # A state alone decides, so that a step costs the same at any length.
        self._enforcer.root_parser = self._parsers[-1]
        self._enforcer.prefix_states.clear()
        tokens = self._enforcer.get_allowed_tokens([]).allowed_tokens
        bits = np.zeros(out.size * 32, np.bool_)
        bits[tokens] = True
        ends = bits[self._size]
        if ends and not self._may_end():
            raise ConstraintError("lm-format-enforcer can't go on here.")
        bits[self._size] = False
        out.view(np.uint8)[:] = np.packbits(bits, bitorder="little")

    def _take(self, token: int) -> bool:
        text = self._texts.get(token)
        if text is None or self._is_complete():
            return False
        parser = self._parsers[-1]
        for character in text:
            if character not in parser.get_allowed_characters():
                return False
            parser = parser.add_character(character)
        self._parsers.append(parser)
        return True

    def _undo(self, count: int) -> None:
        del self._parsers[-count:]


class JSONSyntax:
    """A parser of lm-format-enforcer, held to the syntax of JSON where it isn't.

    It would take a comma before a closing bracket, ``1.e5``, ``1e-5`` as an integer, and line breaks in strings.
    """

    def __init__(self, parser: Any, *, last: str = "", in_string: bool = False, escaped: bool = False) -> None:
        self._parser = parser
        self._last = last  # the character before this one, whitespace outside of strings left out
        self._in_string = in_string
        self._escaped = escaped

    @property
    def config(self) -> Any:
        """The settings of the parser, which its enforcer sets."""
        return self._parser.config

    @config.setter
    def config(self, config: Any) -> None:
        self._parser.config = config

    def add_character(self, character: str) -> JSONSyntax:
        """The state after one more character."""
        closes = character == '"' and not self._escaped
        keeps = self._in_string or character not in _WHITESPACE
        return JSONSyntax(
            self._parser.add_character(character),
            last=character if keeps else self._last,
            in_string=self._in_string != closes,
            escaped=self._in_string and character == "\\" and not self._escaped,
        )

    def get_allowed_characters(self) -> str:
        """The characters that may come next."""
        allowed: str = self._parser.get_allowed_characters()
        if self._in_string:
            return "".join(character for character in allowed if character >= " ")
        if self._last == ".":
            return "".join(character for character in allowed if character.isdigit())
        if self._last == ",":
            return allowed.replace("}", "").replace("]", "")
        return allowed.replace("e", "").replace("E", "") if self._last.isdigit() else allowed

    def can_end(self) -> bool:
        """Whether the text may end here."""
        return self._last != "." and bool(self._parser.can_end())

    def shortcut_key(self) -> Any:
        """What the enforcer may take a shortcut by; its shortcuts keep to JSON."""
        return self._parser.shortcut_key()

    def cache_key(self) -> Any:
        """Nothing to keep results by."""
        return None


def _parser(grammar: Grammar, library: Any) -> Any:
    """The parser of what :func:`_translate` made."""
    assert grammar.source is not None
    if grammar.source.kind == "regex":
        return library.RegexParser(grammar.text)
    if grammar.source.kind == "choice":
        return library.UnionParser([library.StringParser(text) for text in json.loads(grammar.text)])
    return JSONSyntax(library.JsonSchemaParser(json.loads(grammar.text)))


def _translate(source: Source) -> Grammar:
    """What it gets. Raises :class:`GrammarError`."""
    if source.kind == "json_schema":
        grammar = schema_grammar(source, FRAGMENT)
        return replace(grammar, text=json.dumps(_spelled_out(json.loads(grammar.text))))
    if source.kind in ("lark", "ebnf"):
        raise GrammarError("lm-format-enforcer reads no grammars; use the backend llguidance.")
    text = source.text
    if source.kind == "regex":
        text = read_alike(text, "lm-format-enforcer")
        # The whole text is meant anyway.
        text = text.removeprefix("^")
        text = text if text.endswith("\\$") else text.removesuffix("$")
    return Grammar(text, source=source)


def _spelled_out(schema: Any) -> Any:
    """A schema of the fragment in which each subschema has one type; of several it would read only the names."""
    if schema is True or schema.keys().isdisjoint(RESTRICTING):
        schema = {**(schema if isinstance(schema, dict) else {}), "type": list(_TYPES)}
    spelled = {key: value for key, value in schema.items() if key in RESTRICTING}
    for key in ("items", "additionalProperties"):
        if spelled.get(key, False) is not False:
            spelled[key] = _spelled_out(spelled[key])
    if "properties" in spelled:
        spelled["properties"] = {name: _spelled_out(member) for name, member in spelled["properties"].items()}
    if "anyOf" in spelled:
        spelled["anyOf"] = [_spelled_out(branch) for branch in spelled["anyOf"] if branch is not False]
    if isinstance(spelled.get("type"), list):
        spelled = {"anyOf": [_of_type(spelled, kind) for kind in spelled["type"]]}
    if "$defs" in schema:
        spelled["$defs"] = {
            name: _spelled_out(member) for name, member in schema["$defs"].items() if member is not False
        }
    return spelled


def _of_type(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a schema says of one of its types."""
    keywords = FRAGMENT.keywords.get(kind, frozenset())
    return {"type": kind, **{key: value for key, value in schema.items() if key in keywords}}


def _tokenizer(vocabulary: Vocabulary, library: Any) -> tuple[dict[int, str], Any]:
    """The text of each token that is whole characters, and the tokenizer as lm-format-enforcer has it."""
    texts = {}
    for token, data in enumerate(vocabulary.tokens):
        try:
            text = "" if token in vocabulary.special else data.decode()
        except UnicodeDecodeError:
            continue
        if text:
            texts[token] = text
    data = library.TokenEnforcerTokenizerData(
        [(token, text, True) for token, text in texts.items()],
        lambda tokens: "".join(texts[token] for token in tokens),
        vocabulary.spare,
        False,
        vocabulary.spare + 1,
    )
    return texts, data
