"""The format of a checkpoint, from what it ships, by nothing but the declarations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import unspool
from unspool.formats import registry
from unspool.formats.evidence import evidence
from unspool.parsing.declaration import Format, JsonCalls, PythonCalls, Reasoning, TaggedCalls

CHATML = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
THINKING = "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
ELEMENTS = "<tool_call>\n<function={{ name }}>\n<parameter={{ key }}>\n"
CALLS = "{% for call in message.tool_calls %}{{ call }}{% endfor %}"


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    unspool.formats()
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_names", dict(registry._names))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ '<tool_call>\\n' + call | tojson + '\\n</tool_call><think>' }}" + CHATML, "hermes"),
        ("{{ '<tool_call>\\n' + call | tojson + '\\n</tool_call><think>' }}" + THINKING, "qwen3_thinking"),
        ("<tool_call>\n<function={{ name }}>\n<parameter={{ key }}>\n" + CHATML, "qwen3_coder"),
        ("<think><tool_call>\n<function={{ name }}>\n<parameter={{ key }}>\n" + THINKING, "qwen3_5"),
        ("<think><tool_call>\n<function={{ name }}>\n<parameter={{ key }}>\n" + CHATML, "qwen3_5"),
        ("[TOOL_CALLS] {{ calls | tojson }}", "mistral_v3"),
        ("[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}", "mistral"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ name }}\n```json", "deepseek_v3"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ name }}<｜tool▁sep｜>", "deepseek_v31"),
        ("<｜DSML｜function_calls>{{ '<｜DSML｜invoke' }}<｜DSML｜parameter", "deepseek_v32"),
        ("<｜DSML｜tool_calls>{{ '<｜DSML｜invoke' }}<｜DSML｜parameter", "deepseek_v4"),
        ("<｜DSML｜ calls>{{ '<｜DSML｜ invoke' }}<｜DSML｜ parameter", "deepseek_v41"),
        ("<tool_call>{{ name }}\n<arg_key>{{ key }}</arg_key>\n<arg_value>{{ value }}", "glm45"),
        ("<think><tool_call>{{ n }}<arg_key>k</arg_key><arg_value>{{ add_generation_prompt }}<think>", "glm47"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>", "kimi_k2"),
        ("{{ '<|open|>think' ~ '<|sep|>' }}<|close|>", "kimi_k3"),
        ('<|tool_call>call:{{ name }}<|"|>', "gemma4"),
        ("<|start|>assistant<|channel|>analysis<|message|>{{ text }}", "gpt_oss"),
        ('<|start_header_id|>{{ "\\"parameters\\": " }}', "llama3_json"),
        ("<|header_start|>assistant<|header_end|>{{ text }}", "pythonic"),
        ("trained by LLM-jp<|start|>assistant<|channel|>analysis<|message|>{{ text }}", "llmjp4"),
        ("<|start|>assistant<|channel|>analysis<|message|><rfl:parameter name={{ key }}", "beam"),
        ("<|start|>assistant to=user<|message|><atem:function_calls>{{ calls }}", "muse_glimmer"),
        ("<|message_model|><|content_invoke_tool_json|>{{ call }}", "inkling"),
        ("<|begin|>assistant<|tool_calls|><|tool_call:begin|>{{ id }}<|tool_call:args|>", "solar_open"),
        ("<|im_start|>assistant -> tool/function_call\n{{ calls }}", "hyperclovax"),
        ("<seed:tool_call>\n<function={{ name }}>\n<parameter={{ key }}>", "seed_oss"),
        ("]<]minimax[>[<tool_call>{{ calls }}", "minimax_m3"),
        ("<minimax:tool_call><invoke name={{ name }}>", "minimax_m2"),
        ("<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name={{ name }}>", "step3"),
        ("<dots_function_call><invoke name={{ name }}>", "dots"),
        ("<iquestcoder_tool_call>{{ name }}<arg_key>", "iquest_coder"),
        ("<iquest_tool_call>{{ name }}<arg_key>", "iquest_q1"),
        ("<ifm|tool_calls><ifm|tool_call>{{ name }}", "k2_horizon"),
        ("<|tool_call:start|>{{ name }}<|tool_arg:start|>", "solar_open2"),
        ("<｜GCML｜tool_calls>{{ calls }}", "gigachat35"),
        ("<start_function_call>call:{{ name }}", "functiongemma"),
        ("<|begin_of_image|><tool_call>{{ name }}<arg_key>", "glm4v"),
        ("<role>ASSISTANT</role><tool_call>{{ name }}<arg_key>", "ling3"),
        ("<assistant><tool_call>{{ name }}<arg_key>", "poolside_v1"),
        ('<function name="{{ name }}"><param name="{{ key }}">', "minicpm5"),
        ("<|start_of_role|>assistant<|end_of_role|><tool_call>{{ call | tojson }}", "granite4"),
        ("<|start_of_role|>assistant<|end_of_role|><|tool_call|>{{ calls | tojson }}", "granite_30"),
        ("<think><|start_of_role|>assistant<|end_of_role|><|tool_call|>{{ calls | tojson }}", "granite"),
        ("{{ '\\n<response>\\n' + text + '\\n</response>\\n' }}<tool_call>\n{{ call }}", "ernie45"),
        ("<tool_call>function\n{{ name }}\n{{ arguments }}</tool_call>", "step_audio2"),
        ("<|bom|><|assistant|> <tool_calls>[{{ call }}]", "jamba"),
        ("<think></think><answer><tool_calls>[{{ call }}]", "hunyuan_a13b"),
        ("[BEGIN FINAL RESPONSE]<tool_calls>[{{ call }}]", "apriel"),
        ("<beginning_of_sentence>ai name=assistant<tool_calls>\n{{ call }}", "minimax_m1"),
        ("<|tool_call_start|>[{{ name }}()]" + CHATML, "lfm2"),
        ("<|thought_start|><|tool_call_start|>\n```python\n{{ name }}()" + CHATML, "minicpm3"),
        ("[unused9]助手：[unused11]{{ calls }}[unused12][unused10]", "openpangu"),
        ("<think>" + ELEMENTS + "{{ truncate_history_thinking }}" + THINKING, "nemotron_v3"),
        (
            "<think>" + ELEMENTS + "{{ truncate_history_thinking }}{{ defer_loading }}" + THINKING,
            "granite_thinking",
        ),
        ("<think>" + ELEMENTS + "{{ keep_all_reasoning }}" + CHATML, "mimo"),
        ("<think>" + ELEMENTS + "<|im_start|>tool_response\n" + THINKING, "step3p5"),
        ("[gMASK]<sop># 可用工具\n{{ tools }}<|assistant|>", "chatglm4"),
        ("<tool_calls:own><tool_call:own>{{ name }}<tool_sep:own><arg_key:own><arg_value:own>", "hy_v3"),
        ("<tool_calls><tool_call>{{ name }}<tool_sep><arg_key><arg_value>", "hy_v3"),
        ("<tool_calls:own><tool_call:own>{{ name }}<arg_key:own><arg_value:own>", "hy_v4"),
        ("Assistant: **Tool Call:**\n```json\n{{ call }}", "rwkv"),
        ('[{"name": "tool_call_name", "arguments": {}}]{{ tools }}', "xlam"),
    ],
)
def test_a_template_shows_its_format(template: str, expected: str) -> None:
    found = unspool.detect(template)
    assert found.format is unspool.get_format(expected)
    assert (found.where, found.shows_calls) == ("chat template", True)
    if found.format.suffix is None:
        assert found.evidence == evidence(found.format)


def test_the_suffix_of_a_checkpoint_is_part_of_what_was_seen() -> None:
    found = unspool.detect("<tool_calls:own><tool_call:own>{{ name }}<tool_sep:own><arg_key:own><arg_value:own>")
    assert found.evidence == (
        *("<tool_calls:own>", "<tool_call:own>", "<tool_sep:own>", "<arg_key:own>", "<arg_value:own>"),
    )
    tokens = ("<tool_calls:x>", "<tool_call:x>", "<arg_key:x>", "<arg_value:x>")
    assert unspool.detect(Tokenizer(*tokens)).format.name == "hy_v4"
    assert unspool.detect(Tokenizer(*tokens, "<tool_sep:x>")).format.name == "hy_v3"


BY_NAME_ONLY = {
    "muse": "no public template; muse_glimmer has the same markers",
    "spark25": "no template seen; its markers are those of glm45",
    "spark3": "no template seen; its markers are those of glm45",
    "trinity": "templates differ in nothing from those of hermes and qwen3_thinking",
}


def test_what_no_template_tells_is_found_by_name_only() -> None:
    assert {fmt.name for fmt in unspool.formats() if fmt.by_name_only} == set(BY_NAME_ONLY)
    unspool.register(replace(MADE_UP, by_name_only=True))
    with pytest.raises(unspool.UndetectedFormatError):
        unspool.detect("<|bot|><muse></muse><gadget>{{ call }}</gadget>")
    with pytest.raises(unspool.UndetectedFormatError):
        unspool.detect(Tokenizer("<gadget>"))


def test_the_reason_names_what_was_seen() -> None:
    assert unspool.detect("<tool_call>{{ call }}" + THINKING).reason == (
        'the chat template has "<tool_call>", and its prompt can end with "<think>\\n"'
    )


@pytest.mark.parametrize(
    "template", ["### Assistant: {{ content }}", "{{ '<think>' }}" + CALLS + "</think>" + CHATML]
)
def test_a_template_of_no_known_format_is_an_error(template: str) -> None:
    with pytest.raises(unspool.UndetectedFormatError, match="no known format fits the chat template"):
        unspool.detect(template)


def test_reasoning_alone_decides_where_no_calls_are_written() -> None:
    unspool.register(MADE_UP)
    found = unspool.detect("{% if add_generation_prompt %}<|bot|>{% endif %}{{ text.split('</muse>')[-1] }}<muse>")
    assert found.format is MADE_UP
    assert not found.shows_calls
    assert found.reason == 'the chat template has "<muse>" and "</muse>" and no calls'


def test_reasoning_alone_may_not_be_enough() -> None:
    with pytest.raises(unspool.AmbiguousFormatError) as caught:
        unspool.detect("<think></think>{{ content }}" + THINKING)
    assert {"qwen3_5", "qwen3_thinking"} <= set(caught.value.candidates)
    assert not caught.value.shows_calls


# A family that nobody knows: what follows is all that it takes.
MADE_UP = Format(
    name="made_up",
    summary="one JSON object in <gadget> tags a call",
    reasoning=(Reasoning("<muse>", "</muse>"),),
    calls=JsonCalls(open=("<gadget>",), close=("</gadget>",), body_pad="\n"),
    turns=("<|bot|>",),
)


def test_a_new_declaration_is_all_that_detection_needs() -> None:
    with pytest.raises(unspool.UndetectedFormatError):
        unspool.detect("<gadget>{{ call }}</gadget>")
    unspool.register(MADE_UP)
    assert unspool.detect("<gadget>{{ call }}</gadget>").format is MADE_UP


def test_a_variant_is_told_apart_by_the_end_of_its_prompt() -> None:
    thinking = replace(MADE_UP, name="made_up_thinking", start="<muse>")
    for fmt in (MADE_UP, thinking):
        unspool.register(fmt)
    template = "<gadget>{{ call }}</gadget>{% if add_generation_prompt %}<|bot|>"
    assert unspool.detect(template + "{% endif %}").format is MADE_UP
    assert unspool.detect(template + "<muse>{% endif %}").format is thinking


def test_a_variant_is_told_apart_by_its_reasoning() -> None:
    plain = replace(MADE_UP, name="made_up_plain", reasoning=())
    for fmt in (MADE_UP, plain):
        unspool.register(fmt)
    assert unspool.detect("<gadget>{{ call }}</gadget>").format is plain
    assert unspool.detect("<muse>{{ text }}</muse><gadget>{{ call }}</gadget>").format is MADE_UP


def test_declared_evidence_replaces_the_openers() -> None:
    python = Format(name="py", summary="", calls=PythonCalls(), evidence=("<|py|>",))
    bare = Format(name="bare", summary="", calls=JsonCalls(bare=True, name_keys=("tool",)))
    talk = Format(name="talk", summary="", reasoning=MADE_UP.reasoning)
    for fmt in (python, bare, talk):
        unspool.register(fmt)
    assert evidence(talk) == ()
    assert unspool.detect("<|py|>{{ call }}").format is python
    assert unspool.detect("""{{ '{"tool": ' + name + ', "arguments": ' }}""").format is bare


def test_formats_that_fit_equally_well_are_named() -> None:
    unspool.register(MADE_UP)
    unspool.register(replace(MADE_UP, name="made_up_too"))
    with pytest.raises(unspool.AmbiguousFormatError) as caught:
        unspool.detect("<gadget>{{ call }}</gadget>")
    assert caught.value.candidates == ("made_up", "made_up_too")
    assert str(caught.value) == (
        'the chat template fits several formats equally well: made_up, made_up_too, by "<gadget>". '
        "Name the format that it is."
    )


def test_two_unrelated_formats_in_one_template_are_ambiguous() -> None:
    unspool.register(MADE_UP)
    with pytest.raises(unspool.AmbiguousFormatError, match=r'hermes, by "<tool_call>"; made_up, by "<gadget>"'):
        unspool.detect("<gadget>{{ call }}</gadget><tool_call>")


def test_the_more_particular_format_wins_in_any_order() -> None:
    calls = TaggedCalls(
        call_open=("<gadget>",),
        header_end=("\n",),
        param_open=("<knob>",),
        key_end=("=",),
        value_close=("</knob>",),
        call_close=("</gadget>",),
    )
    unspool.register(replace(MADE_UP, name="a_tagged", calls=calls))
    unspool.register(MADE_UP)
    unspool.register(replace(MADE_UP, name="z_tagged", calls=replace(calls, value_open="<turn>")))
    assert unspool.detect("<gadget>{{ call }}").format is MADE_UP
    assert unspool.detect("<gadget>{{ name }}<knob>{{ key }}=").format.name == "a_tagged"
    assert unspool.detect("<gadget>{{ name }}<knob>{{ key }}=<turn>").format.name == "z_tagged"


HERMES_RESPONSE: dict[str, Any] = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<think>", "close_pattern": "</think>\\s*"},
        "tool_calls": {"open": ["<tool_call>"], "close_pattern": "</tool_call>\\s*", "repeats": True},
        "content": {"close_pattern": "<\\|im_end\\|>\\s*"},
    },
}


def test_the_response_template_decides_first() -> None:
    config = {"response_template": HERMES_RESPONSE, "chat_template": "<｜DSML｜tool_calls>{{ x }}"}
    found = unspool.detect(config)
    assert (found.format.name, found.where) == ("hermes", "response_template")
    anchored = {**HERMES_RESPONSE, "start_anchor": "<|im_start|>assistant\n<think>\n"}
    assert unspool.detect({"response_template": anchored}).format.name == "qwen3_thinking"


def test_patterns_of_a_response_template_are_read_as_what_they_spell() -> None:
    response = {
        "start_anchor_pattern": "<\\|start\\|>assistant",
        "fields": {"content": {"open_pattern": "<\\|channel\\|>final<\\|message\\|>", "close": ["<|return|>"]}},
    }
    assert unspool.detect({"response_template": response}).format.name == "gpt_oss"


def test_a_tie_is_broken_by_what_comes_next() -> None:
    unspool.register(MADE_UP)
    unspool.register(replace(MADE_UP, name="made_up_too", turns=("<|other|>",)))
    unspool.register(replace(MADE_UP, name="made_up_thinking", start="<muse>"))
    config = {"response_template": {"fields": {"tool_calls": {"open": "<gadget>"}}}}
    with pytest.raises(unspool.AmbiguousFormatError, match="the response_template fits several") as caught:
        unspool.detect({**config, "chat_template": "{{ '<gadget>' }}"})
    assert caught.value.candidates == ("made_up", "made_up_too")
    found = unspool.detect({**config, "chat_template": "<|bot|><muse></muse>{{ text }}"})
    assert found.format is MADE_UP
    assert found.where == "chat template"


class Tokenizer:
    """A tokenizer without a template, with these added tokens."""

    chat_template = None

    def __init__(self, *tokens: str) -> None:
        self.added_tokens_decoder = dict(enumerate(tokens))


def test_special_tokens_decide_where_there_is_no_template() -> None:
    kimi = Tokenizer("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>")
    with pytest.raises(unspool.AmbiguousFormatError, match="Its chat template would tell more") as caught:
        unspool.detect(kimi)
    assert set(caught.value.candidates) == {"kimi_k2", "kimi_k2_thinking"}
    found = unspool.detect(Tokenizer("[TOOL_CALLS]", "[ARGS]"))
    assert (found.format.name, found.where) == ("mistral", "vocabulary")
    assert unspool.detect(Tokenizer("[TOOL_CALLS]", "[INST]")).format.name == "mistral_v3"
    with pytest.raises(unspool.UndetectedFormatError, match="fits the vocabulary"):
        unspool.detect(Tokenizer("<s>", "</s>"))


def test_a_vocabulary_cannot_tell_what_is_spelled_in_ordinary_letters() -> None:
    with pytest.raises(unspool.AmbiguousFormatError) as caught:
        unspool.detect(Tokenizer("<tool_call>", "</tool_call>", "<think>"))
    assert {"hermes", "qwen3_coder", "qwen3_5"} <= set(caught.value.candidates)


def test_a_checkpoint_that_ships_nothing_is_an_error() -> None:
    with pytest.raises(unspool.UndetectedFormatError, match="neither a response_template"):
        unspool.detect({})


@pytest.mark.parametrize("fmt", [fmt for fmt in unspool.formats() if fmt.calls is not None], ids=str)
def test_every_format_with_calls_has_evidence(fmt: Format) -> None:
    assert evidence(fmt)
    assert all(text.strip() for text in evidence(fmt))


def test_no_two_formats_look_the_same() -> None:
    seen: dict[object, str] = {}
    for fmt in unspool.formats():
        if fmt.calls is not None and not fmt.by_name_only:
            openers = tuple(block.open for block in fmt.reasoning)
            look = (frozenset(evidence(fmt)), fmt.turns, openers, fmt.start.strip())
            assert look not in seen, f"{fmt} and {seen[look]} need evidence that tells them apart"
            seen[look] = fmt.name
