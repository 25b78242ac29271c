"""Everything around the surfaces: the small endpoints, keys, origins, limits and error shapes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest

import unspool
from tests.server.serving import HELLO, ScriptedEngine, client, served
from tests.server.toolrunner import FakeRunner, running, tool
from unspool.compat.following import DEFAULT_FORMAT
from unspool.engines.base import Chunk
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.app import create_app
from unspool.server.service import Service, Settings
from unspool.server.template import BadTemplateError

RECORDINGS = [Recording("org/recording", "Hi", model="org/model"), Recording("b", "Hi")]


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with served(ReplayEngine(RECORDINGS), Settings(max_body=1000)) as url, httpx.Client(base_url=url) as http:
        yield http


def error(answer: httpx.Response) -> dict[str, Any]:
    body = answer.json()
    assert set(body) == {"error"}
    found: dict[str, Any] = body["error"]
    assert set(found) == {"message", "type", "param", "code"}
    return found


def test_health_and_version(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/version").json() == {"name": "unspool", "version": unspool.__version__}
    assert http.head("/").status_code == 200


def test_models_are_listed_for_both_vendors_clients(http: httpx.Client) -> None:
    api = client(str(http.base_url))
    names = [model.id for model in api.models.list()]
    assert names == ["replay", "org/model", "org/recording", "b"]
    assert api.models.retrieve("org/recording").id == "org/recording"
    with pytest.raises(openai.NotFoundError, match="'org/other' is not served here"):
        api.models.retrieve("org/other")
    listed = http.get("/v1/models").json()
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("replay", "b", False)
    assert set(listed["data"][0]) >= {"object", "type", "created", "owned_by", "display_name", "max_model_len"}


def test_an_alias_is_a_name_of_the_model() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"))
    with served(engine, Settings(aliases=("gpt-4o", "other"))) as url:
        completion = client(url).chat.completions.create(model="gpt-4o", messages=HELLO)
        assert completion.model == "gpt-4o"
        assert [model.id for model in client(url).models.list()] == ["scripted", "gpt-4o", "other"]


def test_a_request_may_leave_the_model_out(http: httpx.Client) -> None:
    assert http.post("/v1/chat/completions", json={"messages": HELLO}).json()["model"] == "replay"


def test_every_answer_has_a_request_id(http: httpx.Client) -> None:
    answers = [http.get("/health"), http.get("/nowhere"), http.post("/v1/chat/completions", json={})]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == 3
    assert ids == [answer.headers["request-id"] for answer in answers]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/responses", "/v1/responses"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/models/m", None),
        ("/v1/v1/v1", None),
        ("/v1x", None),
        ("/v1/nowhere", None),
    ],
)
def test_a_path_with_v1_twice_or_not_at_all_is_told_so(http: httpx.Client, path: str, meant: str | None) -> None:
    response = http.post(path, json={})
    assert response.status_code == 404
    message = response.json()["error"]["message"]
    assert (f"Did you mean {meant}?" in message) if meant else message == f"There is nothing at POST {path}."


def test_unknown_routes_and_methods_have_the_apis_error_shape(http: httpx.Client) -> None:
    unknown = http.get("/v1/nowhere")
    assert (unknown.status_code, error(unknown)["message"]) == (404, "There is nothing at GET /v1/nowhere.")
    wrong = http.get("/v1/chat/completions")
    assert error(wrong)["message"] == "GET is not allowed at /v1/chat/completions; POST is."
    assert error(http.put("/v1/responses/resp_1"))["message"].endswith("; DELETE, GET, HEAD are.")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert http.put("/v1/responses/resp_1").headers["allow"] == "DELETE, GET, HEAD"
    assert http.put("/v1/responses/input_tokens").headers["allow"] == "POST"
    assert error(wrong)["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [b"", b"{", b"{'a': 1}", b"\xff", b'{"a": ' + b"[" * 900])
def test_a_body_that_is_not_json_is_a_400(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert "not valid JSON" in error(answer)["message"]


def test_a_body_that_is_too_large_is_a_413(http: httpx.Client) -> None:
    declared = http.post("/v1/chat/completions", content=b" " * 1001)
    counted = http.post("/v1/chat/completions", content=iter([b" " * 600, b" " * 600]))
    for answer in (declared, counted):
        assert answer.status_code == 413
        assert error(answer)["code"] == "request_too_large"


def test_the_content_type_does_not_matter(http: httpx.Client) -> None:
    body = b'{"messages": [{"role": "user", "content": "Hi"}]}'
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        answer = http.post("/v1/chat/completions", content=body, headers={"content-type": content_type})
        assert answer.status_code == 200


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    settings = Settings(api_key="se\u00e7ret", allow_origins=("https://app.example",))
    with served(ReplayEngine(RECORDINGS), settings) as url:
        yield url


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("authorization", "Bearer se\u00e7ret", 200),
        ("authorization", "bearer  se\u00e7ret", 200),
        ("x-api-key", "se\u00e7ret", 200),
        ("authorization", "Bearer wrong", 401),
        ("authorization", "Basic se\u00e7ret", 401),
        ("authorization", "se\u00e7ret", 401),
        ("x-other", "se\u00e7ret", 401),
    ],
)
def test_the_key_is_demanded(locked: str, header: str, value: str, status: int) -> None:
    answer = httpx.get(f"{locked}/v1/models", headers=[(header.encode(), value.encode())])
    assert answer.status_code == status


def test_a_wrong_key_is_an_authentication_error(locked: str) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        client(locked, "wrong").chat.completions.create(model="replay", messages=HELLO)
    assert (caught.value.code, caught.value.type) == ("invalid_api_key", "authentication_error")
    assert httpx.get(f"{locked}/v1/nowhere").status_code == 401


@pytest.mark.parametrize("path", ["/health", "/", "/docs", "/openapi.json"])
def test_what_says_nothing_of_the_model_needs_no_key(locked: str, path: str) -> None:
    assert httpx.get(locked + path).status_code == 200


def test_any_key_is_taken_when_none_is_demanded(http: httpx.Client) -> None:
    assert http.get("/v1/models", headers={"authorization": "Bearer anything"}).status_code == 200


def preflight(url: str, origin: str) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
    }
    return httpx.options(f"{url}/v1/chat/completions", headers=headers)


def test_only_allowed_origins_may_call(locked: str, http: httpx.Client) -> None:
    allowed = preflight(locked, "https://app.example")
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert "authorization" in allowed.headers["access-control-allow-headers"]
    assert "access-control-allow-origin" not in preflight(locked, "https://evil.example").headers
    assert "access-control-allow-origin" not in preflight(str(http.base_url), "https://app.example").headers


def test_what_cannot_be_served_is_found_before_serving() -> None:
    with pytest.raises(unspool.UnknownFormatError):
        create_app(ScriptedEngine(), Settings(format="no-such-format"))
    with pytest.raises(BadTemplateError):
        create_app(ScriptedEngine(template="{% if %}"))


@pytest.mark.parametrize(
    ("settings", "template", "name"),
    [
        (Settings(format="mistral"), "{{ '<tool_call>' }}", "mistral"),
        (Settings(), None, DEFAULT_FORMAT),
        (Settings(), "{{ messages }}", DEFAULT_FORMAT),
    ],
)
def test_the_format_is_named_or_the_default(settings: Settings, template: str | None, name: str) -> None:
    assert Service(ScriptedEngine(template=template), settings).format.name == name


def test_a_combined_format_can_be_served() -> None:
    assert Service(ScriptedEngine(), Settings(format="qwen3+mistral")).format is not None


def test_the_demo_model_is_not_given_its_templates_default_system_message() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template="{{ 'You are SmolLM' }}")
    engine.model = replace(engine.model, demo=True)
    with served(engine) as url:
        client(url).chat.completions.create(model="scripted", messages=HELLO)
    assert engine.prompts == ["<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"]
    assert Service(engine, Settings(chat_template="{{ 1 }}")).template.source == "{{ 1 }}"


def test_a_tool_server_that_never_starts_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    class Stuck(FakeRunner):
        async def start(self) -> None:
            try:
                await self.hang()
            finally:
                ended.set()

    monkeypatch.setattr("unspool.server.app._START_S", 0.01)
    runner = Stuck(tool("now"))
    with running(runner, Recording("hello", "Hello.")) as url:
        assert httpx.get(f"{url}/health").status_code == 200
        assert runner.waiting.is_set()
        assert not ended.is_set()
    assert ended.is_set()
    assert runner.closed


def test_tools_that_can_not_be_started_are_an_error_at_the_start() -> None:
    class Broken(FakeRunner):
        async def start(self) -> None:
            raise OSError("no room")

    async def run() -> None:
        app = create_app(ReplayEngine([Recording("hello", "Hello.")]), runner=Broken())
        async with app.router.lifespan_context(app):
            raise AssertionError("it was served")

    with pytest.raises(OSError, match="no room"):
        asyncio.run(run())
