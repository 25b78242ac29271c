"""Other libraries behind the interface of a constraint: what each is given, and what it must not be given.

The two libraries are no part of the development environment, so tests that run them are skipped where they are not
installed. What decides what they get is tested without them.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from tests.constrained.vocabularies import Letters, choices, takes
from unspool.constrained import (
    Constraint,
    ConstraintError,
    Grammar,
    GrammarError,
    LLGuidanceConstraint,
    SchemaError,
    choice,
    constrain,
    ebnf,
    json_object,
    json_schema,
    lark,
    new_mask,
    regex,
)
from unspool.constrained.backends import lmformatenforcer, xgrammar
from unspool.constrained.backends.fragment import Fragment, schema_grammar
from unspool.constrained.backends.held import HeldText
from unspool.constrained.backends.lmformatenforcer import JSONSyntax
from unspool.constrained.backends.patterns import foreign
from unspool.constrained.base import Mask, allow_only, allowed
from unspool.constrained.grammars import Source
from unspool.constrained.vocabulary import vocabulary_of

LETTERS = Letters(
    words=["ab", "abc", '{"', '":', "é", "1}", "]}"],
    special=["<think>", "<|end|>"],
    end=["<|end|>"],
)
THINK, END = sorted(LETTERS.special)
MODULES = {"xgrammar": "xgrammar", "lm-format-enforcer": "lmformatenforcer"}


def needs(backend: str) -> Any:
    """A test that runs a backend where it is installed."""
    module = MODULES.get(backend)
    missing = module is not None and find_spec(module) is None
    return pytest.param(backend, marks=pytest.mark.skipif(missing, reason=f"{backend} is not installed"))


EVERY = [needs(backend) for backend in ("llguidance", *MODULES)]
OTHERS = [needs(backend) for backend in MODULES]
every_backend = pytest.mark.parametrize("backend", EVERY)
other_backend = pytest.mark.parametrize("backend", OTHERS)
with_xgrammar = pytest.mark.parametrize("backend", [needs("xgrammar")])
with_enforcer = pytest.mark.parametrize("backend", [needs("lm-format-enforcer")])


def accepts(grammar: Any, text: str, backend: Any, **options: Any) -> bool:
    """Whether a backend lets a whole text come, token by token, and then an end token."""
    tokens = [*LETTERS.ids(text), END]
    return takes(constrain(grammar, LETTERS, backend=backend, **options), tokens) == len(tokens)


class TestChoosing:
    def test_llguidance_unless_another_is_named(self) -> None:
        held = constrain({"type": "integer"}, LETTERS)
        assert isinstance(held, LLGuidanceConstraint)
        assert takes(held, [*b"12", END]) == 3

    def test_a_grammar_is_taken_as_it_is(self) -> None:
        grammar = regex("a+")
        held = constrain(grammar, LETTERS, end_tokens=[THINK])
        assert isinstance(held, LLGuidanceConstraint)
        assert held.grammar is grammar
        assert held.end_tokens == {THINK}

    def test_a_schema_is_demanded_unless_it_is_offered(self) -> None:
        with pytest.raises(SchemaError, match="uniqueItems"):
            constrain({"type": "array", "uniqueItems": True}, LETTERS)
        constrain({"type": "array", "uniqueItems": True}, LETTERS, strict=False)

    def test_an_unknown_backend(self) -> None:
        with pytest.raises(ConstraintError, match="no backend 'outlines'; choose one of llguidance, xgrammar"):
            constrain(True, LETTERS, backend="outlines")  # type: ignore[arg-type]

    @pytest.mark.parametrize("backend", MODULES)
    def test_a_backend_that_is_not_installed(self, backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, MODULES[backend], None)
        with pytest.raises(ConstraintError, match=rf"needs {backend}: pip install 'unspool\[{backend}\]'"):
            constrain(True, LETTERS, backend=backend)


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in the place of the two libraries, for what is refused before they are used."""
    for module in MODULES.values():
        monkeypatch.setitem(sys.modules, module, type(sys)(module))


@pytest.mark.usefixtures("stand_ins")
class TestRefusing:
    """What a backend can't take is refused before it is asked."""

    @pytest.mark.parametrize("backend", MODULES)
    def test_lark(self, backend: Any) -> None:
        with pytest.raises(GrammarError, match="llguidance"):
            constrain(lark('start: "a"'), LETTERS, backend=backend)

    def test_lm_format_enforcer_reads_no_ebnf(self) -> None:
        with pytest.raises(GrammarError, match="reads no grammars"):
            constrain(ebnf('root ::= "a"'), LETTERS, backend="lm-format-enforcer")

    @pytest.mark.parametrize("backend", MODULES)
    def test_a_grammar_of_which_only_the_text_is_known(self, backend: Any) -> None:
        with pytest.raises(GrammarError, match="make it by json_schema"):
            constrain(Grammar(lark('start: "a"').text), LETTERS, backend=backend)

    @pytest.mark.parametrize("backend", MODULES)
    @pytest.mark.parametrize(("pattern", "index"), [("a(?i)b", 1), (r"a\p{L}", 1), ("[[:alpha:]]", 0), ("a.b", 1)])
    def test_regular_expressions_that_are_read_otherwise(self, backend: Any, pattern: str, index: int) -> None:
        source = Source("regex", pattern)
        with pytest.raises(GrammarError, match=f"{backend} reads this .* from index {index} on"):
            constrain(Grammar("", source=source), LETTERS, backend=backend)

    @pytest.mark.parametrize("backend", MODULES)
    def test_a_demanded_schema_with_what_would_be_ignored(self, backend: Any) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
        with pytest.raises(SchemaError, match=f"by {backend}: 'uniqueItems' at /properties/a") as caught:
            constrain(schema, LETTERS, backend=backend)
        assert (caught.value.keyword, caught.value.pointer) == ("uniqueItems", "/properties/a")

    @pytest.mark.parametrize("backend", MODULES)
    @pytest.mark.parametrize("schema", [{"type": "strin"}, {"minLength": -1}, {"properties": []}])
    def test_a_schema_that_is_none(self, backend: Any, schema: Any) -> None:
        for strict in (True, False):
            with pytest.raises(SchemaError, match="wrong at /") as caught:
                constrain(schema, LETTERS, backend=backend, strict=strict)
            assert caught.value.keyword == next(iter(schema))

    @pytest.mark.parametrize("backend", MODULES)
    def test_a_schema_that_is_no_json(self, backend: Any) -> None:
        with pytest.raises(SchemaError, match="not JSON"):
            constrain({"const": {1, 2}}, LETTERS, backend=backend)
        with pytest.raises(SchemaError, match="allows some value"):
            constrain(False, LETTERS, backend=backend)

    @pytest.mark.parametrize("backend", MODULES)
    def test_a_schema_that_is_nested_too_deeply(self, backend: Any) -> None:
        schema: dict[str, Any] = {}
        for _ in range(400):
            schema = {"type": "array", "items": schema}
        with pytest.raises(SchemaError, match="too deeply"):
            constrain(schema, LETTERS, backend=backend)

    def test_a_schema_without_a_finite_value(self) -> None:
        endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
        with pytest.raises(SchemaError, match="finite") as caught:
            schema_grammar(Source("json_schema", json.dumps(endless)), xgrammar.FRAGMENT)
        assert caught.value.pointer == "/properties/a"


class TestPatterns:
    @pytest.mark.parametrize(
        "pattern",
        [
            "",
            "abc",
            "^abc$",
            r"\d{2,3}(?:-\d+)?",
            "[a-z_]+|é*",
            r"[^\s,]{1,}",
            r"\.\\\x41\u00e9",
            r"(a|b)\$",
            "a*?",
        ],
    )
    def test_what_every_backend_reads_alike(self, pattern: str) -> None:
        assert foreign(pattern) is None

    @pytest.mark.parametrize(
        ("pattern", "index"),
        [
            ("a^b", 1),
            ("a$b", 1),
            ("a.", 1),
            (r"ab\b", 2),
            (r"\Aa", 0),
            (r"a\D", 1),
            ("(?=a)", 0),
            ("(?P<x>a)", 0),
            (r"(a)\1", 3),
            ("[a&&b]", 0),
            ("[[:alpha:]]", 0),
            ("[a", 0),
            ("x{", 1),
        ],
    )
    def test_what_they_do_not(self, pattern: str, index: int) -> None:
        assert foreign(pattern) == index


STRICT_PART = Fragment("it", {"object": frozenset(("properties", "required"))}, lambda node: iter(()))


def reduced(schema: Any, fragment: Fragment = STRICT_PART) -> tuple[Any, list[str]]:
    """What is left of an offered schema, and where something was left out."""
    grammar = schema_grammar(Source("json_schema", json.dumps(schema), strict=False), fragment)
    return json.loads(grammar.text), [warning.partition(" of the schema")[0] for warning in grammar.warnings]


class TestFragments:
    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"type": "null", "title": "x", "x-own": 1},
            {"const": 1},
            {"enum": [1, "a"]},
            {"anyOf": [{"type": "null"}, {"const": 1}]},
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ],
    )
    def test_what_is_inside(self, schema: Any) -> None:
        assert reduced(schema) == (schema, [])

    @pytest.mark.parametrize(
        ("schema", "left", "gaps"),
        [
            ({"type": "integer", "minimum": 1}, {"type": "integer"}, ["'minimum' at the root"]),
            ({"not": {"type": "null"}}, {}, ["'not' at the root"]),
            ({"$ref": "#/$defs/a", "type": "null", "$defs": {"a": {}}}, None, ["'type' at the root"]),
            ({"$ref": "other.json"}, {}, ["'$ref' at the root"]),
            ({"$dynamicRef": "#a"}, {}, ["'$dynamicRef' at the root"]),
            ({"oneOf": [{"const": 1}]}, {"anyOf": [{"const": 1}]}, ["'oneOf' at the root"]),
            ({"allOf": [{"const": 1}, {}]}, {}, ["'allOf' at the root"]),
            ({"type": "null", "anyOf": [{}]}, {"type": "null"}, ["'anyOf' at the root"]),
            ({"anyOf": [{"if": {}, "then": {}}]}, {"anyOf": [{}]}, ["'if' at /anyOf/0", "'then' at /anyOf/0"]),
            ({"anyOf": [{"$id": "x"}]}, {"anyOf": [{}]}, ["'$id' at /anyOf/0"]),
            ({"minimum": 1, "maxLength": 1}, {}, ["'maxLength' at the root", "'minimum' at the root"]),
        ],
    )
    def test_what_is_left_out_is_named(self, schema: Any, left: Any, gaps: list[str]) -> None:
        assert reduced(schema)[1] == gaps
        if left is not None:
            assert reduced(schema)[0] == left
        with pytest.raises(SchemaError):
            schema_grammar(Source("json_schema", json.dumps(schema)), STRICT_PART)

    def test_an_implied_type_is_required(self) -> None:
        assert reduced({"properties": {"a": {}}})[0] == {"properties": {"a": {}}, "type": "object"}

    def test_a_single_alternative_is_no_alternative(self) -> None:
        assert reduced({"allOf": [{"const": 1}]}) == ({"anyOf": [{"const": 1}]}, [])

    def test_listed_values_are_those_of_the_type(self) -> None:
        assert reduced({"type": ["integer", "null"], "enum": [1, 1.0, 1.5, True, None, "a"]}) == (
            {"enum": [1, 1.0, None]},
            [],
        )
        assert reduced({"type": "string", "const": 1})[1] == ["'type' at the root"]

    def test_what_is_required_is_declared(self) -> None:
        schema = {"type": "object", "required": ["a", "b"], "properties": {"a": {"const": 1}}}
        assert reduced(schema)[0]["properties"] == {"a": {"const": 1}, "b": {}}
        closed = Fragment(
            "it", {"object": frozenset(("required", "properties", "additionalProperties"))}, iter_none
        )
        others = {"type": "object", "required": ["a"], "additionalProperties": {"const": 2}}
        assert reduced(others, closed)[0]["properties"] == {"a": {"const": 2}}

    def test_a_finished_value_is_checked_against_the_whole_schema(self) -> None:
        schema = {"type": "integer", "minimum": 3}
        grammar = schema_grammar(Source("json_schema", json.dumps(schema), strict=False), STRICT_PART)
        assert grammar.problems("4") == []
        assert grammar.problems("1") != []

    @pytest.mark.parametrize("fragment", [xgrammar.FRAGMENT, lmformatenforcer.FRAGMENT], ids=lambda f: f.name)
    @pytest.mark.parametrize(
        ("schema", "gap"),
        [
            ({"type": "number", "multipleOf": 2}, "multipleOf"),
            ({"type": "string", "pattern": "a.b"}, "pattern"),
            ({"type": "string", "pattern": r"a\\b"}, "pattern"),
            ({"type": "string", "pattern": 'a"b'}, "pattern"),
            ({"type": "string", "pattern": "a", "maxLength": 3}, "maxLength"),
            ({"type": "string", "format": "hostname"}, "format"),
            ({"type": "object", "minProperties": 1}, "minProperties"),
            ({"type": "object", "patternProperties": {}}, "patternProperties"),
            ({"type": "array", "contains": {}}, "contains"),
        ],
    )
    def test_what_neither_library_enforces(self, fragment: Fragment, schema: Any, gap: str) -> None:
        assert reduced(schema, fragment)[1] == [f"{gap!r} at the root"]

    @pytest.mark.parametrize(
        ("schema", "gap"),
        [
            ({"$ref": "#"}, "$ref"),
            ({"const": 'a"b'}, "const"),
            ({"const": 1}, "const"),
            ({"enum": ["a", 1]}, "enum"),
            ({"enum": [True]}, "enum"),
            ({"enum": [1e30]}, "enum"),
            ({"type": "object", "properties": {'a"': {}}}, "properties"),
            ({"type": "object", "properties": {"a": False}}, "properties"),
            ({"type": "object", "additionalProperties": False}, "additionalProperties"),
            ({"type": "array", "items": False}, "items"),
            ({"type": "integer", "minimum": 1}, "minimum"),
            ({"anyOf": [False]}, "anyOf"),
        ],
    )
    def test_what_lm_format_enforcer_would_get_wrong(self, schema: Any, gap: str) -> None:
        assert reduced(schema, lmformatenforcer.FRAGMENT)[1] == [f"{gap!r} at the root"]


def iter_none(_: Any) -> Any:
    return iter(())


class OneText(HeldText):
    """Follows one text, which may end after each of its halves."""

    def __init__(self, text: str) -> None:
        super().__init__(Grammar(text), vocabulary_of(LETTERS), None)
        self.text = text.encode()
        self.at = 0

    def _may_end(self) -> bool:
        return self.at in (len(self.text) // 2, len(self.text))

    def _is_complete(self) -> bool:
        return self.at == len(self.text)

    def _write(self, out: Mask) -> None:
        allow_only(out, [] if self._is_complete() else [self.text[self.at]])

    def _take(self, token: int) -> bool:
        taken = not self._is_complete() and token == self.text[self.at]
        self.at += taken
        return taken

    def _undo(self, count: int) -> None:
        self.at -= count


class TestHeldText:
    def test_it_is_a_constraint(self) -> None:
        held = OneText("ab")
        assert isinstance(held, Constraint)
        assert held.vocab_size == LETTERS.size
        assert takes(held, [ord("a"), ord("b"), END, END]) == 4
        assert held.is_stopped

    def test_end_tokens_come_where_the_text_may_end(self) -> None:
        held: Any = OneText("ab")
        assert choices(held) == {ord("a")}
        assert not held.accept(END)
        held.accept(ord("a"))
        assert (held.may_end, held.is_stopped) == (True, False)
        assert choices(held) == {ord("b"), END}
        held.accept(END)
        assert choices(held) == {END}
        assert not held.accept(ord("b"))

    def test_rollback_over_the_end(self) -> None:
        held = OneText("ab")
        for token in (ord("a"), END, END):
            held.accept(token)
        held.rollback(3)
        assert takes(held, [ord("a"), ord("b"), END]) == 3
        held.rollback(2)
        assert choices(held) == {ord("b"), END}
        with pytest.raises(ValueError, match="1 tokens to roll back, not 2"):
            held.rollback(2)

    def test_a_mask_of_another_size(self) -> None:
        with pytest.raises(ConstraintError, match="new_mask"):
            OneText("ab").mask(new_mask(LETTERS.size + 32))

    def test_end_tokens_must_be_tokens(self) -> None:
        with pytest.raises(ConstraintError, match="End token"):
            constrain(True, LETTERS, end_tokens=[10**6])


class Anything:
    """A parser of lm-format-enforcer that takes any character."""

    def __init__(self) -> None:
        self.config = ""

    def add_character(self, character: str) -> Anything:
        return self

    def get_allowed_characters(self) -> str:
        return '"\\,.eE1]}\n a'

    def can_end(self) -> bool:
        return True

    def shortcut_key(self) -> str:
        return "free"


class TestJSONSyntax:
    @pytest.mark.parametrize(
        ("text", "forbidden"),
        [
            ("[1,", "]}"),
            ("[1, \n", "]}"),
            ('["a,', "\n"),
            ('["a"', ""),
            ("1.", '"\\,.eE]}\n a'),
            ("1", "eE"),
            ("tru", ""),
            (r'"\"', "\n"),
            (r'"\\"', ""),
        ],
    )
    def test_what_may_not_come(self, text: str, forbidden: str) -> None:
        parser = JSONSyntax(Anything())
        for character in text:
            parser = parser.add_character(character)
        assert set(Anything().get_allowed_characters()) - set(parser.get_allowed_characters()) == set(forbidden)
        assert parser.can_end() == (not text.endswith("."))

    def test_it_hands_on_what_the_enforcer_asks(self) -> None:
        parser = JSONSyntax(Anything())
        parser.config = "letters"
        assert (parser.config, parser.shortcut_key(), parser.cache_key()) == ("letters", "free", None)


@every_backend
class TestEveryBackend:
    SCHEMA: Any = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"enum": ["x", "y"]},
            "c": {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 2},
            "d": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d"}]},
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"d": {"type": "boolean"}},
    }

    @pytest.mark.parametrize(
        ("text", "whole"),
        [
            ('{"a": 12}', True),
            ('{"a":1,"b":"y","c":["ab",""],"d":true}', True),
            ('{"a": 1, "d": null}', True),
            ("{}", False),
            ('{"a": "x"}', False),
            ('{"a": 1, "b": "z"}', False),
            ('{"a": 1, "c": ["abc"]}', False),
            ('{"a": 1, "c": ["a","a","a"]}', False),
            ('{"a": 1, "e": 1}', False),
            ('{"a": 1,}', False),
            ("[]", False),
        ],
    )
    def test_schemas(self, backend: Any, text: str, whole: bool) -> None:
        assert accepts(self.SCHEMA, text, backend) == whole
        assert accepts(json_schema(self.SCHEMA), text, backend) == whole

    def test_any_object(self, backend: Any) -> None:
        assert accepts(json_object(), '{"a": [1, null, {"b": "x"}]}', backend)
        assert not accepts(json_object(), "[1]", backend)

    def test_regular_expressions(self, backend: Any) -> None:
        assert accepts(regex("[a-c]+x?"), "abcx", backend)
        assert not accepts(regex("[a-c]+x?"), "abd", backend)

    @pytest.mark.parametrize("text", ["plain", 'quo"te', "back\\slash", "two\nlines", "<think>", "/x/"])
    def test_choices(self, backend: Any, text: str) -> None:
        tokens = [*text.encode(), END]
        assert takes(constrain(choice([text, "other"]), LETTERS, backend=backend), tokens) == len(tokens)
        assert not accepts(choice([text, "other"]), "oth", backend)

    def test_markers_never_stand_for_text(self, backend: Any) -> None:
        held = constrain({"const": "<think>"}, LETTERS, backend=backend)
        held.accept(ord('"'))
        assert THINK not in choices(held)
        assert not held.accept(THINK)

    def test_a_refused_token_changes_nothing(self, backend: Any) -> None:
        held = constrain(regex("abc+"), LETTERS, backend=backend)
        held.accept(ord("a"))
        before = choices(held)
        for token in (ord("x"), END, THINK, LETTERS.size, LETTERS.size + 1, -1, 10**9):
            assert not held.accept(token)
            assert choices(held) == before
        assert takes(held, [*b"bc", END]) == 3

    def test_rollback_is_exact_at_every_length(self, backend: Any) -> None:
        tokens = [*LETTERS.ids('{"a": 1, "c": ["a"]}'), END]
        held = constrain(self.SCHEMA, LETTERS, backend=backend)
        assert isinstance(held, Constraint)
        masks = []
        for token in tokens:
            masks.append(choices(held))
            assert held.accept(token)
        for length in range(len(tokens)):
            held.rollback(len(tokens) - length)
            assert choices(held) == masks[length]
            assert takes(held, tokens[length:]) == len(tokens) - length

    def test_ends(self, backend: Any) -> None:
        held: Any = constrain(regex("ab?"), LETTERS, backend=backend)
        assert (held.may_end, held.is_stopped) == (False, False)
        held.accept(ord("a"))
        assert (held.may_end, held.is_stopped) == (True, False)
        assert choices(held) == {ord("b"), END}
        held.accept(ord("b"))
        assert (held.may_end, held.is_stopped) == (True, True)
        assert choices(held) == {END}

    def test_finished_json_is_stopped(self, backend: Any) -> None:
        schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
        held = constrain(schema, LETTERS, backend=backend)
        assert takes(held, LETTERS.ids("{}")) == 2
        assert held.is_stopped

    def test_the_spare_bit_is_0(self, backend: Any) -> None:
        held = constrain(regex("[^x]*"), LETTERS, backend=backend)
        mask = new_mask(held.vocab_size)
        held.mask(mask)
        assert not allowed(mask, mask.size * 32)[held.vocab_size :].any()

    def test_the_mask_may_be_a_row_of_a_batch(self, backend: Any) -> None:
        held = constrain(regex("a"), LETTERS, backend=backend)
        rows = np.stack([new_mask(LETTERS.size)] * 2)
        held.mask(rows[1])
        assert np.flatnonzero(allowed(rows[1], 300)).tolist() == [ord("a")]
        assert allowed(rows[0], LETTERS.size).all()

    def test_an_offered_schema_says_what_is_not_enforced(self, backend: Any) -> None:
        held: Any = constrain({"type": "array", "uniqueItems": True}, LETTERS, backend=backend, strict=False)
        assert takes(held, LETTERS.ids("[1, 1]")) == 6
        assert "'uniqueItems' at the root" in held.grammar.warnings[0]
        assert held.grammar.problems("[1, 1]")
        assert not held.grammar.problems("[1, 2]")


@with_xgrammar
class TestXGrammar:
    def test_ebnf(self, backend: Any) -> None:
        grammar = ebnf('root ::= "a" item+\nitem ::= [b-d]')
        assert accepts(grammar, "abd", backend)
        assert not accepts(grammar, "ae", backend)

    def test_other_properties_come_only_where_none_is_declared(self, backend: Any) -> None:
        """Otherwise a declared name could be written with an escape, and its value be anything."""
        schema = {"type": "object", "properties": {"foo": {"type": "integer"}}}
        assert not accepts(schema, r'{"f\u006fo": "x"}', backend)
        assert not accepts({**schema, "additionalProperties": {"type": "string"}}, '{"b": "x"}', backend)
        assert accepts({"type": "object", "additionalProperties": {"type": "string"}}, '{"b": "x"}', backend)

    def test_what_it_refuses_itself(self, backend: Any) -> None:
        with pytest.raises(SchemaError, match=r"can.t take this"):
            constrain({"const": "\ud800"}, LETTERS, backend=backend)
        with pytest.raises(SchemaError, match=r"xgrammar can.t take this: .*false"):
            constrain({"type": "object", "properties": {"a": False}}, LETTERS, backend=backend)

    def test_the_tokenizer_and_a_schema_are_compiled_once(self, backend: Any) -> None:
        vocabulary = vocabulary_of(Letters(special=["<|end|>"], end=["<|end|>"]))
        for _ in range(3):
            constrain({"type": "integer"}, vocabulary, backend=backend)
        assert (vocabulary.natives.made, vocabulary.grammars.made) == (1, 1)


@with_enforcer
class TestLMFormatEnforcer:
    @pytest.mark.parametrize(
        ("kind", "text"), [("number", "1.e5"), ("integer", "1e-5"), ("number", "1."), ("string", '"a\nb"')]
    )
    def test_what_it_would_take_and_is_no_json(self, backend: Any, kind: str, text: str) -> None:
        assert not accepts({"type": kind}, text, backend)

    def test_only_whole_characters_are_offered(self, backend: Any) -> None:
        held = constrain({"type": "string"}, LETTERS, backend=backend)
        held.accept(ord('"'))
        assert not choices(held) & set(range(0x80, 0x100))
        assert takes(held, [*LETTERS.ids('é"'), END]) == 3

    def test_whitespace_behind_finished_json_is_no_text(self, backend: Any) -> None:
        held = constrain({"type": "array", "maxItems": 1}, LETTERS, backend=backend)
        assert takes(held, LETTERS.ids("[1]")) == 3
        assert held.is_stopped
        assert choices(held) == {END}
