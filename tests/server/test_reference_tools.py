"""``unspool serve --mcp-config`` with MCP's reference servers: what the makers' clients see of calls that ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.mcp.files import written
from tests.mcp.reference import everything, needs_npm, npm, python
from tests.server.process import running
from tests.server.serving import client
from tests.server.toolrunner import call

TIMES = {"source_timezone": "Europe/Paris", "time": "16:30", "target_timezone": "Asia/Tokyo"}
LOST = {**TIMES, "source_timezone": "Mars/Base"}
RECORDINGS = [
    {"id": "call", "raw_output": call("time__convert_time", json.dumps(TIMES))},
    {"id": "told", "raw_output": "It is half past midnight.", "match": "day_of_week"},
    {"id": "lost", "raw_output": call("time__convert_time", json.dumps(LOST)), "match": "on Mars"},
    {"id": "sorry", "raw_output": "Mars has no time zone.", "match": "Invalid timezone"},
]


def config(folder: Path, tools: dict[str, str]) -> Path:
    """A file with the server of times."""
    server = python("time", "--local-timezone", "Europe/Paris") | {"tools": tools}
    return written(folder, json.dumps({"mcpServers": {"time": server}}))


class Clients:
    """The official clients, and what they see of the calls that the server runs; ``label`` is the MCP server's."""

    def __init__(self, url: str, label: str = "time") -> None:
        self.tools: list[Any] = [{"type": "mcp", "server_label": label, "require_approval": "never"}]
        self.openai = client(url)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=120)
        self.model = self.openai.models.list().data[0].id

    def chat(self, question: str, **options: Any) -> tuple[dict[str, Any], str | None]:
        """The call, and the answer."""
        answer = self.openai.with_options(timeout=120).chat.completions.create(
            model=self.model, messages=[{"role": "user", "content": question}], temperature=0, **options
        )
        ran = answer.choices[0].message.mcp_calls[0]
        return ran, answer.choices[0].message.content

    def responses(self, question: str, **options: Any) -> tuple[dict[str, Any], str]:
        """The call, and the answer."""
        answer = self.openai.with_options(timeout=120).responses.create(
            model=self.model, input=question, tools=self.tools, temperature=0, **options
        )
        ran = next(item for item in answer.output if item.type == "mcp_call")
        return ran.model_dump(), answer.output_text

    def messages(self, question: str, **options: Any) -> tuple[dict[str, Any], str]:
        """The call, and the answer."""
        answer = self.anthropic.beta.messages.create(
            model=self.model,
            messages=[{"role": "user", "content": question}],
            extra_body={"temperature": 0},
            **{"max_tokens": 100, **options},
        )
        asked, told, *rest = answer.content
        assert (asked.type, told.type) == ("mcp_tool_use", "mcp_tool_result")
        ran = {"name": asked.name, "arguments": json.dumps(asked.input), "is_error": told.is_error}
        ran["output"] = told.content if isinstance(told.content, str) else told.content[0].text
        return ran, "".join(block.text for block in rest if block.type == "text")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("replayed")
    recordings = folder / "recordings.jsonl"
    recordings.write_text("".join(json.dumps(each) + "\n" for each in RECORDINGS))
    config_file = config(folder, {"*": "allow"})
    with running("--recordings", recordings, "--format", "hermes", "--mcp-config", config_file) as (url, _, _):
        yield Clients(url)


APIS = ["chat", "responses", "messages"]


@pytest.mark.parametrize("api", APIS)
def test_a_recorded_call_runs(replayed: Clients, api: str) -> None:
    ran, answer = getattr(replayed, api)("What time is it in Tokyo?")
    assert answer == "It is half past midnight."
    target = json.loads(ran["output"])["target"]
    assert (target["timezone"], target["datetime"][10:]) == ("Asia/Tokyo", "T00:30:00+09:00")


@pytest.mark.parametrize("api", APIS)
def test_what_the_server_refuses_is_told_to_the_model(replayed: Clients, api: str) -> None:
    ran, answer = getattr(replayed, api)("What time is it on Mars?")
    assert answer == "Mars has no time zone."
    assert "Mars/Base" in json.dumps(ran)
    assert "Invalid timezone" in json.dumps(ran.get("error") or ran["output"])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    config_file = config(tmp_path_factory.mktemp("demo"), {"get_current_time": "allow", "*": "deny"})
    with running("--threads", "1", "--ctx", "2048", "--mcp-config", config_file) as (url, _, _):
        yield Clients(url)


@pytest.mark.parametrize(
    ("api", "demand"),
    [
        ("chat", {"tool_choice": "required", "max_tokens": 120, "parallel_tool_calls": False}),
        ("responses", {"tool_choice": "required", "max_output_tokens": 120, "parallel_tool_calls": False}),
        ("messages", {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 120}),
    ],
)
def test_a_real_models_call_runs(demo: Clients, api: str, demand: dict[str, Any]) -> None:
    ran, _ = getattr(demo, api)("What time is it in the timezone Asia/Tokyo?", **demand)
    assert ran["name"] == "get_current_time"
    # What the model wrote was sent, and was answered: with the time there, or that there is no such place.
    assert json.loads(ran["arguments"])["timezone"] in json.dumps(ran.get("error") or ran["output"])


@needs_npm
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_every_api_runs_a_tool_over_every_transport(tmp_path: Path, transport: str) -> None:
    recordings = tmp_path / "recordings.jsonl"
    asked = {"id": "call", "raw_output": call("time__get-sum", '{"a": 1, "b": 2}')}
    told = {"id": "told", "raw_output": "It is 3.", "match": "The sum of 1 and 2"}
    recordings.write_text(json.dumps(asked) + "\n" + json.dumps(told))
    with ExitStack() as stack:
        server = npm("everything", "stdio")
        if transport != "stdio":
            url = stack.enter_context(everything(transport))
            server = {"type": transport, "url": url, "tools": {"*": "allow"}}
        file = written(tmp_path, json.dumps({"mcpServers": {"time": server}}))
        url, _, _ = stack.enter_context(
            running("--recordings", recordings, "--format", "hermes", "--mcp-config", file)
        )
        clients = Clients(url)
        for api in APIS:
            ran, answer = getattr(clients, api)("How much is it?")
            assert (ran["output"], answer) == ("The sum of 1 and 2 is 3.", "It is 3.")
