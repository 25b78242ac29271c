"""Every client with a real model too small to call by itself: a call that is demanded comes all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.drivers import Driver
from tests.clients.test_clients import every_client
from tests.server.process import running
from tests.server.serving import client


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, str]]:
    with running("--threads", "1", "--ctx", "2048") as (url, _, _):
        yield url, client(url).models.list().data[0].id


@every_client
def test_a_call_that_is_demanded_comes(server: tuple[str, str], driver: Driver) -> None:
    url, model = server
    heard = driver.whole(url, model, must_call=True)
    for answer in (heard, driver.join(list(driver.stream(url, model, must_call=True)))):
        ((tool, arguments),) = answer.calls
        assert (tool, list(arguments), answer.text, answer.finish) == ("get_weather", ["city"], "", "tool_calls")
