from __future__ import annotations

import json
import shlex

import pytest

from unspool.cli.serve_output import ProgressBar, print_banner
from unspool.engines.base import ModelInfo
from unspool.server.service import Settings


def test_off_a_terminal_progress_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("Loading") as bar:
        for done in range(0, 101, 10):
            bar.update(done, 100)
    assert capsys.readouterr() == ("", "Loading the model ...\n")


def test_on_a_terminal_there_is_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with ProgressBar("Downloading", in_bytes=True) as bar:
        bar.update(0, None)
        bar.update(93_000_000, 93_000_000)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Downloading the model" in shown.err
    assert "93.0/93.0 MB" in shown.err


def test_a_bar_that_nothing_updates_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar("Loading")
    bar.update(1, 100)
    with bar:
        pass
    bar.update(2, 100)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/v1"),
        ("0.0.0.0", "http://127.0.0.1:8000/v1"),
        ("::", "http://[::1]:8000/v1"),
        ("192.0.2.1", "http://192.0.2.1:8000/v1"),
    ],
)
def test_the_example_can_be_pasted(capsys: pytest.CaptureFixture[str], host: str, base: str) -> None:
    print_banner(ModelInfo("it's", 0, 100), "qwen3 format", host, 8000, Settings(api_key="secret"))
    banner = capsys.readouterr().out
    assert f"serves it's (qwen3 format) at {base}" in banner
    example = banner.partition("Try it:\n")[2].partition("Stop it")[0]
    curl, _, url, *_, body = shlex.split(example.replace("\\\n", " "))
    assert (curl, url, json.loads(body)["model"]) == ("curl", f"{base}/chat/completions", "it's")
    assert "secret" not in banner


def test_the_demo_model_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_banner(ModelInfo("m", 0, 100, demo=True), "hermes", "127.0.0.1", 8000, Settings())
    banner = capsys.readouterr().out
    assert "small demo model" in banner
    assert '"temperature": 0' in banner
    assert "--api-key" not in banner


def test_an_open_address_without_a_key_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_banner(ModelInfo("m", 0, 100), "hermes", "0.0.0.0", 8000, Settings())
    assert "Anybody who can reach this machine" in capsys.readouterr().out
