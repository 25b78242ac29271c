"""The schemas that Moonshot's validator calls valid, as a strict ``response_format``: taken, or refused at once.

Its data stays outside this project: it is looked for in ``../shared/jsonschema/walle`` beside the checkout, or
where ``UNSPOOL_WALLE`` points.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.constrained.vocabularies import Letters
from unspool.constrained import new_mask
from unspool.server.constraints import Demands, hold
from unspool.surfaces.conversation import Conversation, Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields
from unspool.surfaces.output_format import decode_output_format

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("UNSPOOL_WALLE", ROOT.parent / "shared" / "jsonschema" / "walle"))
ABSENT = f"There are no schemas of walle at {DATA}; set UNSPOOL_WALLE to measure against them."

LETTERS = Letters(special=["<|im_start|>", "<|im_end|>"], end=["<|im_end|>"])
PARAM = "response_format.json_schema.schema"


def refusal(schema: Any) -> InvalidRequestError | None:
    """Why a request that demands this schema is refused; ``None`` when its answer could begin."""
    response_format = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    output = decode_output_format(Fields({"response_format": response_format}))
    talk = Conversation((Turn("user", ("Hi",)),))
    try:
        held = hold(unspool.get_format("hermes"), LETTERS, "<|im_start|>assistant\n", Demands(talk, output), 1)
    except InvalidRequestError as error:
        return error
    (constraint,) = held.constraints
    assert constraint is not None
    mask = new_mask(constraint.vocab_size)
    constraint.mask(mask)
    assert mask.any()
    assert held.grammar is not None
    assert held.grammar.warnings == ()
    return None


def test_every_schema_is_enforced_or_refused_with_its_keyword_and_place() -> None:
    paths = sorted(DATA.rglob("validator_cases/*/valid.jsonl"))
    if not paths:
        pytest.skip(ABSENT)
    schemas = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    refusals = [(schema, error) for schema in schemas if (error := refusal(schema))]
    assert len(schemas) == 212
    for _, error in refusals:
        assert (error.status, error.param, error.code) == (400, PARAM, "invalid_json_schema")
        assert re.search(r"'\w+' at (the root|/\S+):", error.message), error.message
    assert [schema for schema, _ in refusals] == [{"minLength": 999999999999, "type": "string"}]
