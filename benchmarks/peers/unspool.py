"""unspool itself, through its public interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import unspool
from benchmarks.peers import Outcome
from benchmarks.timing import Stream
from benchmarks.workloads import TOOLS, Workload


class _Unspool:
    name = f"unspool {unspool.__version__}"

    def stream(self, work: Workload) -> Callable[[], Stream]:
        fmt, prompt = work.format, work.prompt

        def new() -> Stream:
            parser = unspool.Parser(fmt, tools=TOOLS, prompt=prompt)
            return Stream(parser.feed, parser.finish)

        return new

    def read(self, work: Workload, outputs: Iterable[object]) -> Outcome:
        lists = cast(list[list[unspool.Event]], list(outputs))
        message = unspool.Message.from_events(event for events in lists for event in events)
        argued = sum(any(isinstance(event, unspool.ToolCallDelta) for event in events) for events in lists)
        return _outcome(message, argued)

    def whole(self, work: Workload) -> Callable[[], object]:
        fmt, raw, prompt = work.format, work.raw, work.prompt
        return lambda: unspool.parse(fmt, raw, tools=TOOLS, prompt=prompt)

    def read_whole(self, work: Workload, output: object) -> Outcome:
        return _outcome(cast(unspool.Message, output), 0)


def _outcome(message: unspool.Message, argued: int) -> Outcome:
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return Outcome(message.reasoning or "", message.content or "", calls, argued)


def contestant() -> _Unspool:
    """The package under test."""
    return _Unspool()
