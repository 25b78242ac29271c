"""What constraints are measured on: vocabularies, schemas from one string to 73 KB, and documents for each."""

from __future__ import annotations

import json
import pydoc_data.topics
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.constrained import Grammar, json_schema
from unspool.constrained.schema import MAX_STRING

SIZES = {"151k": 151_669, "262k": 262_145}
"""How many tokens the vocabularies of Qwen3 and Gemma 3 have."""

_STRUCTURE = [
    '{"',
    '":',
    '": ',
    '",',
    '"}',
    "},",
    "[{",
    '":"',
    '"]',
    "},{",
    ": {",
    "\n  ",
    "null",
    "true",
    "false",
]


class Synthetic:
    """A vocabulary of so many tokens: every byte, words with and without a space before them, bits of JSON."""

    def __init__(self, size: int) -> None:
        chance = random.Random(size)
        words = dict.fromkeys(_STRUCTURE + _words())
        while len(words) < size - 257:
            word = "".join(chance.choices("etaoinshrdlucmfwypvbgk", k=chance.randint(2, 10)))
            words[chance.choice(("", " ", " ", "_")) + word] = None
        self._pieces = [bytes([byte]) for byte in range(256)] + [word.encode() for word in words]
        self._pieces = [*self._pieces[: size - 1], b"<|end|>"]
        self.size = size
        self.special: Mapping[int, str] = {size - 1: "<|end|>"}
        self.eog = frozenset(self.special)

    def piece(self, token_id: int, /) -> bytes:
        """The bytes of a token."""
        return self._pieces[token_id]


def tokenizer(place: Path) -> Any:
    """The tokenizer of a ``tokenizer.json``."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(place))


def _words() -> list[str]:
    """The words of Python's reference manual, as byte-pair tokenizers cut them."""
    prose = "\n".join(pydoc_data.topics.topics.values())
    return list(dict.fromkeys(re.findall(r" ?[A-Za-z]+|[^\sA-Za-z]{1,3}", prose)))


def _prose(start: int, length: int) -> str:
    text = " ".join(pydoc_data.topics.topics["assignment"].split())
    return (text * (1 + (start + length) // len(text)))[start : start + length]


_ADDRESS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "maxLength": 80},
        "city": {"type": "string"},
        "zip": {"type": "string", "pattern": "^[0-9]{5}(-[0-9]{4})?$"},
        "country": {"enum": ["DE", "FR", "GB", "IT", "JP", "NO", "US"]},
    },
    "required": ["street", "city", "country"],
    "additionalProperties": False,
}
_ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "status": {"enum": ["draft", "open", "paid", "shipped", "returned", "cancelled"]},
        "customer": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 120},
                "email": {"type": "string", "format": "email"},
                "billing": {"$ref": "#/$defs/Address"},
                "shipping": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
            },
            "required": ["name", "billing"],
            "additionalProperties": False,
        },
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
                    "title": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1, "maximum": 999},
                    "price": {"type": "number", "minimum": 0},
                    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
                },
                "required": ["sku", "count", "price"],
                "additionalProperties": False,
            },
            "minItems": 1,
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["id", "status", "customer", "lines"],
    "additionalProperties": False,
    "$defs": {"Address": _ADDRESS},
}


def _node(number: int, count: int) -> dict[str, Any]:
    """One of the definitions of the large schema; it refers to the next ones."""
    fields: dict[str, Any] = {"kind": {"const": f"node_{number}"}}
    for field in range(12):
        options = [f"choice_{number}_{field}_{option}" for option in range(6)]
        kinds: list[dict[str, Any]] = [
            *({"type": kind} for kind in ("string", "integer", "boolean")),
            {"enum": options},
        ]
        kind = kinds[field % 4]
        fields[f"field_{number}_{field}"] = {"description": f"What node {number} says as its {field}.", **kind}
    following = {"$ref": f"#/$defs/Node{(number + 1) % count}"}
    fields["child"] = {"anyOf": [following, {"type": "null"}]}
    fields["others"] = {"type": "array", "items": {"$ref": f"#/$defs/Node{(number + 7) % count}"}}
    return {"type": "object", "properties": fields, "required": ["kind", "child"], "additionalProperties": False}


_NODES = 48
_TREE = {"$ref": "#/$defs/Node0", "$defs": {f"Node{number}": _node(number, _NODES) for number in range(_NODES)}}


def _tree(number: int, depth: int) -> dict[str, Any]:
    """A value that the large schema allows."""
    values: list[Any] = [_prose(number * 50, 60), number * 17, number % 2 == 0, None]
    found: dict[str, Any] = {"kind": f"node_{number}"}
    for field in range(12):
        value = f"choice_{number}_{field}_{number % 6}" if field % 4 == 3 else values[field % 4]
        found[f"field_{number}_{field}"] = value
    found["child"] = _tree((number + 1) % _NODES, depth - 1) if depth else None
    found["others"] = [_tree((number + 7) % _NODES, 0)] if depth else []
    return found


def _order(lines: int) -> dict[str, Any]:
    """A value that the medium schema allows."""
    address = {"street": "1 Long Road", "city": "Oslo", "zip": "01234", "country": "NO"}
    customer = {"name": "Ada Lovelace", "email": "ada@example.org", "billing": address, "shipping": None}
    item = {"sku": "ABC-1234", "title": _prose(100, 40), "count": 3, "price": 12.5, "tags": ["new", "in stock"]}
    return {
        "id": "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
        "status": "shipped",
        "customer": customer,
        "lines": [item | {"sku": f"ABC-{1000 + line}", "title": _prose(line * 40, 40)} for line in range(lines)],
        "note": _prose(0, 200),
    }


def _weather(number: int) -> dict[str, Any]:
    """A value that the small schema allows."""
    return {"city": _prose(number * 30, 30), "unit": "celsius", "days": number, "alerts": number % 2 == 0}


_CALL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer"},
        "alerts": {"type": "boolean"},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}

WORKLOADS: dict[str, tuple[Any, list[Any]]] = {
    "text": ({"type": "string"}, [_prose(0, 1600)]),
    "string": ({"type": "string"}, [_prose(0, 1600)]),
    "small": (_CALL, [_weather(number) for number in range(30)]),
    "medium": (_ORDER, [_order(12)]),
    "large": (_TREE, [_tree(0, 12)]),
}
"""Schemas with documents: a string of any length, one of bounded length, then up to 48 definitions that refer to
each other."""


def grammar(name: str) -> Grammar:
    """The grammar of a workload, with the usual bounds on strings for all but the plain text."""
    return json_schema(WORKLOADS[name][0], max_string=None if name == "text" else MAX_STRING)


def documents(name: str) -> list[bytes]:
    """The documents of a workload, as a model writes them."""
    return [json.dumps(value, ensure_ascii=False).encode() for value in WORKLOADS[name][1]]
