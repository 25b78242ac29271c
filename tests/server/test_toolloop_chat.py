"""The loop of tools, as a client of Chat Completions sees it over a real connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.server.serving import HELLO, WEATHER, client, served
from tests.server.toolrunner import FakeRunner, call, connected, running, scripted, tool
from tests.surfaces.chat_grammar import read_stream
from unspool.engines.replay import Recording
from unspool.mcp.tools import ToolResult
from unspool.server.service import Settings

LOOK = Recording("look", "Let me look.\n" + call("time__now", '{"zone": "UTC"}'))
NOON = Recording("noon", "It is noon.", match="<tool_response>\nnoon\n</tool_response>")


def whole(api: openai.OpenAI, **options: Any) -> Any:
    return api.chat.completions.create(**{"model": "default", "messages": HELLO, **options})


def streamed(api: openai.OpenAI, **options: Any) -> Any:
    """The completion that the official client puts together from the stream."""
    with api.chat.completions.stream(**{"model": "default", "messages": HELLO, **options}) as stream:
        for _ in stream:
            pass
        return stream.current_completion_snapshot


both = pytest.mark.parametrize("answer", [whole, streamed])


@both
def test_the_server_runs_its_tools_and_the_client_gets_the_answer(answer: Any) -> None:
    """BUG-175: the model is shown the result, tied to its call."""
    runner = FakeRunner(tool("now"))
    with connected(runner, LOOK, NOON) as api:
        (choice,) = answer(api).choices
    assert choice.message.content == "Let me look.\n\nIt is noon."
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"
    assert runner.ran == [("now", '{"zone": "UTC"}')]
    (told,) = choice.message.mcp_calls
    assert told.items() >= {"server_label": "time", "name": "now", "arguments": '{"zone": "UTC"}'}.items()
    assert (told["output"], told["error"]) == ("noon", None)
    assert runner.started
    assert runner.closed


@both
def test_texts_and_thoughts_of_two_turns_are_told_apart(answer: Any) -> None:
    looking = f"<think>\nWhat time?\n</think>\n\nLet me look.{call('time__now')}"
    engine = scripted(looking, "<think>\nNoon, then.\n</think>\n\nIt is noon.")
    with connected(FakeRunner(tool("now")), engine=engine, settings=Settings(format="qwen3")) as api:
        message = answer(api).choices[0].message
    assert message.content == "Let me look.\n\nIt is noon."
    assert message.reasoning_content.split("\n\n") == ["What time?", "Noon, then."]


def test_what_is_offered_is_what_there_is() -> None:
    """BUG-207: tools that were loaded are offered to requests that name none; those that ask are not."""
    engine = scripted("Hello.")
    runner = FakeRunner(tool("now"), tool("set", "ask"), tool("wipe", "deny"))
    with connected(runner, engine=engine) as api:
        whole(api)
        whole(api, tools=[{"type": "mcp", "server_label": "time"}])
        whole(api, tool_choice="none")
    offered = [[name in str(prompt) for name in ("now", "set", "wipe")] for prompt in engine.prompts]
    assert offered == [[True, False, False], [True, True, False], [False, False, False]]


def test_who_wants_content_of_some_form_gets_no_tools_unasked() -> None:
    engine = scripted("{}")
    with connected(FakeRunner(tool("now")), engine=engine) as api:
        whole(api, response_format={"type": "json_object"})
        whole(api, response_format={"type": "text"})
        whole(api, response_format={"type": "json_object"}, tools=[{"type": "mcp", "server_label": "time"}])
    assert ["time__now" in str(prompt) for prompt in engine.prompts] == [False, True, True]


def test_only_asked_servers_are_offered_if_the_operator_says_so() -> None:
    engine = scripted("Hello.")
    with connected(FakeRunner(tool("now")), engine=engine, settings=Settings(mcp_offer="asked")) as api:
        whole(api)
        whole(api, tools=[{"type": "mcp", "server_label": "time"}])
    assert ["time__now" in str(prompt) for prompt in engine.prompts] == [False, True]


@both
def test_a_call_that_needs_approval_is_the_clients(answer: Any) -> None:
    runner = FakeRunner(tool("now", "ask"))
    with connected(runner, LOOK) as api:
        (choice,) = answer(api, tools=[{"type": "mcp", "server_label": "time"}]).choices
    (asked,) = choice.message.tool_calls
    assert (asked.function.name, asked.function.arguments) == ("time__now", '{"zone": "UTC"}')
    assert choice.finish_reason == "tool_calls"
    assert runner.ran == []


@both
def test_calls_of_the_client_end_the_answer_behind_those_of_the_server(answer: Any) -> None:
    written = call("time__now") + call("get_weather", '{"city": "Oslo"}') + call("time__now", '{"zone": "x"}')
    runner = FakeRunner(tool("now"))
    with connected(runner, Recording("mixed", written)) as api:
        (choice,) = answer(api, tools=[WEATHER]).choices
    (asked,) = choice.message.tool_calls
    assert asked.function.name == "get_weather"
    assert choice.finish_reason == "tool_calls"
    assert len(runner.ran) == len(choice.message.mcp_calls) == 2


def test_the_loop_ends_and_says_why() -> None:
    """BUG-119: a model that calls for ever runs a tool as often as it may, and then answers without."""
    runner = FakeRunner(tool("now"))
    with connected(runner, Recording("again", call("time__now")), settings=Settings(mcp_max_turns=3)) as api:
        response = whole(api)
    assert len(runner.ran) == 3
    (choice,) = response.choices
    assert (choice.finish_reason, choice.message.mcp_limit) == ("stop", "max_turns")
    assert len(choice.message.mcp_calls) == 3
    assert choice.message.tool_calls is None
    ids = [each["id"] for each in choice.message.mcp_calls]
    assert len(set(ids)) == 3, "ids of two calls differ"


def test_the_last_turn_has_no_tools() -> None:
    engine = scripted(call("time__now"))
    with connected(FakeRunner(tool("now")), engine=engine, settings=Settings(mcp_max_turns=1)) as api:
        whole(api)
    assert ["<tools>" in str(prompt) for prompt in engine.prompts] == [True, False]


def test_an_answer_has_its_time() -> None:
    runner = FakeRunner(tool("now"))
    with connected(runner, Recording("again", call("time__now")), settings=Settings(mcp_time_limit=0)) as api:
        (choice,) = whole(api).choices
    assert choice.message.mcp_limit == "max_seconds"
    assert len(runner.ran) == 1


def test_a_choice_that_needs_a_call_is_for_the_first_turn() -> None:
    with connected(FakeRunner(tool("now")), LOOK, NOON) as api:
        for choice in (
            "required",
            {"type": "function", "function": {"name": "time__now"}},
            {"type": "mcp", "server_label": "time"},
            {"type": "mcp", "server_label": "time", "name": "now"},
        ):
            assert whole(api, tool_choice=choice).choices[0].message.content.endswith("It is noon.")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("time__nowhere", "Error: The tool 'time__nowhere' does not exist. The tools are: time__now."),
        ("now", "Error: The tool 'now' does not exist."),
        ("time__wipe", "Error: The tool 'time__wipe' may not be called here."),
    ],
)
def test_a_name_that_is_no_tool_runs_nothing(written: str, told: str) -> None:
    """BUG-123, BUG-131: names match exactly, and what is denied is not run."""
    engine = scripted(call(written), "I see.")
    runner = FakeRunner(tool("now"), tool("wipe", "deny"))
    with connected(runner, engine=engine) as api:
        (choice,) = whole(api).choices
    assert runner.ran == []
    assert told in str(engine.prompts[1])
    assert choice.message.content == "I see."
    assert choice.message.mcp_calls[0]["error"]["type"] == "mcp_protocol_error"


@pytest.mark.parametrize("arguments", ['{"zone": 1}', '{"zone": ["UTC"]}'])
def test_arguments_that_do_not_fit_run_nothing(arguments: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "unspool.mcp.audit")
    engine = scripted(call("time__now", arguments), "I see.")
    runner = FakeRunner(tool("now"))
    with connected(runner, engine=engine) as api:
        whole(api)
    assert runner.ran == []
    assert "Error: The arguments do not fit the tool's schema. /zone: " in str(engine.prompts[1])
    assert "tool='now'" in caplog.text
    assert "outcome='invalid'" in caplog.text


def test_a_failed_call_is_marked_for_the_model() -> None:
    """BUG-121: the error's text, as an error."""
    engine = scripted(call("time__now"), "I see.")
    with connected(FakeRunner(tool("now"), now=ToolResult("db is down", is_error=True)), engine=engine) as api:
        (choice,) = whole(api).choices
    assert "<tool_response>\nError: db is down\n</tool_response>" in str(engine.prompts[1])
    assert choice.message.mcp_calls[0]["error"]["type"] == "mcp_tool_execution_error"


def test_a_runner_that_raises_fails_the_call_alone() -> None:
    engine = scripted(call("time__now"), "I see.")
    with connected(FakeRunner(tool("now"), now=RuntimeError("s3cret")), engine=engine) as api:
        (choice,) = whole(api).choices
    assert "Error: The tool could not be called" in str(engine.prompts[1])
    assert "s3cret" not in str(choice)


def test_a_tool_that_never_returns_is_given_up() -> None:
    """BUG-118: the model gets the error, the request goes on, and no other request waits."""
    engine = scripted(call("time__now"), "I see.")
    runner = FakeRunner(tool("now"))
    runner.answers["now"] = runner.hang
    with connected(runner, engine=engine, settings=Settings(mcp_timeout=0.2)) as api:
        (choice,) = whole(api).choices
    assert "Error: The tool timed out" in str(engine.prompts[1])
    assert choice.message.content == "I see."
    assert runner.cancelled.is_set()


def test_what_only_reads_runs_side_by_side_and_is_told_in_order() -> None:
    both = asyncio.Barrier(2)

    async def late() -> ToolResult:
        await both.wait()
        await asyncio.sleep(0.1)
        return ToolResult("first")

    async def early() -> ToolResult:
        await both.wait()
        return ToolResult("second")

    engine = scripted(call("time__now") + call("time__zones") + call("time__set"), "I see.")
    tools = (tool("now", read_only=True), tool("zones", read_only=True), tool("set"))
    runner = FakeRunner(*tools, now=late, zones=early, set="third")
    with connected(runner, engine=engine, settings=Settings(mcp_timeout=20)) as api:
        (choice,) = whole(api).choices
    assert [each["output"] for each in choice.message.mcp_calls] == ["first", "second", "third"]
    # Which of the two begins first is theirs; what writes waits for both.
    assert {name for name, _ in runner.ran[:2]} == {"now", "zones"}
    assert [name for name, _ in runner.ran[2:]] == ["set"]
    assert runner.most == 2


def test_what_writes_runs_alone() -> None:
    runner = FakeRunner(tool("set"))
    with connected(runner, engine=scripted(call("time__set") * 3, "I see.")) as api:
        whole(api)
    assert (len(runner.ran), runner.most) == (3, 1)


def test_a_call_that_was_cut_never_runs() -> None:
    runner = FakeRunner(tool("now"))
    engine = scripted(call("time__now") + '<tool_call>\n{"name": "time__now", "arguments": {"zo', finish="length")
    with connected(runner, engine=engine) as api:
        (choice,) = whole(api).choices
    assert runner.ran == []
    assert choice.finish_reason == "length"


def test_tokens_are_counted_over_all_turns() -> None:
    engine = scripted(call("time__now"), "I see.")
    with connected(FakeRunner(tool("now")), engine=engine) as api:
        response = whole(api, max_completion_tokens=12)
    assert [sampling.max_tokens for sampling in engine.samplings] == [12, 7]
    usage = response.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (20, 10, 30)
    assert usage.prompt_tokens_details.cached_tokens == 8


def test_without_a_token_for_the_answer_nothing_runs() -> None:
    runner = FakeRunner(tool("now"))
    with connected(runner, engine=scripted(call("time__now"), "I see.")) as api:
        (choice,) = whole(api, max_completion_tokens=5).choices
    assert (choice.finish_reason, runner.ran) == ("length", [])


def test_a_client_that_goes_away_ends_the_tool() -> None:
    runner = FakeRunner(tool("now"))
    runner.answers["now"] = runner.hang
    with running(runner, LOOK) as url:
        body = {"messages": HELLO, "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
            assert answer.status_code == 200
            assert runner.waiting.wait(10)
        assert runner.cancelled.wait(10)


def test_a_client_hears_that_a_tool_runs() -> None:
    runner = FakeRunner(tool("now"))

    async def later() -> ToolResult:
        await asyncio.sleep(0.3)
        return ToolResult("noon")

    runner.answers["now"] = later
    with running(runner, LOOK, NOON, settings=Settings(heartbeat=0.05)) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json={"messages": HELLO, "stream": True})
    assert answer.text.count(": still here\n\n") >= 2
    stream = read_stream(answer.content.replace(b": still here\n\n", b""))
    assert stream.choices[0].content.endswith("It is noon.")
    assert stream.choices[0].server["mcp_calls"][0]["output"] == "noon"


def test_the_time_of_a_request_ends_its_tools_too() -> None:
    runner = FakeRunner(tool("now"))
    runner.answers["now"] = runner.hang
    error = pytest.raises(openai.APIStatusError, match="longer than this server allows")
    with connected(runner, LOOK, settings=Settings(time_limit=0.5)) as api, error:
        whole(api)
    assert runner.cancelled.is_set()


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_no_client_sends_again_by_itself_what_has_run_a_tool(api: str) -> None:
    """The official ones send a request again that failed with a 500: the tool would run as often."""
    runner = FakeRunner(tool("now"))
    broken = Recording("broken", "It is", match="<tool_response>\nnoon\n</tool_response>", fail_after=0)
    with running(runner, Recording("look", call("time__now")), broken) as url:
        one = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=20)
        other = anthropic.Anthropic(base_url=url, api_key="none", timeout=20)
        ask: dict[str, Callable[[], object]] = {
            "chat": lambda: one.chat.completions.create(model="default", messages=HELLO),
            "responses": lambda: one.responses.create(model="default", input="Hello"),
            "messages": lambda: other.messages.create(model="default", messages=HELLO, max_tokens=99),
        }
        with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
            ask[api]()
    assert runner.ran == [("now", "{}")]


def test_what_has_run_no_tool_may_be_sent_again() -> None:
    broken = Recording("broken", "It is", fail_after=0)
    with running(FakeRunner(tool("now")), broken) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json={"messages": HELLO})
    assert answer.status_code == 500
    assert "x-should-retry" not in answer.headers


def test_a_continued_message_stays_one() -> None:
    engine = scripted(" look." + call("time__now"), "I see.")
    messages: Any = [*HELLO, {"role": "assistant", "content": "Let me"}]
    with connected(FakeRunner(tool("now")), engine=engine) as api:
        whole(api, messages=messages, extra_body={"continue_final_message": True})
    assert "<|im_start|>assistant\nLet me look.\n<tool_call>" in str(engine.prompts[1])


def test_several_choices_are_the_models_alone() -> None:
    engine = scripted("Hello.")
    with connected(FakeRunner(tool("now")), engine=engine) as api:
        assert len(whole(api, n=2).choices) == 2
        with pytest.raises(openai.BadRequestError, match="`n` must be 1"):
            whole(api, n=2, tools=[{"type": "mcp", "server_label": "time"}])
    assert not any("time__now" in str(prompt) for prompt in engine.prompts)


@pytest.mark.parametrize(
    ("options", "param", "message"),
    [
        ({"tools": [{"type": "mcp", "server_label": "tme"}]}, "tools[0].server_label", "there is: time"),
        (
            {"tools": [{"type": "mcp", "server_label": "time", "server_url": "http://x"}]},
            "tools[0].server_url",
            "are off here",
        ),
        ({"tool_choice": {"type": "mcp", "server_label": "t"}}, "tool_choice", "has no tool for this request"),
        ({"tool_choice": {"type": "function", "function": {"name": "now"}}}, "tool_choice", "not in `tools`"),
    ],
)
def test_what_is_wrong_is_named(options: Any, param: str, message: str) -> None:
    error = pytest.raises(openai.BadRequestError, match=message)
    with connected(FakeRunner(tool("now")), LOOK) as api, error as caught:
        whole(api, **options)
    assert caught.value.param == param


def test_without_servers_a_request_can_name_none() -> None:
    error = pytest.raises(openai.BadRequestError, match="--mcp-config")
    with served(scripted("Hello.")) as url, client(url) as api, error as caught:
        whole(api, tools=[{"type": "mcp", "server_label": "time"}])
    assert caught.value.param == "tools[0]"


def test_calls_are_counted_by_outcome() -> None:
    engine = scripted(call("time__now") + call("time__set") + call("nope"), "I see.")
    runner = FakeRunner(tool("now"), tool("set"), set=ToolResult("no", is_error=True))
    with running(runner, engine=engine) as url:
        httpx.post(f"{url}/v1/chat/completions", json={"messages": HELLO})
        metrics = httpx.get(f"{url}/metrics").text
    for server, outcome in (("time", "ok"), ("time", "error"), ("", "refused")):
        assert f'unspool_mcp_calls_total{{server="{server}",outcome="{outcome}"}} 1' in metrics
    assert json.dumps("noon") not in metrics
