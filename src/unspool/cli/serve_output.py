"""What ``unspool serve`` shows: bars while it downloads and loads, then what is served and how to call it."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from unspool.engines.base import ModelInfo

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from unspool.server.service import Settings

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LOCAL_HOSTS = ("127.0.0.1", "::1")


class ProgressBar:
    """A bar on standard error that appears with the first update; off a terminal, one line of text.

    Updates may come from any thread; those outside of the ``with`` block are ignored.
    """

    def __init__(self, label: str, *, in_bytes: bool = False) -> None:
        self._label = label
        self._in_bytes = in_bytes
        self._active = False
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> ProgressBar:
        self._active = True
        return self

    def __exit__(self, *exception: object) -> None:
        self._active = False
        if self._bar is not None:
            self._bar[0].stop()

    def update(self, done: int, total: int | None) -> None:
        """Shows how far it is; ``total`` ``None`` means that nobody knows."""
        if not self._active:
            return
        if self._bar is None:
            self._bar = self._start(total)
        progress, task = self._bar
        progress.update(task, completed=done, total=total)

    def _start(self, total: int | None) -> tuple[Progress, TaskID]:
        from rich import progress as parts
        from rich.console import Console

        console = Console(stderr=True)
        numbers = parts.DownloadColumn() if self._in_bytes else parts.TaskProgressColumn()
        progress = parts.Progress(
            parts.TextColumn("{task.description}"),
            parts.BarColumn(),
            numbers,
            parts.TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        if not console.is_terminal:
            click.echo(f"{self._label} the model ...", err=True)
        progress.start()
        return progress, progress.add_task(f"{self._label} the model", total=total)


def print_banner(
    model: ModelInfo, reads: str, host: str, port: int, settings: Settings, kept_in: str | None = None
) -> None:
    """Says what is served, where, and how to try it. ``kept_in`` is the file that responses are kept in."""
    shown = _ANY_HOST.get(host, host)
    base = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/v1"
    click.echo(f"\nunspool {version('unspool')} serves {model.id} ({reads}) at {base}")
    if model.demo:
        click.echo(
            "This is a small demo model: it shows that everything works, but its answers are a toy's.\n"
            "Serve your own with: unspool serve MODEL"
        )
    if host not in _LOCAL_HOSTS and not settings.api_key:
        click.echo("Anybody who can reach this machine can use it; --api-key demands a key.")
    if kept_in is not None:
        click.echo(f"Responses that clients let it store are kept in {kept_in}; --store chooses another place.")
    key = ' -H "Authorization: Bearer $UNSPOOL_API_KEY"' if settings.api_key else ""
    body: dict[str, object] = {
        "model": model.id,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "stream": True,
    }
    if model.demo:
        # Sampling needs a better model than this one.
        body["temperature"] = 0
    click.echo(
        f"\nTry it:\n  curl -N {base}/chat/completions -H 'Content-Type: application/json'{key} \\\n"
        f"    -d {shlex.quote(json.dumps(body))}\nStop it with Ctrl+C.\n"
    )
    sys.stdout.flush()
