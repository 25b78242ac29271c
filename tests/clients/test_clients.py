"""Real clients over a real connection: the same answers in nine families' formats, whole and streamed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.clients.drivers import DRIVERS, Driver
from tests.clients.recordings import ANSWERS, CASES, FORMATS, RECORDINGS, Heard, name
from tests.server.serving import ScriptedEngine, served
from unspool.engines.base import Chunk
from unspool.engines.replay import ReplayEngine


def _param(driver: Driver) -> Any:
    missing = find_spec(driver.package) is None
    reason = f"{driver.package} is not installed: make clients installs it"
    return pytest.param(driver, id=type(driver).__name__, marks=pytest.mark.skipif(missing, reason=reason))


every_client = pytest.mark.parametrize("driver", [_param(driver) for driver in DRIVERS])
every_format = pytest.mark.parametrize("format", FORMATS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ReplayEngine(RECORDINGS, chunking="chars:3")) as url:
        yield url


def expected(driver: Driver, scenario: str) -> Heard:
    """What was said, as far as this client shows it."""
    said = ANSWERS[scenario]
    return said if driver.reasoning else dataclasses.replace(said, reasoning="")


@every_client
@pytest.mark.parametrize(("format", "scenario"), CASES)
def test_a_whole_answer(url: str, driver: Driver, format: str, scenario: str) -> None:
    assert driver.whole(url, name(format, scenario)) == expected(driver, scenario)


@every_client
@pytest.mark.parametrize(("format", "scenario"), [case for case in CASES if case[1] != "cut"])
def test_a_streamed_answer(url: str, driver: Driver, format: str, scenario: str) -> None:
    chunks = list(driver.stream(url, name(format, scenario)))
    assert len(chunks) > 2
    assert driver.join(chunks) == expected(driver, scenario)


@every_client
@every_format
def test_a_streamed_call_that_is_cut_is_marked_by_its_finish_reason(url: str, driver: Driver, format: str) -> None:
    heard = driver.join(list(driver.stream(url, name(format, "cut"))))
    assert (heard.text, heard.finish) == ("", "length")
    for tool, arguments in heard.calls:
        assert tool == "get_weather"
        assert isinstance(arguments, dict) == driver.mends
        assert "Paris" not in repr(arguments)


@every_client
@every_format
def test_an_error_in_the_middle_of_a_stream_is_raised(url: str, driver: Driver, format: str) -> None:
    heard: list[Any] = []
    with pytest.raises(Exception, match="fails here"):
        heard.extend(driver.stream(url, name(format, "broken")))


@every_client
def test_an_error_before_a_whole_answer_is_raised(url: str, driver: Driver) -> None:
    with pytest.raises(Exception, match="fails here"):
        driver.whole(url, name("hermes", "broken"))


@every_client
def test_a_client_that_hangs_up_ends_the_generation(driver: Driver) -> None:
    engine = ScriptedEngine(Chunk("One "), Chunk("two "), Chunk("three "), None)
    with served(engine) as url:
        stream: Any = driver.stream(url, "scripted")
        next(stream)
        stream.close()
        assert engine.aborted.wait(10)
