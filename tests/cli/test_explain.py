from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.cli.conftest import RAW, WEATHER, Run, Show
from unspool.cli.lost import explained, lost_call
from unspool.cli.options import Reading
from unspool.cli.page import render
from unspool.cli.pieces import KINDS, merged, shown, summary
from unspool.formats import samples


def spans(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_piped_it_prints_the_spans_as_json_lines(run: Run, raw: Path, tools: Path) -> None:
    result = run("explain", "-f", "qwen3", "--tools", tools, raw)
    assert (result.exit_code, result.stderr) == (0, "")
    found = spans(result.stdout)
    assert "".join(span["text"] for span in found) == RAW
    assert all(RAW[span["start"] : span["end"]] == span["text"] for span in found)
    assert all(span["note"] for span in found)

    def text(kind: str) -> str:
        return "".join(span["text"] for span in found if span["kind"] == kind)

    assert text("reasoning") == "The user wants the weather."
    assert text("content") == "Let me check."
    assert text("name") == "get_weather"
    assert text("arguments") == '{"city": "Paris", "days": 3}'
    assert text("framing").startswith("<think>\n\n</think>\n\n")


def test_for_people_it_shows_the_text_a_legend_and_a_table(show: Show, raw: Path, tools: Path) -> None:
    drawn = show("explain", "-f", "qwen3", "--tools", tools, raw)
    assert "<think>⏎" in drawn
    for kind in KINDS.values():
        assert kind.label in drawn
    for piece in merged(unspool.explain("qwen3", RAW, tools=[WEATHER])):
        assert f"{piece.start}-{piece.end}" in drawn


def test_framing_is_drawn_in_one_piece_with_the_notes_of_its_parts() -> None:
    spans = [
        unspool.Span(0, 1, "content", "text"),
        unspool.Span(1, 2, "content", "no call"),
        unspool.Span(2, 4, "framing", "marker"),
        unspool.Span(4, 5, "framing", "layout"),
        unspool.Span(5, 9, "framing", "marker"),
        unspool.Span(9, 10, "arguments", "arguments"),
    ]
    framing = unspool.Span(2, 9, "framing", "marker, layout")
    assert merged(spans) == [*spans[:2], framing, spans[-1]]
    assert merged([]) == []


def test_newlines_and_tabs_are_drawn_in_framing_only() -> None:
    assert shown("\n\t", "framing") == "⏎\n→\t"
    assert shown("a\n\tb", "content") == "a\n\tb"
    assert shown("\x1b\r", "content") == "␛␍"


def test_in_the_table_a_piece_is_one_line_with_its_whitespace_drawn() -> None:
    assert summary(" a b\n\tc\x1b ") == "␣a b⏎→c␛␣"
    assert summary("  ") == "␣␣"
    assert summary("") == ""
    assert summary("x" * 48) == "x" * 48


def test_in_the_table_a_long_piece_loses_its_middle() -> None:
    short = summary("a" * 100 + "b" * 100)
    assert re.fullmatch("a+…b+", short)
    assert len(short) == 48


class Page(HTMLParser):
    """The text inside ``<pre>``, and every reference to another resource."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.inside = False
        self.text = ""
        self.references: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside |= tag == "pre"
        assert tag not in {"script", "link", "img", "iframe"}
        self.references += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "data"}]

    def handle_endtag(self, tag: str) -> None:
        self.inside &= tag != "pre"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.text += data


def test_the_page_holds_the_whole_text_escaped(run: Run) -> None:
    hostile = '<script>alert(1)</script> & "quotes" \' <!-- $title ${x} \x1b[0m'
    page = Page(run("explain", "-f", "qwen3", "--html", input=hostile).stdout)
    assert page.text == "\n" + hostile.replace("\x1b", "␛")


def test_the_page_needs_nothing_else_and_follows_the_colour_scheme(run: Run, raw: Path, tools: Path) -> None:
    source = run("explain", "-f", "qwen3", "--tools", tools, "--html", raw).stdout
    assert all(reference.startswith("#p") for reference in Page(source).references)
    assert "@import" not in source
    assert "url(" not in source
    assert "prefers-color-scheme: dark" in source
    assert all(f'class="{kind}"' in source for kind in KINDS)


def test_the_page_goes_where_output_says(run: Run, raw: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = run("explain", "-f", "qwen3", "--html", "-o", path, raw)
    assert (result.exit_code, result.stdout) == (0, "")
    assert path.read_text(encoding="utf-8") == run("explain", "-f", "qwen3", "--html", raw).stdout.removesuffix(
        "\n"
    )


def test_the_picture_is_well_formed_and_needs_nothing_else(
    run: Run, raw: Path, tools: Path, tmp_path: Path
) -> None:
    path = tmp_path / "picture.svg"
    assert run("explain", "-f", "qwen3", "--tools", tools, "--svg", "-o", path, raw).exit_code == 0
    source = path.read_text(encoding="utf-8")
    text = "".join(ET.fromstring(source).itertext())
    assert "get_weather" in text
    assert "explain -f hermes" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "@font-face" not in source
    assert not re.search(r"url\(['\"]?http", source)


def test_the_picture_does_not_depend_on_the_terminal(run: Run, raw: Path) -> None:
    args = ["explain", "-f", "qwen3", "--svg", raw]
    assert run(*args, COLUMNS="40", NO_COLOR="1", TERM="dumb").stdout == run(*args, COLUMNS="150").stdout


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--html", "--svg"], "--html, --svg and --json exclude each other: give one of them"),
        (["--svg", "--json"], "--html, --svg and --json exclude each other: give one of them"),
        (["-o", "page.html"], "--output needs --html or --svg"),
    ],
)
def test_flags_that_do_not_go_together(run: Run, raw: Path, flags: list[str], complaint: str) -> None:
    result = run("explain", "-f", "qwen3", *flags, raw)
    assert (result.exit_code, result.stderr) == (2, f"Error: {complaint}\n")


def lost(run: Run, format_name: str, text: str, *args: str | Path) -> str:
    return run("explain", "-f", format_name, *args, input=text).stderr


def test_any_name_may_be_that_of_a_tool_which_is_not_offered(run: Run) -> None:
    note = lost(run, "llama3_json", '{"name": "mcp/функция", "parameters": {}}')
    assert "with --tools there would be a call of mcp/функция" in note


def test_a_call_without_offered_tools_says_to_pass_them(run: Run, show: Show, raw: Path) -> None:
    note = "No call was found because no tools were offered: with --tools there would be a call of get_weather."
    args = ["explain", "-f", "qwen3", raw]
    assert run(*args).stderr == f"Note: {note}\n"
    assert note in show(*args)
    assert note in unescape(run(*args, "--html").stdout)
    assert "no tools were offered" in run(*args, "--svg").stdout.replace("&#160;", " ")


def test_a_call_lost_to_tool_choice_none_says_so(run: Run, tools: Path) -> None:
    note = lost(run, "qwen3", RAW, "--tools", tools, "--tool-choice", "none")
    assert note == (
        "Note: No call was found because of --tool-choice none: without it there would be a call of get_weather.\n"
    )


def test_a_bare_call_of_a_tool_that_is_not_offered_names_both(run: Run, tools: Path) -> None:
    note = lost(run, "llama3", '{"name": "get_time", "parameters": {}}', "--tools", tools)
    assert note == (
        "Note: No call was found because the tool is not offered: there would be a call of get_time, "
        "but the offered tools are get_weather.\n"
    )


def test_malformed_markup_says_what_it_became(run: Run, tools: Path) -> None:
    note = lost(run, "qwen3", "So:\n<tool_call>\nget_weather(Paris)\n</tool_call>", "--tools", tools)
    assert note.startswith(
        'Note: No call was found, though "<tool_call>" stands at character 4: that became content'
    )


def test_a_call_in_closed_reasoning_says_it_is_reasoning(run: Run, tools: Path) -> None:
    drafted = RAW.replace("</think>", "").replace("Let me check.", "") + "\n</think>\n\nNo need."
    note = lost(run, "qwen3", drafted, "--tools", tools)
    assert "that became reasoning" in note


@pytest.mark.parametrize("text", [RAW, "Hello.", ""])
def test_a_text_without_a_lost_call_has_no_note(run: Run, tools: Path, text: str) -> None:
    assert lost(run, "qwen3", text, "--tools", tools) == ""


@pytest.mark.parametrize("name", [each.name for each in unspool.formats()])
def test_every_format_is_drawn_with_every_character(show: Show, tmp_path: Path, name: str) -> None:
    for number, (_, prompt_tail, raw) in enumerate(samples(unspool.get_format(name))):
        found = unspool.explain(name, raw, tools=[WEATHER], prompt=prompt_tail)
        page = Page(render(name, raw, merged(found), None))
        drawn = "".join(shown(raw[span.start : span.end], span.kind) for span in found)
        assert page.text == "\n" + drawn
        path = tmp_path / f"{number}.txt"
        path.write_text(raw, encoding="utf-8")
        assert "raw text" in show("explain", "-f", name, "--prompt", prompt_tail, path)


def test_a_format_without_calls_loses_none() -> None:
    plain = unspool.Format("plain", "text and nothing else")
    reading = Reading("-", plain, [WEATHER], "auto", None, "stop")
    assert lost_call(reading, RAW, explained(reading, RAW)) is None


def test_reasoning_lost_to_a_prompt_that_was_not_given_says_how_to_give_it(run: Run, show: Show) -> None:
    raw = "A thought.\n</think>\n\nHi!"
    note = lost(run, "qwen3", raw)
    tail = '"<|im_start|>assistant\\n<think>\\n"'
    assert note == (
        'Note: No reasoning was found, though "</think>" stands at character 11: '
        f'if the prompt ended in "<think>", say so with --prompt-tail {tail}.\n'
    )
    given = ("-f", "qwen3", "--prompt-tail", json.loads(tail))
    assert json.loads(run("parse", *given, input=raw).stdout)["reasoning"] == "A thought."
    assert run("explain", *given, input=raw).stderr == ""
    assert "No reasoning was found" in show("parse", "-f", "qwen3", input=raw)


def test_reasoning_lost_to_a_prompt_says_so(run: Run) -> None:
    note = lost(run, "qwen3", "<think>\nHm.\n</think>\n\nHi!", "--prompt", "What is two and two?")
    assert note == (
        "Note: No reasoning was found because of the prompt, which does not end where a turn begins; "
        "without it there would be.\n"
    )


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("<think>\n\n</think>\n\nHi!", []),
        ("Hi!", ["--prompt", "x"]),
        ("</think>Hi!", ["--prompt-tail", "<|im_start|>assistant\n<think>\n\n</think>\n\n"]),
    ],
)
def test_where_there_was_no_reasoning_none_is_missed(run: Run, text: str, args: list[str]) -> None:
    assert lost(run, "qwen3", text, *args) == ""
