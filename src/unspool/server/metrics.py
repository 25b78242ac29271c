"""What the server counts, in Prometheus' text format.

A dozen numbers that one event loop writes need neither locks nor files that processes share, so this is instead of
a dependency.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from unspool.events import Finish

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Counter:
    """A number that grows, for each combination of label values that was seen."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._values: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, amount: int, *values: str) -> None:
        """Counts; ``values`` are those of the labels."""
        self._values[values] = self._values.get(values, 0) + amount

    def lines(self) -> Iterator[str]:
        """The metric as text."""
        yield from (f"# HELP {self.name} {self.help}", f"# TYPE {self.name} counter")
        for values, number in sorted(self._values.items()):
            yield f"{self.name}{_labels(zip(self.labels, values, strict=True))} {number}"


class Gauge:
    """A number that is asked for when it is shown."""

    def __init__(self, name: str, help: str, read: Callable[[], int]) -> None:
        self.name = name
        self.help = help
        self._read = read

    def lines(self) -> Iterator[str]:
        """The metric as text."""
        yield from (f"# HELP {self.name} {self.help}", f"# TYPE {self.name} gauge", f"{self.name} {self._read()}")


class Histogram:
    """How many durations, in seconds, were at most how long."""

    def __init__(self, name: str, help: str) -> None:
        self.name = name
        self.help = help
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Counts a duration."""
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum += seconds

    def lines(self) -> Iterator[str]:
        """The metric as text."""
        yield from (f"# HELP {self.name} {self.help}", f"# TYPE {self.name} histogram")
        total = 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            yield f"{self.name}_bucket{_labels([('le', bound)])} {total}"
        yield from (f"{self.name}_sum {self._sum}", f"{self.name}_count {total}")


def _labels(pairs: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> str:
    shown = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{shown}}}" if shown else ""


class Metrics:
    """Everything that is counted; ``waiting`` and ``running`` tell how many requests and generations do so now."""

    def __init__(self, waiting: Callable[[], int], running: Callable[[], int]) -> None:
        self.requests = Counter("unspool_requests_total", "Answered requests.", ("path", "status"))
        self.generations = Counter(
            "unspool_generations_total", "Ended generations, by why they ended.", ("reason",)
        )
        self.rejected = Counter(
            "unspool_rejected_calls_total",
            "What began like a tool call and was none: malformed, unfinished, or cut by the token limit.",
            ("reason",),
        )
        self.prompt = Counter("unspool_prompt_tokens_total", "Tokens of prompts.")
        self.cached = Counter("unspool_cached_tokens_total", "Tokens of prompts that were not computed again.")
        self.completion = Counter("unspool_completion_tokens_total", "Generated tokens.")
        self.reasoning = Counter("unspool_reasoning_tokens_total", "Generated tokens that became reasoning.")
        self.tool_calls = Counter(
            "unspool_mcp_calls_total", "Calls of tools of MCP servers, by how they went.", ("server", "outcome")
        )
        self.first_token = Histogram(
            "unspool_time_to_first_token_seconds", "From a request's arrival to its first token."
        )
        self.duration = Histogram("unspool_generation_seconds", "From a request's arrival to its last token.")
        self._shown = (
            self.requests,
            Gauge("unspool_requests_waiting", "Requests that wait for their first token.", waiting),
            Gauge("unspool_generations_running", "Requests whose generation has begun and not ended.", running),
            self.generations,
            self.rejected,
            self.tool_calls,
            self.prompt,
            self.cached,
            self.completion,
            self.reasoning,
            self.first_token,
            self.duration,
        )

    def finished(self, finish: Finish) -> None:
        """Counts a choice that ended by itself."""
        self.generations.add(1, finish.reason)
        if usage := finish.usage:
            self.prompt.add(usage.prompt_tokens)
            self.cached.add(usage.cached_tokens)
            self.completion.add(usage.completion_tokens)
            self.reasoning.add(usage.reasoning_tokens)

    def reject(self, reasons: Mapping[str, int]) -> None:
        """Counts what a parser rejected."""
        for reason, count in reasons.items():
            self.rejected.add(count, reason)

    def text(self) -> str:
        """All of it, as ``/metrics`` answers."""
        return "".join(f"{line}\n" for metric in self._shown for line in metric.lines())
