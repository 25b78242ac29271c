from __future__ import annotations

import logging
from typing import Any

import pytest

from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields
from unspool.surfaces.output_format import OutputFormat, decode_output_format, read_response_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def response_format(**json_schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def decoded(**fields: Any) -> OutputFormat | None:
    return decode_output_format(Fields(fields))


def refusal(**fields: Any) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        decoded(**fields)
    return caught.value


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": None},
        {"response_format": {"type": "text"}},
        {"structured_outputs": {}},
        {"guided_json": {}, "guided_regex": "", "guided_choice": [], "guided_grammar": None},
    ],
)
def test_without_a_demand_any_text_will_do(fields: dict[str, Any]) -> None:
    assert decoded(**fields) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("json_schema", 0),
        ("guided_json", []),
        ("ebnf", {}),
        ("grammar", False),
        ("regex", []),
        ("guided_regex", 0),
        ("guided_choice", {}),
    ],
)
def test_what_is_empty_and_of_another_type_is_refused(name: str, value: Any) -> None:
    assert refusal(**{name: value}).param == name


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response_format": {"type": "json_object"}}, OutputFormat("json_object", "response_format")),
        (
            response_format(name="n", schema=SCHEMA),
            OutputFormat("json_schema", "response_format.json_schema.schema", SCHEMA),
        ),
        (
            response_format(name="n", schema=SCHEMA, strict=True),
            OutputFormat("json_schema", "response_format.json_schema.schema", SCHEMA),
        ),
        (
            response_format(schema={}, strict=False),
            OutputFormat("json_schema", "response_format.json_schema.schema", {}, strict=False),
        ),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            OutputFormat("json_schema", "response_format.schema", SCHEMA),
        ),
        (
            {"structured_outputs": {"json": SCHEMA}},
            OutputFormat("json_schema", "structured_outputs.json", SCHEMA),
        ),
        (
            {"structured_outputs": {"json": '{"type": "null"}'}},
            OutputFormat("json_schema", "structured_outputs.json", {"type": "null"}),
        ),
        ({"structured_outputs": {"json": True}}, OutputFormat("json_schema", "structured_outputs.json", True)),
        ({"structured_outputs": {"regex": "a+"}}, OutputFormat("regex", "structured_outputs.regex", "a+")),
        (
            {"structured_outputs": {"choice": ["a", "b"]}},
            OutputFormat("choice", "structured_outputs.choice", ("a", "b")),
        ),
        (
            {"structured_outputs": {"grammar": 'root ::= "a"'}},
            OutputFormat("ebnf", "structured_outputs.grammar", 'root ::= "a"'),
        ),
        (
            {"structured_outputs": {"grammar": 'start: "a"'}},
            OutputFormat("lark", "structured_outputs.grammar", 'start: "a"'),
        ),
        (
            {"structured_outputs": {"json_object": True, "json": None}},
            OutputFormat("json_object", "structured_outputs.json_object"),
        ),
        ({"guided_json": SCHEMA}, OutputFormat("json_schema", "guided_json", SCHEMA)),
        ({"guided_regex": "a+"}, OutputFormat("regex", "guided_regex", "a+")),
        ({"guided_choice": ["a"]}, OutputFormat("choice", "guided_choice", ("a",))),
        ({"guided_grammar": 'root ::= "a"'}, OutputFormat("ebnf", "guided_grammar", 'root ::= "a"')),
        ({"json_schema": '{"type": "null"}'}, OutputFormat("json_schema", "json_schema", {"type": "null"})),
        ({"regex": "a+"}, OutputFormat("regex", "regex", "a+")),
        ({"ebnf": 'root ::= "a"'}, OutputFormat("ebnf", "ebnf", 'root ::= "a"')),
        ({"grammar": 'root ::= "a"'}, OutputFormat("ebnf", "grammar", 'root ::= "a"')),
    ],
)
def test_every_spelling_of_a_demand(fields: dict[str, Any], expected: OutputFormat) -> None:
    assert decoded(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        (response_format(name="n"), "response_format.json_schema.schema"),
        (response_format(name="n", schema=[]), "response_format.json_schema.schema"),
        (response_format(name="n", schema="{"), "response_format.json_schema.schema"),
        (response_format(name=5, schema={}), "response_format.json_schema.name"),
        (response_format(schema={}, strict="yes"), "response_format.json_schema.strict"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"whitespace_pattern": " "}}, "structured_outputs"),
        ({"structured_outputs": {"json": 5}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": "[" * 9999}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", ""]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 5]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"grammar": 5}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"json_object": "yes"}}, "structured_outputs.json_object"),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"guided_choice": "a"}, "guided_choice"),
        ({"guided_grammar": ["a"]}, "guided_grammar"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.status) == (param, 400)
    assert f"`{param}`" in error.message


@pytest.mark.parametrize(
    ("fields", "one", "other"),
    [
        (
            {"response_format": {"type": "json_object"}, "guided_regex": "a"},
            "response_format",
            "guided_regex",
        ),
        (
            {**response_format(schema={}), "structured_outputs": {"choice": ["a"]}},
            "response_format",
            "structured_outputs",
        ),
        ({"guided_json": SCHEMA, "guided_choice": ["a"]}, "guided_json", "guided_choice"),
        (
            {"structured_outputs": {"json": {}, "json_object": True}},
            "structured_outputs.json",
            "structured_outputs.json_object",
        ),
    ],
)
def test_two_demands_at_once_are_an_error_that_names_both(fields: dict[str, Any], one: str, other: str) -> None:
    error = refusal(**fields)
    assert error.status == 400
    assert f"`{one}` and `{other}`" in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structural_tag": {"format": {}}}, "structural_tag"),
        ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag"),
        ({"response_format": {"type": "structural_tag", "format": {}}}, "response_format"),
    ],
)
def test_a_structural_tag_is_refused_with_a_reason(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, "unsupported_parameter")
    assert "`tool_choice`" in error.message


def test_what_is_left_out_of_structured_outputs_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        decoded(structured_outputs={"json": {}, "disable_any_whitespace": True})
    assert "disable_any_whitespace" in caplog.text


def test_the_younger_apis_have_the_schema_beside_the_type() -> None:
    shape = Fields({"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": False}, "text.format")
    assert read_response_format(shape) == OutputFormat("json_schema", "text.format.schema", SCHEMA, strict=False)
