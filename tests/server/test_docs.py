"""The server's pages: their examples run, and they name every field that is treated specially."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

from tests.server.serving import served
from unspool.engines.replay import Recording, ReplayEngine, load_recordings, read_recording
from unspool.server.storage import MAX_AGE, MAX_BYTES, MAX_BYTES_IN_MEMORY, MAX_RECORDS
from unspool.surfaces import chat, messages, responses

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "server.md").read_text(encoding="utf-8")
RESPONSES = (DOCS / "responses.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MESSAGES_PAGE = (DOCS / "messages.md").read_text(encoding="utf-8")
RECORDINGS = load_recordings(DOCS / "examples" / "recordings.jsonl")


def test_the_clients_example_runs_against_the_recordings_of_the_page() -> None:
    (code,) = (text for kind, text in EXAMPLES if kind == "python" and "OpenAI(" in text)
    with served(ReplayEngine(RECORDINGS, chunking="whole")) as url, redirect_stdout(io.StringIO()) as printed:
        exec(compile(code.replace("http://127.0.0.1:8000", url), "server.md", "exec"), {})
    assert printed.getvalue().splitlines() == [
        "thinks: A call will tell.",
        "calls: get_weather ",
        'calls:  {"city": "Paris"}',
    ]


def test_the_example_of_the_responses_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", RESPONSES, re.M | re.S)
    with served(ReplayEngine(RECORDINGS, chunking="whole")) as url, redirect_stdout(io.StringIO()) as printed:
        exec(compile(code.replace("http://127.0.0.1:8000", url), "responses.md", "exec"), {})
    assert printed.getvalue().splitlines() == [
        "thinks: A call will tell.",
        'calls: get_weather {"city": "Paris"}',
        "says: Mild, but take an umbrella.",
    ]


def test_the_clients_example_of_the_readme_runs() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (code,) = (text for text in re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S) if "OpenAI(" in text)
    recordings = [Recording("default", "Paris.")]
    with served(ReplayEngine(recordings)) as url, redirect_stdout(io.StringIO()) as printed:
        exec(compile(code.replace("http://127.0.0.1:8000", url), "README.md", "exec"), {})
    assert printed.getvalue() == "Paris."


def test_the_applications_example_runs() -> None:
    (code,) = (text for kind, text in EXAMPLES if kind == "python" and "create_app" in text)
    names: dict[str, object] = {}
    exec(compile(code, "server.md", "exec"), names)
    assert callable(names["app"])


def test_the_recording_shown_is_the_one_in_the_file() -> None:
    (shown,) = (text for kind, text in EXAMPLES if kind == "json")
    assert read_recording(json.loads(shown)) == RECORDINGS[0]


def test_every_field_that_is_refused_or_left_out_is_named() -> None:
    for surface, page in ((chat, PAGE), (messages, MESSAGES_PAGE), (responses, RESPONSES)):
        fields = {*surface.IGNORED, *surface.REFUSED}
        assert [field for field in sorted(fields) if f"`{field}`" not in page] == []


def test_the_example_of_the_messages_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", MESSAGES_PAGE, re.MULTILINE | re.DOTALL)
    with served(ReplayEngine(RECORDINGS)) as url, redirect_stdout(io.StringIO()) as printed:
        exec(compile(code.replace("http://127.0.0.1:8000", url), "messages.md", "exec"), {})
    assert printed.getvalue().splitlines() == ["thinks: A call will tell.", "calls: get_weather {'city': 'Paris'}"]


def test_what_is_kept_is_as_much_as_the_page_says() -> None:
    assert f"{MAX_RECORDS:,} responses" in RESPONSES
    assert f"{MAX_BYTES >> 30} GiB ({MAX_BYTES_IN_MEMORY >> 20} MiB in memory)" in RESPONSES
    assert f"{MAX_AGE / 86400:.0f} days" in RESPONSES
