"""The grammar of a turn as servers take it: fields for the body of a request to vLLM, SGLang or llama-server.

The text that is constrained starts where the prompt ends, so this is for endpoints that take a rendered prompt. A
server must not wait for the end of reasoning before its grammar applies, as vLLM does with ``--reasoning-parser``
unless ``enable_in_reasoning`` is set; where it does, give ``reasoning="off"`` and no prompt that leaves it open.
Members of objects come in the order of the schema, and markers are matched by what spells them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from unspool.constrained.backends.fragment import Fragment, schema_grammar
from unspool.constrained.base import GrammarError, SchemaError
from unspool.constrained.grammars import Grammar, Source
from unspool.constrained.subschemas import subschemas
from unspool.constrained.turns import ConstrainedTools, turn_of
from unspool.constrained.turns.gbnf import to_gbnf
from unspool.constrained.turns.keywords import LIMITS
from unspool.constrained.turns.nodes import (
    EMPTY,
    Alt,
    Node,
    Regex,
    Response,
    Seq,
    Text,
    Tree,
    Word,
    alt,
    stoppable,
)
from unspool.constrained.turns.portable import PortableWalk
from unspool.constrained.turns.regular import spelling_none
from unspool.constrained.turns.tags import structural_tag
from unspool.constrained.turns.turn import ReasoningChoice, Turn
from unspool.formats.registry import get_format
from unspool.parsing.binding import bound
from unspool.parsing.declaration import Format
from unspool.parsing.parser import ToolChoice


def _llama_doubts(node: Mapping[str, Any]) -> Iterator[str]:
    if not node.get("$ref", "#/").startswith("#/"):
        yield "$ref"
    if "prefixItems" in node:
        yield from sorted({"items", "minItems", "maxItems"} & node.keys())
    for keyword in LIMITS:
        # Of numbers integers alone are bounded, by one limit on each side.
        doubled = keyword.startswith("exclusive") and keyword[9:].lower() in node
        if keyword in node and (node.get("type") != "integer" or node[keyword] % 1 or doubled):
            yield keyword


_LLAMA = Fragment(
    "llama.cpp",
    {
        "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
        "string": frozenset(("minLength", "maxLength")),
        "array": frozenset(("items", "prefixItems", "minItems", "maxItems")),
        "object": frozenset(("properties", "required", "additionalProperties")),
    },
    _llama_doubts,
)
"""What llama.cpp's converter of schemas (``common/json-schema-to-grammar.cpp``) holds to."""


class TurnOptions(TypedDict, total=False):
    """What a turn is held to, as :func:`~unspool.constrained.turns.turn_grammar` takes it."""

    tools: Sequence[Mapping[str, Any]] | None
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    constrain: ConstrainedTools
    reasoning: ReasoningChoice
    response: Grammar | None
    prompt: str | None


@dataclass(frozen=True, slots=True)
class RemoteConstraint:
    """``fields`` go into the body of a request; ``warnings`` say what of an offered schema they don't hold to."""

    fields: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def for_vllm(format: str | Format, **turn: Unpack[TurnOptions]) -> RemoteConstraint | None:
    """What a model may write in a turn, for vLLM 0.12 and newer; ``None`` if that is anything.

    The field is ``structured_outputs`` of ``/v1/completions`` (``StructuredOutputsParams`` in
    ``vllm/sampling_params.py``), with one of ``json``, ``regex`` and ``choice`` where nothing but an answer may
    come, ``structural_tag`` where calls may come that are JSON between markers, and ``grammar``. Structural tags
    need the backend xgrammar. Raises what :func:`~unspool.constrained.turns.turn_grammar` raises.
    """
    made = _Made.of(format, turn)
    if made is None:
        return None
    if (source := made.answer_alone) is not None:
        key = {"json_schema": "json", "lark": "grammar", "ebnf": "grammar"}.get(source.kind, source.kind)
        is_json = source.kind in ("json_schema", "choice")
        value = json.loads(source.text) if is_json else source.text
        return made.answered({"structured_outputs": {key: value}})
    if (tag := made.tag()) is not None:
        return RemoteConstraint({"structured_outputs": {"structural_tag": json.dumps(tag)}})
    return RemoteConstraint({"structured_outputs": {"grammar": made.gbnf()}}, made.warnings)


def for_sglang(format: str | Format, **turn: Unpack[TurnOptions]) -> RemoteConstraint | None:
    """What a model may write in a turn, for SGLang 0.5; ``None`` if that is anything.

    The fields are those of ``sampling_params`` of ``/generate`` (``SamplingParams`` in
    ``python/sglang/srt/sampling/sampling_params.py``), all of them texts: ``json_schema``, ``regex``, ``ebnf`` and
    ``structural_tag``, of which a request may have one. They need the grammar backend xgrammar, the default.
    Raises what :func:`~unspool.constrained.turns.turn_grammar` raises.
    """
    made = _Made.of(format, turn)
    if made is None:
        return None
    source = made.answer_alone
    if source is not None and source.kind in ("json_schema", "regex", "ebnf"):
        return made.answered({source.kind: source.text})
    if (tag := made.tag()) is not None:
        return RemoteConstraint({"structural_tag": json.dumps(tag)})
    return RemoteConstraint({"ebnf": made.gbnf()}, made.warnings)


def for_llama_server(format: str | Format, **turn: Unpack[TurnOptions]) -> RemoteConstraint | None:
    """What a model may write in a turn, for llama-server; ``None`` if that is anything.

    The fields are ``json_schema`` and ``grammar`` (GBNF) of ``/completion`` and ``/v1/completions``, of which a
    request may have one (``tools/server/README.md``); ``/v1/chat/completions`` refuses ``grammar`` beside tools.
    A schema with keywords that llama.cpp passes over becomes a grammar, too. Raises what
    :func:`~unspool.constrained.turns.turn_grammar` raises.
    """
    made = _Made.of(format, turn)
    if made is None:
        return None
    source = made.answer_alone
    if source is not None and source.kind == "ebnf":
        return made.answered({"grammar": source.text})
    if source is not None and source.kind == "json_schema":
        with suppress(SchemaError):
            held = schema_grammar(Source("json_schema", made.branched), _LLAMA)
            return made.answered({"json_schema": json.loads(held.text)})
    return RemoteConstraint({"grammar": made.gbnf()}, made.warnings)


def turn_gbnf(format: str | Format, **turn: Unpack[TurnOptions]) -> RemoteConstraint | None:
    """What a model may write in a turn, as GBNF in the field ``grammar``; ``None`` if that is anything."""
    made = _Made.of(format, turn)
    return None if made is None else RemoteConstraint({"grammar": made.gbnf()}, made.warnings)


class _Made:
    """A turn and what was asked for."""

    def __init__(self, turn: Turn, options: TurnOptions) -> None:
        self._turn = turn
        self._prompt = options.get("prompt")
        self._response = options.get("response")

    @classmethod
    def of(cls, format: str | Format, options: TurnOptions) -> _Made | None:
        """The turn of a request; ``None`` if it is held to nothing."""
        turn = turn_of(
            bound(get_format(format), prompt=options.get("prompt")),
            tools=options.get("tools"),
            tool_choice=options.get("tool_choice", "auto"),
            parallel_tool_calls=options.get("parallel_tool_calls", True),
            constrain=options.get("constrain", "strict"),
            reasoning=options.get("reasoning", "auto"),
            answers=options.get("response") is not None,
            walks=PortableWalk,
        )
        return None if turn is None else cls(turn, options)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out of the schemas, once the grammar is made."""
        return tuple(dict.fromkeys(self._turn.making.warnings))

    @property
    def answer_alone(self) -> Source | None:
        """What the content is held to if the turn is nothing else, for servers that know such things by name."""
        if self._response is None or self._turn.calls != "none":
            return None
        source = self._response.source
        if source is not None and source.kind == "json_schema" and json.loads(source.text) in (True, {}):
            return None  # servers take an empty schema for none
        return source if _is_answer(self._turn.tree(self._prompt).root) else None

    @property
    def branched(self) -> str:
        """The answer's schema with ``oneOf`` as ``anyOf``, where llguidance found its branches to be disjoint."""
        assert self._response is not None
        assert self._response.source is not None
        schema = json.loads(self._response.source.text)
        for _, node in subschemas(schema) if not self._response.warnings else ():
            if "oneOf" in node and "anyOf" not in node:
                node["anyOf"] = node.pop("oneOf")
        return json.dumps(schema)

    def answered(self, fields: Mapping[str, Any]) -> RemoteConstraint:
        """Fields that hold the content to what was given; the schema's own warnings stay true."""
        return RemoteConstraint(fields, self._response.warnings if self._response else ())

    def tag(self) -> dict[str, Any] | None:
        """The turn as a structural tag, if it can be said so."""
        turn = self._turn
        if turn.calls != "auto" or turn.answers:
            return None
        return structural_tag(
            turn.fmt, turn.tools, parallel=turn.parallel, reasoning=turn.reasoning, prompt=self._prompt
        )

    def gbnf(self) -> str:
        """The whole turn as a grammar. Raises what can't be said in one."""
        turn = self._turn
        tree = turn.tree(self._prompt)
        answer = self._answer() if turn.answers else None
        return to_gbnf(Tree(stoppable(tree.root, turn.fmt.stops), turn.making.rules), answer)

    def _answer(self) -> Node:
        source = self._response.source if self._response else None
        if source is None or source.kind in ("lark", "ebnf"):
            what = {"lark": "A Lark grammar", "ebnf": "An EBNF grammar"}.get(source.kind if source else "", "It")
            raise GrammarError(
                f"{what} can't be part of a turn that a server is asked for; demand a JSON Schema, a regular "
                "expression or a choice, or nothing beside it."
            )
        marks = tuple(self._turn.content_marks())
        if source.kind == "regex":
            return spelling_none(Regex((source.text,)), marks)
        if source.kind == "choice":
            return alt(Word(text) for text in json.loads(source.text))
        schema = json.loads(source.text)
        schema = schema if isinstance(schema, Mapping) else {}
        making = self._turn.making
        walk = PortableWalk(
            schema, "the answer", strict=source.strict, rules=making.rules, warnings=making.warnings, marks=marks
        )
        return walk.json(schema)


def _is_answer(node: Node) -> bool:
    """Whether a turn is what its content is held to, but for texts that may be left out."""
    parts = node.parts if isinstance(node, Seq) else (node,)
    return all(
        isinstance(part, Response)
        or (
            isinstance(part, Alt)
            and EMPTY in part.options
            and all(isinstance(each, Text) for each in part.options)
        )
        for part in parts
    )
