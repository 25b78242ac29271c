from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.message import ToolCall
from unspool.server.template import BadTemplateError, ChatTemplate
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ASKING = Turn("assistant", tool_calls=(ToolCall("call_abc", "get_weather", '{"city":  "Z\u00fcrich"}'),))
RESULT = Turn("tool", ("18",), tool_call_id="call_abc")
HI = Turn("user", ("Hi",))
EACH = "{% for message in messages %}"


def rendered(source: str | None, *turns: Turn, special: dict[str, str] | None = None, **more: Any) -> str:
    return ChatTemplate(source, special).render(Conversation(turns or (HI,), **more))


def test_the_template_decides_the_prompt() -> None:
    source = EACH + "[{{ message.role }}] {{ message.content }}{{ eos_token }}{% endfor %}"
    assert rendered(source, Turn("system", ("Be brief.",)), HI, special={"eos_token": "</s>"}) == (
        "[system] Be brief.</s>[user] Hi</s>"
    )


def test_whitespace_is_handled_as_models_were_trained() -> None:
    assert rendered("{% if true %}\n    {% set x = 1 %}\n  a\n{% endif %}\nb\n") == "  a\nb"


def test_the_helpers_of_hugging_face_are_there() -> None:
    assert rendered("{{ {'a': '<é>'} | tojson }}") == '{"a": "<é>"}'
    assert rendered("{{ [1] | tojson(indent=2) }}") == "[\n  1\n]"
    assert len(rendered("{{ strftime_now('%Y') }}")) == 4
    assert rendered("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert rendered("{% generation %}{{ 'words' }}{% endgeneration %}") == "words"


def test_what_the_template_objects_to_is_the_requests_fault() -> None:
    with pytest.raises(InvalidRequestError, match="roles must alternate") as caught:
        rendered("{{ raise_exception('roles must alternate') }}")
    assert (caught.value.status, caught.value.param) == (400, "messages")


@pytest.mark.parametrize(
    "source",
    ["{{ messages[5].content.x }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ none() }}", "{{ nowhere() }}"],
)
def test_a_template_that_fails_is_never_a_server_error(source: str) -> None:
    with pytest.raises(InvalidRequestError, match="can't render these messages"):
        rendered(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ range(10000000) }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(InvalidRequestError):
        rendered(source)


def test_invalid_jinja_is_found_when_it_is_loaded() -> None:
    with pytest.raises(BadTemplateError, match="not valid Jinja"):
        ChatTemplate("{% if %}")


def test_template_arguments_arrive_but_cannot_replace_the_messages() -> None:
    source = "{{ enable_thinking }} {{ messages | length }} {{ add_generation_prompt }}"
    kwargs = {"enable_thinking": False, "messages": [], "add_generation_prompt": 5}
    assert rendered(source, template_kwargs=kwargs) == "False 1 True"


def test_arguments_are_objects_and_still_text_for_templates_that_paste_them() -> None:
    calls = EACH + "{% for call in message.tool_calls %}{% set args = call.function.arguments %}"
    end = "{% endfor %}{% endfor %}{{ tools }}"
    text = '{"city":  "Z\u00fcrich"}'
    assert rendered(calls + "{% for k, v in args | items %}{{ k }}={{ v }}{% endfor %}" + end, ASKING) == (
        "city=Z\u00fcrichNone"
    )
    assert rendered(calls + "{{ args | tojson }}" + end, ASKING) == '{"city": "Z\u00fcrich"}None'
    assert rendered(calls + "{{ '[' + args + ']' }}" + end, ASKING) == f"[{text}]None"
    assert rendered(calls + "{{ args + '!' }}" + end, ASKING) == f"{text}!None"
    assert rendered(calls + "{{ '[' ~ args ~ ']' }}" + end, ASKING) == f"[{text}]None"
    assert rendered(calls + "{{ args is mapping }} {{ args is string }}" + end, ASKING) == "True FalseNone"


@pytest.mark.parametrize("text", ['{"city": "Pa', "[1]", "[" * 100_000, "1" * 10_000])
def test_arguments_that_are_no_object_stay_text(text: str) -> None:
    turn = Turn("assistant", tool_calls=(ToolCall("c", "f", text),))
    source = EACH + "{{ message.tool_calls[0].function.arguments }}{% endfor %}{{ tools }}"
    assert rendered(source, turn) == text + "None"


def test_reasoning_is_there_under_both_names() -> None:
    source = EACH + "{{ message.reasoning }}/{{ message.reasoning_content }}/{{ message.thinking }}{% endfor %}"
    assert rendered(source, Turn("assistant", ("Hi",), reasoning="why")) == "why/why/why"
    assert rendered(source, Turn("assistant", ("Hi",))) == "//"


def test_thinking_is_left_out_beside_content_and_calls() -> None:
    source = EACH + "{{ message.thinking }}{% endfor %}{{ tools }}"
    call = ToolCall("c", "f", "{}")
    assert rendered(source, Turn("assistant", ("Hi",), reasoning="why", tool_calls=(call,))) == "None"
    assert rendered(source, Turn("assistant", reasoning="why", tool_calls=(call,))) == "whyNone"


def test_content_is_parts_only_for_templates_that_walk_through_them() -> None:
    turn = Turn("user", ("a", "b"))
    loop = "{% for part in message.content %}<{{ part.text }}>{% endfor %}"
    assert rendered(EACH + loop + "{% endfor %}", turn) == "<a><b>"
    both = "{% if message.content is string %}{{ message.content }}{% else %}" + loop + "{% endif %}"
    assert rendered(EACH + both + "{% endfor %}", turn) == "a\nb"
    texts = "message['content'] | selectattr('type', 'equalto', 'text')"
    filtered = f"{{% for part in {texts} %}}{{{{ part.text }}}};{{% endfor %}}"
    assert rendered(EACH + filtered + "{% endfor %}", turn) == "a;b;"


def test_absent_content_is_none_only_for_templates_that_ask() -> None:
    assert rendered(EACH + "{{ message.content is none }}{% endfor %}{{ tools }}", ASKING) == "TrueNone"
    assert rendered(EACH + "[{{ message.content }}]{% endfor %}{{ tools }}", ASKING) == "[]None"


def test_absent_content_is_empty_for_templates_that_fail_otherwise() -> None:
    tested = "{% if messages[0].content is none %}{% endif %}"
    source = tested + EACH + "[{% if 'x' in message.content %}x{% endif %}]{% endfor %}{{ tools }}"
    assert rendered(source, HI, ASKING) == "[][]None"
    with pytest.raises(InvalidRequestError, match="no element"):
        rendered(tested + EACH + "{{ message.content }}{% endfor %}{{ messages[5].x }}{{ tools }}", ASKING)


def test_arguments_that_are_no_object_are_one_for_templates_that_walk_through_them() -> None:
    cut = Turn("assistant", tool_calls=(ToolCall("c", "f", '{"city": "Pa'),))
    walk = "{% for k, v in message.tool_calls[0].function.arguments.items() %}{{ k }}={{ v }}{% endfor %}"
    assert rendered(EACH + walk + "{% endfor %}{{ tools }}", cut) == 'arguments={"city": "PaNone'


def test_a_tool_without_a_description_has_an_empty_one_for_templates_that_fail_otherwise() -> None:
    source = "{% for tool in tools %}{{ '// ' + tool.function.description + tool.function.name }}{% endfor %}"
    assert rendered(source, tools=(WEATHER,)) == "// get_weather"
    assert "description" not in WEATHER["function"]


def test_developer_is_system_for_templates_that_know_no_developer() -> None:
    turn = Turn("developer", ("Be brief.",))
    assert rendered(EACH + "{{ message.role }}{% endfor %}", turn) == "system"
    source = EACH + "{{ message.role }}{% if message.role == 'developer' %}!{% endif %}{% endfor %}"
    assert rendered(source, turn) == "developer!"


def test_a_result_carries_the_name_of_the_tool_that_was_called() -> None:
    source = EACH + "{{ message.name }},{{ message.tool_call_id }};{% endfor %}{{ tools }}"
    assert rendered(source, ASKING, RESULT) == ",;get_weather,call_abc;None"


def test_mistrals_templates_get_ids_of_nine_letters() -> None:
    source = (
        EACH + "{% for call in message.tool_calls or [] %}{% if call.id|length != 9 %}{{ raise_exception('id') }}"
        "{% endif %}{{ call.id }}{% endfor %}{{ message.tool_call_id }}{% endfor %}{{ tools }}"
    )
    prompt = rendered(source, ASKING, RESULT)
    assert prompt[:9] == prompt[9:18]
    assert rendered(source, Turn("tool", ("18",), tool_call_id="abcDEF123")) == "abcDEF123None"


def test_only_offered_tools_are_rendered() -> None:
    source = "{{ tools | map(attribute='function.name') | join(',') if tools else 'none' }}"
    other = {"type": "function", "function": {"name": "other"}}
    assert rendered(source, tools=(WEATHER, other)) == "get_weather,other"
    assert rendered(source, tools=(WEATHER, other), tool_choice=ToolChoice("named", ("other",))) == "other"
    assert rendered(source, tools=(WEATHER,), tool_choice=ToolChoice("none")) == "none"


def test_the_last_message_can_be_continued() -> None:
    turns = (HI, Turn("assistant", ("Once upon ",)))
    options: dict[str, Any] = {"continue_final": True, "add_generation_prompt": False}
    assert rendered(None, *turns, **options).endswith("<|im_start|>assistant\nOnce upon ")
    parts = EACH + "{% for part in message.content %}<{{ part.text }}>{% endfor %}{% endfor %}"
    assert rendered(parts, *turns, **options) == "<Hi><Once upon "
    assert rendered(None, HI, Turn("assistant"), **options).endswith("<|im_start|>assistant\n")
    with pytest.raises(InvalidRequestError, match="leaves the last message out"):
        rendered("{{ messages[0].content }}", *turns, **options)


def test_halves_of_surrogate_pairs_are_joined_or_replaced() -> None:
    assert rendered("{{ messages[0].content }}", Turn("user", ("\ud83d\ude00 \ud83d",))) == "\U0001f600 \ufffd"


def test_a_model_without_a_template_gets_chatml() -> None:
    assert rendered(None, Turn("system", ("Be brief.",)), HI) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tools_are_spelled_out_for_a_template_that_knows_none() -> None:
    prompt = rendered(None, HI, ASKING, RESULT, RESULT, HI, tools=(WEATHER,))
    system, user, call, results, again, _ = prompt.split("<|im_start|>")[1:]
    assert system.startswith("system\n")
    assert f"<tools>\n{json.dumps(WEATHER)}\n</tools>" in system
    assert user == again == "user\nHi<|im_end|>\n"
    assert call == (
        "assistant\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city":  "Zürich"}}\n</tool_call><|im_end|>\n'
    )
    one = "<tool_response>\n18\n</tool_response>"
    assert results == f"user\n{one}\n{one}<|im_end|>\n"


def test_spelled_out_tools_join_the_system_message_that_is_there() -> None:
    prompt = rendered(None, Turn("developer", ("Be brief.",)), HI, tools=(WEATHER,))
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\nYou can call functions.")
    assert prompt.count("<|im_start|>system") == 1


def test_earlier_calls_are_spelled_out_even_when_no_tools_are_offered() -> None:
    prompt = rendered(None, HI, ASKING, RESULT)
    assert "<tool_call>" in prompt
    assert "<tools>" not in prompt


def test_tools_too_deep_to_be_written_are_the_requests_fault() -> None:
    parameters: dict[str, Any] = {}
    for _ in range(5000):
        parameters = {"properties": {"x": parameters}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    for source in (None, "{{ tools | tojson }}"):
        with pytest.raises(InvalidRequestError, match="recursion"):
            rendered(source, tools=(tool,))
