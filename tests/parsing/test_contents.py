"""What the text of a region means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.parsing.contents import calls_of
from unspool.parsing.declaration import Region, RegionContent
from unspool.parsing.expressions import parse_or_keep
from unspool.parsing.schema import offered_tools

TOOLS = offered_tools(
    [
        {
            "name": "f",
            "parameters": {
                "properties": {
                    "n": {"type": "integer"},
                    "s": {"type": "string"},
                    "l": {"type": "array", "items": {"type": "integer"}},
                }
            },
        },
        {"name": "g", "parameters": {"required": ["x"]}},
    ]
)
TAGS = RegionContent("xml-inline", tag=parse_or_keep("<(?P<key>.)>(?P<value>.*?)</>"))
NAMED = {"name": "{name}", "arguments": "{content}"}


def read(content: RegionContent, text: str, transform: Any = NAMED, **options: Any) -> Any:
    """The calls of a region's text, arguments as values, or the complaint."""
    region = Region("c", "calls", content=content, transform=json.dumps(transform) if transform else "", **options)
    try:
        found = calls_of(region, text, {"name": "f"}, TOOLS, str, closed=True)
    except ValueError as why:
        return str(why)
    return [(name, json.loads(arguments)) for name, arguments in found]


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (None, " 1 ", " 1 "),
        (RegionContent("text"), " 1 ", "1"),
        (RegionContent("text", strip=False), " 1 ", " 1 "),
        (RegionContent("int"), " 1 ", 1),
        (RegionContent("float"), "1.5", 1.5),
        (RegionContent("bool"), " True", True),
        (RegionContent("bool"), "no", False),
        (RegionContent("json"), '[1, "a"]', [1, "a"]),
        (RegionContent("json", allow_non_json=True), " [1, ", "[1,"),
        (RegionContent("json", allow_non_json=True, strip=False), " [1, ", " [1, "),
        (RegionContent("json", unquoted_keys=True), '{a : {"b, c:": 1}}', {"a": {"b, c:": 1}}),
        (RegionContent("json", string_delims=(("«", "»"),)), '[«"a»]', ['"a']),
        (RegionContent("kv-lines", value=RegionContent("int")), "a: 1\n\n b : 2", {"a": 1, "b": 2}),
        (RegionContent("kv-lines", kv_sep=" = "), "a = \nb = 1", {"b": "1"}),
        (RegionContent("kv-lines", strip=False), " a: 1", {" a": " 1"}),
    ],
)
def test_values_are_read_by_their_parser(value: RegionContent | None, text: str, expected: Any) -> None:
    content = RegionContent("xml-inline", tag=TAGS.tag, value=value)
    assert read(content, f"<x>{text}</>") == [("f", {"x": expected})]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (RegionContent("int"), "one"),
        (RegionContent("float"), "inf"),
        (RegionContent("json"), "NaN"),
        (RegionContent("kv-lines"), "nothing"),
    ],
)
def test_a_value_that_is_none_makes_no_call(value: RegionContent, text: str) -> None:
    assert isinstance(read(RegionContent("xml-inline", tag=TAGS.tag, value=value), f"<x>{text}</>"), str)


def test_text_has_the_type_that_the_tool_says() -> None:
    assert read(TAGS, "<n>1</><s>1</><x>1</>") == [("f", {"n": 1, "s": "1", "x": "1"})]
    assert read(TAGS, "<n>1</><n>2</>") == [("f", {"n": 2})]
    merged = RegionContent("xml-inline", tag=TAGS.tag, merge_duplicates=True)
    text = "<n>1</><n>2</><l>3</><l>4</><x>5</><x>6</><x>7</>"
    assert read(merged, text) == [("f", {"n": [1, 2], "l": ["3", "4"], "x": ["5", "6", "7"]})]
    assert read(TAGS, "<n>1</>", {"name": "unknown", "arguments": "{content}"}) == [("unknown", {"n": "1"})]


def test_a_tag_may_be_any_expression() -> None:
    kept = RegionContent("xml-inline", tag=parse_or_keep(r"(?<=<)(?P<key>\w)>(?P<value>[^<]*)"))
    assert read(kept, "<a>1<b>2") == [("f", {"a": "1", "b": "2"})]
    assert read(kept, "<a>1 x") == [("f", {"a": "1 x"})]
    assert read(kept, "nothing") == "the region holds something else than elements"
    keyless = RegionContent("xml-inline", tag=parse_or_keep("(?P<key>x)?="))
    assert read(keyless, "=") == [("f", {"": ""})]


def test_layout_that_a_value_may_have_stays() -> None:
    some = RegionContent("xml-inline", tag=parse_or_keep(r"<(?P<key>.)>(?P<value>[^<]*?)\s*</>"))
    assert read(some, "<a> x </>") == [("f", {"a": " x"})]
    one = RegionContent("xml-inline", tag=parse_or_keep(r"<(?P<key>.)>(?P<value>.*?)\s+</>"))
    assert read(one, "<a> x  </>") == [("f", {"a": " x"})]


NONE = "the region holds something else than elements"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a> x </>", [("f", {"a": "x"})]),
        ("<a>  </>", [("f", {"a": ""})]),
        ("<a>" * 20_000, NONE),
        ("<" * 20_000 + "</>", NONE),
        ("<a>x" + "\n" * 20_000 + "y</>", [("f", {"a": "x" + "\n" * 20_000 + "y"})]),
    ],
)
def test_elements_that_never_end_cost_no_more_than_others(text: str, expected: Any) -> None:
    # As it is written, this expression looks at all the rest of the text from each place again.
    tag = parse_or_keep(r"<(?P<key>[^>]+)>\s*(?P<value>.*?)\s*</>")
    assert read(RegionContent("xml-inline", tag=tag), text) == expected


CALL = RegionContent("json")


@pytest.mark.parametrize(
    ("text", "transform", "options", "expected"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', None, {}, [("f", {"a": 1})]),
        ('[{"name": "f"}, {"name": "h", "parameters": {}}]', None, {}, [("f", {}), ("h", {})]),
        ('{"function": {"name": "f", "arguments": "{\\"a\\": 1}"}}', None, {}, [("f", {"a": 1})]),
        ('{"name": "f", "arguments": ""}', None, {}, [("f", {})]),
        ('{"name": "f", "arguments": null}', None, {}, [("f", {})]),
        ('{"a": {"b": 1}}', {"name": "f", "arguments": "{content.a}"}, {}, [("f", {"b": 1})]),
        ("1", {"name": "f", "arguments": {"x": ["{content}", 2, "y"]}}, {}, [("f", {"x": [1, 2, "y"]})]),
        ('[{"n": "f"}]', {"name": "{n}", "arguments": {}}, {"each": True}, [("f", {})]),
        ('{"b": 1}', {"name": "f", "arguments": "{content.a}"}, {}, "the region has no 'content.a'"),
        ("1", {"name": "f", "arguments": "{content.a}"}, {}, "the region has no 'content.a'"),
        ("1", {"name": "{n}", "arguments": {}}, {"each": True}, "the region holds no list of objects"),
        ("[1]", {"name": "{n}", "arguments": {}}, {"each": True}, "the region holds no list of objects"),
        ("1", None, {}, "the region holds no call"),
        ('{"function": 1}', None, {}, "the region holds no call"),
        ('{"name": 1}', None, {}, "the call has no name"),
        ('{"name": " "}', None, {}, "the call has no name"),
        ('{"name": "g"}', None, {}, "the call has no arguments"),
        ('{"name": "unknown"}', None, {}, "the call has no arguments"),
        ('{"name": "f", "arguments": [1]}', None, {}, "the arguments are no object"),
    ],
)
def test_a_call_is_made_of_what_was_read(text: str, transform: Any, options: Any, expected: Any) -> None:
    assert read(CALL, text, transform, **options) == expected


def test_arguments_that_are_written_again_keep_their_spelling() -> None:
    numbers = '{"n": 12, "m": ' + "9" * 5000 + ', "f": 1.10, "s": "\\ud800é"}'
    region = Region("c", "calls", content=RegionContent("json", allow_non_json=True))
    (found,) = calls_of(region, '{"name": "f", "arguments": ' + numbers + "}", {}, TOOLS, str, closed=True)
    assert found == ("f", numbers)


@pytest.mark.parametrize("delims", [(), (("«", "»"),)])
def test_strings_that_never_end_go_to_the_end(delims: tuple[tuple[str, str], ...]) -> None:
    content = RegionContent("json", string_delims=delims, unquoted_keys=True, allow_non_json=True)
    for text in ('{"a\\" b: 1', "{«a «b"):
        transform = {"name": "f", "arguments": {"x": "{content}"}}
        assert read(content, text, transform) == [("f", {"x": text})]
