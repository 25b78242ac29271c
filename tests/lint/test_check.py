"""Round trips through templates that are right, and through some with one fault each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import unspool
from unspool.formats.checkpoint import Checkpoint
from unspool.lint import Difference, Report, Result, check
from unspool.server.template import BadTemplateError


def mended(template: str) -> str:
    """The template of the documentation without its fault: content beside calls is left out."""
    either = "{%- else %}\n{{- message.content }}\n{%- endif %}\n{{- '<|im_end|>\\n' }}"
    calls = "{%- if message.tool_calls %}"
    content = "{{- message.content ~ ('\\n' if message.content and message.tool_calls else '') }}\n"
    assert template.count(either) == template.count(calls) == 1
    return template.replace(either, "{%- endif %}\n{{- '<|im_end|>\\n' }}").replace(calls, content + calls)


GOOD = mended((Path(__file__).parents[2] / "docs/examples/chat_template.jinja").read_text("utf-8"))
HERMES = unspool.get_format("hermes")


def changed(old: str, new: str) -> str:
    """The good template with one thing changed."""
    assert old in GOOD
    return GOOD.replace(old, new)


def checked(template: str, fmt: unspool.Format = HERMES, **special: str) -> Report:
    return check(Checkpoint({"default": template}, special=special), fmt)


def result(report: Report, case: str) -> Result:
    return next(each for each in report.results if each.case == case)


def broken(report: Report) -> dict[str, str]:
    return {each.case: each.outcome for each in report.results if each.outcome != "holds"}


def test_a_good_template_holds_in_every_case() -> None:
    report = checked(GOOD)
    assert (report.holds, broken(report), report.notes, report.format) == (True, {}, (), HERMES)
    assert len(report.results) == 10
    assert all(each.text and not each.differences and not each.notes for each in report.results)
    assert result(report, "text and a call").text == (
        "Let me look that up.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
    )


def test_lost_content_is_found() -> None:
    lost = changed("message.content ~ (", "('' if message.tool_calls else message.content) ~ (")
    report = checked(lost)
    assert broken(report) == {"text and a call": "differs"}
    (difference,) = result(report, "text and a call").differences
    assert difference == Difference("content", '"Let me look that up."', "nothing")


def test_changed_arguments_are_found_where_they_are() -> None:
    report = checked(
        changed("call.function.arguments | tojson", "call.function.arguments | string | replace('3', '\"3\"')")
    )
    one = result(report, "one call")
    (difference,) = one.differences
    assert (difference.what, difference.expected) == ("call 0, arguments", '{"city": "Paris", "days": 3}')
    assert difference.got == '{"city": "Paris", "days": "3"}' == one.text[difference.start : difference.end]
    assert difference.became is not None
    assert difference.became.startswith("arguments: ")


def test_a_lost_call_is_found() -> None:
    report = checked(changed("for call in message.tool_calls", "for call in message.tool_calls[:1]"))
    assert broken(report) == {"parallel calls": "differs"}
    (difference,) = result(report, "parallel calls").differences
    assert difference == Difference("call 1", "get_time {}", "nothing")


def test_a_call_that_became_something_else_is_shown_where_it_stands() -> None:
    report = checked(changed('{"name": "', '{"tool": "'))
    one = result(report, "one call")
    content, call = one.differences
    assert (content.what, content.expected, content.start) == ("content", "nothing", 0)
    assert (call.what, call.got) == ("call 0", "nothing")
    assert one.text[call.start : call.end] == "get_weather"
    assert call.became == "content: no call: the object has no name"


def test_another_tools_name_is_shown_where_it_stands() -> None:
    report = checked(changed("~ call.function.name ~", "~ call.function.name | replace('_', '-') ~"))
    one = result(report, "one call")
    (difference,) = one.differences
    assert difference.got.startswith("get-weather ")
    assert one.text[difference.start : difference.end] == "get-weather"


def test_a_call_too_many_is_found() -> None:
    report = checked(
        changed("{%- endfor %}\n{%- endif %}", "{%- endfor %}{{- call_again }}\n{%- endif %}").replace(
            "{{- call_again }}", '\n{{- \'\\n<tool_call>{"name": "get_time", "arguments": {}}</tool_call>\' }}'
        )
    )
    (difference,) = result(report, "one call").differences
    assert (difference.what, difference.expected, difference.got) == ("call 1", "nothing", "get_time {}")


def test_added_whitespace_is_found() -> None:
    report = checked(changed("message.content ~ (", "' ' ~ message.content ~ ("))
    answer = result(report, "answer")
    (difference,) = answer.differences
    assert (difference.got, difference.start) == ('" It will be sunny in Paris."', 0)
    cut = checked(changed("message.content ~ (", "message.content | replace('is.', 'is') ~ ("))
    (difference,) = result(cut, "answer").differences
    assert (difference.got, difference.start) == ('"It will be sunny in Paris"', None)


def test_reasoning_in_the_wrong_tags_is_found_where_it_stands() -> None:
    report = checked(GOOD.replace("<think>", "<thoughts>").replace("</think>", "</thoughts>"))
    reasoning = result(report, "reasoning")
    lost, extra = reasoning.differences
    assert (lost.what, lost.got) == ("reasoning", "nothing")
    assert reasoning.text[lost.start : lost.end] == "The user asks about Paris, so I look it up."
    assert (extra.what, extra.start) == ("content", 0)


def test_reasoning_that_is_left_out_is_only_noted() -> None:
    report = checked(changed("{%- if message.reasoning_content %}", "{%- if false %}"))
    assert report.holds
    assert report.notes == ("reasoning of earlier turns is left out of the prompt",)
    assert result(report, "reasoning").notes == ("the template leaves reasoning out of the history",)


def test_what_the_prompt_opens_and_the_history_leaves_out_is_only_noted() -> None:
    opened = changed("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\n<think>\\n' }}")
    report = checked(opened, unspool.get_format("qwen3_thinking"))
    assert report.holds
    for case in ("answer", "one call"):
        assert result(report, case).notes == ('the prompt ends with "<think>\\n", which the history leaves out',)
    assert result(report, "reasoning").notes == ()
    other = checked(opened)
    assert other.holds
    assert other.notes == (
        'the prompt ends with "<think>\\n" after the opener of the turn, the start of hermes is "": '
        "parsers must be given the prompt",
    )


def test_a_prompt_that_begins_otherwise_than_the_history_is_found() -> None:
    report = checked(changed("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>bot\\n' }}"))
    assert set(broken(report).values()) == {"differs"}
    (difference,) = result(report, "answer").differences
    assert difference.what == "the opener of the model's turn"
    assert difference.expected == '"<|im_end|>\\n<|im_start|>bot\\n"'
    assert difference.got == '"<|im_end|>\\n<|im_start|>assistant\\n"'


def test_tools_that_only_the_prompt_has_are_noted() -> None:
    last = "{%- if tools and messages[-1].role != 'assistant' %}"
    report = checked(changed("{%- if tools %}", last))
    assert report.holds
    assert result(report, "one call").notes == (
        "what stands before the model's turn in the history is not what the prompt has there",
    )


def test_what_the_model_never_sees_is_found() -> None:
    report = checked(changed("~ message.content ~ '\\n</tool_response>", "~ '\\n</tool_response>"))
    (difference,) = result(report, "answer to a result").differences
    assert difference == Difference("earlier tool turn", '"Sunny, 22 degrees."', "nothing")
    report = checked(changed("for tool in tools", "for tool in tools[:1]"))
    unseen = [each.expected for each in result(report, "one call").differences]
    assert unseen == ["get_time", "search_flights"]


def test_earlier_calls_that_are_gone_are_found() -> None:
    gone = GOOD.replace("{%- if message.tool_calls %}", "{%- if message.tool_calls and loop.last %}")
    gone = gone.replace("{%- if tools %}", "{%- if tools and false %}")
    report = checked(gone)
    what = [(each.what, each.expected) for each in result(report, "answer to a result").differences]
    assert ("earlier call", "get_weather") in what


def test_a_template_that_refuses_says_so_itself() -> None:
    refusing = "{%- if message.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{%- endif %}"
    report = checked(
        changed("{%- if message.reasoning_content %}", refusing + "{%- if message.reasoning_content %}")
    )
    assert report.holds
    assert broken(report) == {"parallel calls": "refused"}
    assert result(report, "parallel calls").notes == ("line 13: one call at a time",)


def test_a_template_that_breaks_is_told_by_the_line() -> None:
    report = checked(changed("{{- message.content ~", "{{- message.content.text.x ~"))
    assert set(broken(report).values()) == {"fails"}
    assert result(report, "answer").notes[0].startswith("line 16: ")
    assert report.notes == ()
    late = checked(
        changed(
            "{%- for message in messages %}",
            "{%- for message in messages %}{%- if loop.index > 2 %}{{ x.y.z }}{%- endif %}",
        )
    )
    assert result(late, "follow-up").outcome == "fails"


@pytest.mark.parametrize(
    ("template", "note", "skipped"),
    [
        (
            GOOD.replace("tools", "things").replace("tool_calls", "things"),
            "the template has no support for tools: it mentions neither 'tools' nor 'tool_calls'",
            7,
        ),
        (
            GOOD.replace("tool_calls", "things"),
            "the template offers tools but writes no calls: it doesn't mention 'tool_calls'",
            7,
        ),
        (
            GOOD.replace("tools", "things"),
            "the template writes calls but can't offer tools: it doesn't mention 'tools'",
            0,
        ),
    ],
)
def test_missing_support_for_tools_is_said(template: str, note: str, skipped: int) -> None:
    report = checked(template)
    assert report.holds
    assert report.notes == (note,)
    assert sum(each.outcome == "skipped" for each in report.results) == skipped


def test_a_format_without_calls_is_tried_without_them() -> None:
    report = checked(GOOD, replace(HERMES, name="talk", calls=None))
    assert report.holds
    assert result(report, "one call").notes == ("the format talk has no calls",)


def test_ends_that_the_format_does_not_know_are_noted() -> None:
    report = checked(GOOD.replace("<|im_end|>", "<|eot|>"), eos_token="</s>")
    assert report.holds
    stops = 'hermes: "<|im_end|>", "<|endoftext|>"'
    assert report.notes == (
        f'a turn ends with "</s>", which is no stop of {stops}',
        f'a turn ends with "<|eot|>", which is no stop of {stops}',
    )


def test_a_turn_that_the_format_does_not_know_is_noted() -> None:
    report = checked(GOOD, replace(HERMES, turns=(), name="other"))
    assert report.notes == ("the prompt opens the model's turn with none of the turns of other: it has none",)


def test_call_ids_are_those_that_the_format_has() -> None:
    template = (
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}"
        "{{ '<|im_assistant|>assistant<|im_middle|>' if m.role == 'assistant' else '<|im_user|>' }}"
        "{{ m.tool_call_id }}{{ m.content or '' }}{% if m.tool_calls %}<|tool_calls_section_begin|>"
        "{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
        "{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}"
        "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"
    )
    report = checked(template, unspool.get_format("kimi_k2"))
    assert report.holds
    assert "functions.get_weather:0" in result(report, "parallel calls").text
    assert "functions.get_time:1" in result(report, "parallel calls").text


def test_what_cannot_be_checked_is_an_error() -> None:
    with pytest.raises(ValueError, match="no chat template"):
        check(Checkpoint(), HERMES)
    with pytest.raises(BadTemplateError, match="line 2"):
        checked("{% if x %}\n{% endfor %}")
