"""The pages of the formats, read as a user reads them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import unspool
from unspool.cli.format_page import index, page

FORMATS = unspool.formats()


def test_the_index_has_every_format_once_under_the_shape_of_its_calls() -> None:
    sections = dict(re.findall(r"## (.*?)\n(.*?)(?=\n## |\Z)", index(FORMATS), re.DOTALL))
    listed = {title: re.findall(r"^\| \[(\w+)\]", text, re.MULTILINE) for title, text in sections.items()}
    shapes = [{type(unspool.get_format(name).calls) for name in names} for names in listed.values()]
    assert [len(kinds) for kinds in shapes] == [1] * len(listed)
    assert sorted(name for names in listed.values() for name in names) == [fmt.name for fmt in FORMATS]
    assert len(set.union(*shapes)) == len(listed)


def test_a_marker_is_shown_as_it_is_outside_a_table_and_escaped_inside() -> None:
    shown = page(unspool.get_format("solar_open2"))
    assert "Reasoning, after `<|think:start|>`:" in shown
    assert "| reasoning | `<\\|think:start\\|>` ... `<\\|think:end\\|>` |" in shown


def test_a_row_of_a_table_has_two_cells() -> None:
    for fmt in FORMATS:
        table = page(fmt).split("\n## ")[0]
        for row in re.findall(r"^\|.*$", table, re.MULTILINE):
            assert len(re.findall(r"(?<!\\)\|", row)) == 3, row


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_format_says_what_its_samples_do_not_show(fmt: unspool.Format) -> None:
    assert fmt.quirks
    for said in (*fmt.quirks, *fmt.disagreements):
        assert said.endswith("."), said
        assert "  " not in said, said
        assert "\n" not in said, said


def test_what_others_make_of_it_comes_with_their_versions() -> None:
    fmt = unspool.get_format("hermes")
    assert "## Where engines disagree\n\nAs of vLLM 0.33 and SGLang 0.5" in page(fmt)
    assert "Where engines disagree" not in page(replace(fmt, disagreements=()))
