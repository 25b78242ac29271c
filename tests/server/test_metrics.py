"""The numbers that the server counts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.server.serving import HELLO, WEATHER, ScriptedEngine, client, served
from unspool.engines.base import Chunk
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.metrics import Counter, Histogram
from unspool.server.service import Settings

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+')


def numbers(url: str, **headers: str) -> dict[str, float]:
    answer = httpx.get(f"{url}/metrics", headers=headers)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.fixture(scope="module")
def counted() -> Iterator[dict[str, float]]:
    recordings = [
        Recording("fine", "Hi"),
        Recording("bad", '<tool_call>\n{"name": 1}\n</tool_call>'),
        Recording("cut", '<tool_call>\n{"name": "get_weather", "arguments": {"ci', finish_reason="length"),
        Recording("open", '<tool_call>\n{"name": "get_weather", "argu'),
        Recording("broken", "Hello there", fail_after=1),
    ]
    with served(ReplayEngine(recordings), Settings(format="hermes")) as url, client(url) as api:
        for name in ("fine", "bad", "cut", "open"):
            api.chat.completions.create(model=name, messages=HELLO, tools=[WEATHER])
        with pytest.raises(openai.APIError):
            api.chat.completions.create(model="broken", messages=HELLO)
        httpx.get(f"{url}/nowhere/of/interest")
        yield numbers(url)


def test_requests_and_their_ends_are_counted(counted: dict[str, float]) -> None:
    assert counted['unspool_requests_total{path="/v1/chat/completions",status="200"}'] == 4
    assert counted['unspool_requests_total{path="/v1/chat/completions",status="500"}'] == 1
    assert counted['unspool_requests_total{path="other",status="404"}'] == 1
    assert counted['unspool_generations_total{reason="stop"}'] == 3
    assert counted['unspool_generations_total{reason="length"}'] == 1
    assert counted['unspool_generations_total{reason="error"}'] == 1


def test_calls_that_were_none_are_counted_by_reason(counted: dict[str, float]) -> None:
    reasons = ("malformed", "cut", "unfinished")
    assert [counted[f'unspool_rejected_calls_total{{reason="{reason}"}}'] for reason in reasons] == [1, 1, 1]


def test_durations_are_counted(counted: dict[str, float]) -> None:
    assert counted["unspool_time_to_first_token_seconds_count"] == 5
    assert counted['unspool_time_to_first_token_seconds_bucket{le="+Inf"}'] == 5
    assert counted["unspool_generation_seconds_count"] == 5


def test_tokens_are_counted() -> None:
    chunks = [Chunk("<think>a"), Chunk("</think>b", finish_reason="stop", prompt_tokens=7, completion_tokens=4)]
    with served(ScriptedEngine(*chunks), Settings(format="qwen3")) as url:
        httpx.post(f"{url}/v1/chat/completions", json={"messages": HELLO, "n": 2})
        counted = numbers(url)
    assert counted["unspool_prompt_tokens_total"] == 14
    assert counted["unspool_completion_tokens_total"] == 8
    assert counted["unspool_reasoning_tokens_total"] > 0
    assert counted["unspool_cached_tokens_total"] == 0


def test_what_is_going_on_is_shown() -> None:
    engine = ScriptedEngine(Chunk("a"), None)
    with served(engine) as url, client(url) as api:
        stream = api.chat.completions.create(model="scripted", messages=HELLO, stream=True)
        next(stream)
        assert numbers(url)["unspool_generations_running"] == 1
        stream.close()
        assert engine.aborted.wait(20)
        while (counted := numbers(url))["unspool_generations_running"]:
            pass
    assert counted['unspool_generations_total{reason="aborted"}'] == 1
    assert counted["unspool_requests_waiting"] == 0


def test_the_numbers_need_the_key() -> None:
    with served(ScriptedEngine(), Settings(api_key="key")) as url:
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert numbers(url, authorization="Bearer key")


def test_label_values_are_escaped() -> None:
    counter = Counter("a_total", "A.", ("b",))
    counter.add(2, 'x"\\\ny')
    assert list(counter.lines())[-1] == 'a_total{b="x\\"\\\\\\ny"} 2'


def test_a_histogram_counts_up_to_its_bounds() -> None:
    histogram = Histogram("a_seconds", "A.")
    for seconds in (0.05, 0.06, 1000):
        histogram.observe(seconds)
    lines = list(histogram.lines())
    assert 'a_seconds_bucket{le="0.05"} 1' in lines
    assert 'a_seconds_bucket{le="300.0"} 2' in lines
    assert lines[-3:] == ['a_seconds_bucket{le="+Inf"} 3', "a_seconds_sum 1000.11", "a_seconds_count 3"]
