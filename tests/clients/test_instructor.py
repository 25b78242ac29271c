"""instructor, which turns answers into objects: by a call, by several, and by content that holds to a schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tests.clients.recordings import FORMATS, QUESTION, RECORDINGS, name
from tests.server.process import running
from tests.server.serving import client, served
from unspool.engines.replay import Recording, ReplayEngine

instructor: Any = pytest.importorskip("instructor", reason="instructor is not installed: make clients installs it")

ASKED: Any = [{"role": "user", "content": QUESTION}]


class get_weather(BaseModel):  # noqa: N801
    """The weather in a city; instructor calls the tool as the class is called."""

    # Without this a model that is too small may write other properties until its context ends.
    model_config = ConfigDict(extra="forbid")

    city: str = Field(max_length=20)


every_format = pytest.mark.parametrize("format", FORMATS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    json = Recording(
        "json", 'I think so.\n</think>\n\n{"city": "Paris"}', format="hermes", prompt_tail="<think>\n"
    )
    with served(ReplayEngine([*RECORDINGS, json], chunking="chars:3")) as url:
        yield url


def ask(url: str, mode: str, model: str, wanted: Any, method: str = "create", **options: Any) -> Any:
    """What instructor makes of an answer, asked once."""
    api = instructor.from_openai(client(url), mode=instructor.Mode[mode])
    asked = getattr(api.chat.completions, method)
    return asked(model=model, messages=ASKED, response_model=wanted, max_retries=0, **options)


@every_format
def test_one_call(url: str, format: str) -> None:
    assert ask(url, "TOOLS", name(format, "call"), get_weather).city == "Paris"


# instructor offers "Partialget_weather" here, and a bare JSON object that names no offered tool is content.
@pytest.mark.parametrize("format", [format for format in FORMATS if format != "llama3_json"])
def test_one_call_as_it_grows(url: str, format: str) -> None:
    seen = list(ask(url, "TOOLS", name(format, "call"), get_weather, "create_partial"))
    assert seen[-1].city == "Paris"
    assert len(seen) > 1


@every_format
def test_parallel_calls(url: str, format: str) -> None:
    found = list(ask(url, "PARALLEL_TOOLS", name(format, "parallel"), Iterable[get_weather]))
    assert [each.city for each in found] == ["Paris", "東京"]


@every_format
def test_a_cut_call(url: str, format: str) -> None:
    with pytest.raises(Exception, match="incomplete due to a max_tokens"):
        ask(url, "TOOLS", name(format, "cut"), get_weather)


@pytest.mark.parametrize("mode", ["JSON", "JSON_SCHEMA"])
def test_content_that_holds_to_a_schema(url: str, mode: str) -> None:
    assert ask(url, mode, "json", get_weather).city == "Paris"


@every_format
def test_an_error_in_the_middle_of_a_stream(url: str, format: str) -> None:
    with pytest.raises(Exception, match="fails here"):
        list(ask(url, "TOOLS", name(format, "broken"), get_weather, "create_partial"))


def test_a_call_that_is_demanded_of_a_small_model_comes() -> None:
    with running("--threads", "1", "--ctx", "2048") as (url, _, _):
        model = client(url).models.list().data[0].id
        found = ask(url, "TOOLS", model, get_weather, parallel_tool_calls=False)
    assert isinstance(found.city, str)
