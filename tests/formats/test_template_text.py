"""What a template's source says, without running it."""

from __future__ import annotations

import pytest

from unspool.formats.template_text import TemplateText


@pytest.mark.parametrize(
    ("source", "whole"),
    [
        ("plain", "plain"),
        (r"{{ 'a\n\t\r\'\"\\' }}b", "a\n\t\r'\"\\b"),
        (r"{{ '\u3008\x41' }}", "〈A"),
        ("a{# a comment with <tool_call> #}b", "ab"),
        ("{{- 'one' -}} {{ \"two\" }}", "one two"),
        ("{{ '<' + 'call' ~ \">\" }}", "<call>"),
        ("{{ '<' + name + '>' }}", "{{ '<' + name + '>' }}"),
        ("{%- set mark = '｜X｜' -%}<{{ mark }}>", "{% set mark = '｜X｜' %}<｜X｜>"),
        ("{% set mark = '｜X｜' %}{{ '<' + mark + 'call>' }}", "{% set mark = '｜X｜' %}<｜X｜call>"),
        ("{% set mark = '｜X｜' %}{{ message.mark + 'y' }}", "{% set mark = '｜X｜' %}{{ message.mark + 'y' }}"),
        ("{% set a = 'x' %}{% set b = a ~ 'y' %}{{ b }}", "{% set a = 'x' %}{% set b = 'xy' %}xy"),
        ("{% set a = ':7' %}{{ '<call{}>'.format(a) }}", "{% set a = ':7' %}<call:7>"),
        ("{% set m = 'a' %}{% set m = 'b' %}{{ m }}", "{% set m = 'a' %}{% set m = 'b' %}{{ m }}"),
        ("{{ '}}' }}{{ '%}' + x }}", "}}{{ '%}' + x }}"),
        ("{{ f('a' + 'b', 'c') }}", "{{ f('ab', 'c') }}"),
        ("{{ '' + '' }}", ""),
        ("{% if 'a' == 'b' %}", "{% if 'a' == 'b' %}"),
        ("{{ \"it's\" + 'x' }}", "it'sx"),
        ("{{ 'unclosed }}", "{{ 'unclosed }}"),
        ("a{{ no end", "a{{ no end"),
        ("a{# no end", "a{# no end"),
    ],
)
def test_pieces_are_put_together(source: str, whole: str) -> None:
    assert TemplateText(source).whole == whole


def test_prompt_ends_are_the_texts_of_the_last_part_about_the_prompt() -> None:
    source = (
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
        "{{ '<think>' + message.reasoning }}"
        "{%- if add_generation_prompt -%}\n  <|bot|>\n"
        "  {%- if thinking -%}\n  <think>\n"
        "  {%- else -%}{{ '<think>\\n' + '</think>' }}{%- endif -%}\n{%- endif -%}"
    )
    assert TemplateText(source).prompt_ends == ("<|bot|>", "<think>", "<think>\n</think>")


def test_the_prompt_may_be_decided_inside_an_expression() -> None:
    source = "x{{ '<|bot|><think>' if add_generation_prompt else '' }}"
    assert TemplateText(source).prompt_ends == ("<|bot|><think>",)


def test_a_template_that_opens_no_turn_has_no_prompt_ends() -> None:
    assert TemplateText("{{ '<think>' }}").prompt_ends == ()
