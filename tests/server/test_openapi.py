"""The API's description of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.routing import Route

from tests.server.serving import HELLO, ScriptedEngine, served
from unspool.server.app import create_app
from unspool.server.openapi import document
from unspool.server.request_schemas import BODIES, CHAT, COUNT, MESSAGES, RESPONSES
from unspool.server.service import Settings
from unspool.surfaces import chat, messages, responses
from unspool.surfaces.errors import InvalidRequestError

APP = create_app(ScriptedEngine())
DOCUMENT = document(APP.routes, keyed=False)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ScriptedEngine()) as url:
        yield url


def test_every_route_is_described() -> None:
    operations = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    routes = [route for route in APP.routes if isinstance(route, Route)]
    assert len(operations) == sum(len((route.methods or set()) - {"HEAD"}) for route in routes)
    assert ("/v1/models/{name}", "get") in operations
    assert ("/v1/chat/completions", "post") in operations
    assert DOCUMENT["paths"]["/v1/models/{name}"]["get"]["summary"] == "One of them."


def test_a_route_that_nobody_described_is_there_all_the_same() -> None:
    found = document([Route("/v1/new/{id}", Settings, name="new_thing", methods=["DELETE"])], keyed=False)
    operation = found["paths"]["/v1/new/{id}"]["delete"]
    assert operation["summary"] == "New thing"
    assert [parameter["name"] for parameter in operation["parameters"]] == ["id"]


def test_every_body_is_described() -> None:
    posts = {path for path, methods in DOCUMENT["paths"].items() if "requestBody" in methods.get("post", {})}
    without = {path for path, methods in DOCUMENT["paths"].items() if "post" in methods} - posts
    assert posts == set(BODIES)
    assert without == {"/v1/responses/{response_id}/cancel", "/v1/responses/compact"}


def test_the_document_is_served(url: str) -> None:
    answer = httpx.get(f"{url}/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


def test_what_needs_the_key_says_so() -> None:
    keyed = create_app(ScriptedEngine(), Settings(api_key="key"))
    paths = document(keyed.routes, keyed=True)["paths"]
    assert "security" in paths["/v1/models"]["get"]
    assert "security" not in paths["/health"]["get"]


class Asked(dict[str, Any]):
    """A body that knows which fields were asked for."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The field."""
        self.names.add(name)
        return super().get(name, default)


NOT_TAKEN = {
    *chat.REFUSED,
    *messages.REFUSED,
    *responses.REFUSED,
    *("separate_reasoning", "reasoning_format", "logprobs", "top_logprobs", "structural_tag"),
}


@pytest.mark.parametrize(
    ("decode", "schema"),
    [
        (chat.decode, CHAT),
        (messages.decode, MESSAGES),
        (messages.decode_count, COUNT),
        (responses.decode, RESPONSES),
    ],
)
def test_schemas_have_the_fields_that_decoders_read(
    decode: Callable[[object], object], schema: dict[str, Any]
) -> None:
    asked = {"input": "Hello"} if decode is responses.decode else {"messages": HELLO, "max_tokens": 9}
    body = Asked({**asked, "stream": True})
    decode(body)
    assert body.names - NOT_TAKEN == set(schema["properties"])


@pytest.mark.parametrize("schema", BODIES.values())
def test_schemas_are_schemas_and_their_examples_hold(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    for example in schema.get("examples", ()):
        jsonschema.validate(example, schema)


@pytest.mark.parametrize(
    ("decode", "schema", "body"),
    [
        (chat.decode, CHAT, {"messages": HELLO, "temperature": None, "stop": ["a"], "n": 2}),
        (chat.decode, CHAT, {"messages": HELLO, "temperature": 3}),
        (chat.decode, CHAT, {"messages": HELLO, "repetition_penalty": 0}),
        (chat.decode, CHAT, {"messages": HELLO, "response_format": {"type": "json_object"}}),
        (chat.decode, CHAT, {"messages": HELLO, "response_format": {"type": "xml"}}),
        (chat.decode, CHAT, {"messages": HELLO, "tools": [{"type": "function"}]}),
        (chat.decode, CHAT, {"messages": HELLO, "n": 17}),
        (chat.decode, CHAT, {}),
        (
            messages.decode,
            MESSAGES,
            {"messages": HELLO, "max_tokens": 1, "system": [{"type": "text", "text": "a"}]},
        ),
        (messages.decode, MESSAGES, {"messages": HELLO}),
        (messages.decode, MESSAGES, {"messages": HELLO, "max_tokens": 1, "tools": [{"name": "a"}]}),
        (messages.decode, MESSAGES, {"messages": [{"role": "tool", "content": "a"}], "max_tokens": 1}),
        (responses.decode, RESPONSES, {"input": HELLO, "metadata": {"a": "b"}, "truncation": None}),
        (responses.decode, RESPONSES, {"input": "a", "conversation": {"id": "conv_1"}, "store": False}),
        (responses.decode, RESPONSES, {"input": "a", "conversation": {}}),
        (responses.decode, RESPONSES, {"input": "a", "metadata": {"a": 1}}),
        (responses.decode, RESPONSES, {"input": [{"role": "tool", "content": "a"}]}),
        (responses.decode, RESPONSES, {"input": "a", "tools": [{"name": "a"}]}),
        (responses.decode, RESPONSES, {"input": "a", "max_tool_calls": -1}),
    ],
)
def test_schemas_agree_with_decoders(
    decode: Callable[[object], object], schema: dict[str, Any], body: dict[str, Any]
) -> None:
    try:
        decode(body)
        taken = True
    except InvalidRequestError:
        taken = False
    assert jsonschema.Draft202012Validator(schema).is_valid(body) == taken


class Links(HTMLParser):
    """Whatever a page would load or lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes the addresses of a tag."""
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]
        assert tag != "script"


def test_the_page_names_everything_and_needs_no_network(url: str) -> None:
    answer = httpx.get(f"{url}/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    links = Links()
    links.feed(answer.text)
    assert links.found == ["openapi.json"]
    assert all(path in answer.text for path in DOCUMENT["paths"])
    assert all(f"<code>{name}</code>" in answer.text for name in CHAT["properties"])
