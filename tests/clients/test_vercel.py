"""Vercel's AI SDK, in a Node of its own for every answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.recordings import ANSWERS, CASES, FORMATS, RECORDINGS, Heard, finish, name
from tests.node import FOLDER, NODE, package
from tests.server.process import running
from tests.server.serving import ScriptedEngine, client, served
from unspool.engines.base import Chunk
from unspool.engines.replay import ReplayEngine

SCRIPT = Path(__file__).with_name("vercel.mjs")

pytestmark = pytest.mark.skipif(
    package("ai") is None, reason="Vercel's AI SDK is not installed: make clients installs it"
)
every_api = pytest.mark.parametrize("api", ["chat", "messages"])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ReplayEngine(RECORDINGS, chunking="chars:3")) as url:
        yield url


def run(api: str, url: str, model: str, how: str) -> dict[str, Any]:
    command = [NODE, str(SCRIPT), FOLDER, api, url, model, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def ask(api: str, url: str, model: str, how: str) -> Heard:
    answer = run(api, url, model, how)
    assert "error" not in answer, answer
    calls = tuple((tool, arguments) for tool, arguments in answer["calls"])
    return Heard(answer["text"].strip(), answer["reasoning"].strip(), calls, finish(answer["finish"]))


@every_api
@pytest.mark.parametrize(("format", "scenario"), CASES)
def test_a_streamed_answer(url: str, api: str, format: str, scenario: str) -> None:
    heard = ask(api, url, name(format, scenario), "streamed")
    if scenario == "cut":
        assert (heard.text, heard.finish) == ("", "length")
        assert all("Paris" not in repr(arguments) for _, arguments in heard.calls)
    else:
        assert heard == ANSWERS[scenario]


@every_api
@pytest.mark.parametrize("scenario", ANSWERS)
def test_a_whole_answer(url: str, api: str, scenario: str) -> None:
    assert ask(api, url, name("hermes", scenario), "whole") == ANSWERS[scenario]


@every_api
@pytest.mark.parametrize("format", FORMATS)
def test_an_error_in_the_middle_of_a_stream(url: str, api: str, format: str) -> None:
    assert "fails here" in run(api, url, name(format, "broken"), "streamed")["error"]


@every_api
def test_hanging_up(api: str) -> None:
    engine = ScriptedEngine(Chunk("One "), Chunk("two "), Chunk("three "), None)
    with served(engine) as url:
        assert run(api, url, "scripted", "hang-up") == {"hungUp": True}
        assert engine.aborted.wait(10)


@every_api
def test_a_call_that_is_demanded_of_a_small_model_comes(api: str) -> None:
    with running("--threads", "1", "--ctx", "2048") as (url, _, _):
        heard = ask(api, url, client(url).models.list().data[0].id, "demanded")
    ((tool, arguments),) = heard.calls
    assert (tool, list(arguments), heard.text, heard.finish) == ("get_weather", ["city"], "", "tool_calls")
