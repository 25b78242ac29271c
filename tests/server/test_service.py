from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unspool
from tests.server.serving import ScriptedEngine
from unspool.engines.base import Sampling
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.service import Service, Settings
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError

HI = (Turn("user", ("Hi",)),)
FORMATS = [form.name for form in unspool.formats()]

keywords = st.sampled_from(
    ["type", "properties", "items", "$ref", "anyOf", "enum", "$defs", "required", "additionalProperties"]
)
schema = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "object", "#/$defs/a", "array"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords | st.just("a"), inner, max_size=4),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keywords, schema, max_size=5), st.sampled_from(FORMATS))
def test_no_tools_schema_breaks_a_request(parameters: dict[str, Any], form: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    service = Service(ScriptedEngine(), Settings(format=form))
    with suppress(InvalidRequestError):
        asyncio.run(service.generate(Conversation(HI, (tool,)), Sampling()))


@pytest.mark.parametrize("mode", ["none", "auto", "required", "named"])
def test_every_choice_reaches_the_parser(mode: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    choice = ToolChoice(mode, ("f",) if mode == "named" else None)
    asyncio.run(Service(ScriptedEngine(), Settings()).generate(Conversation(HI, (tool,), choice), Sampling()))


def test_a_recordings_own_format_and_prompt_are_read() -> None:
    recording = Recording("a", "", format="mistral", prompt_tail="[/INST]")
    service = Service(ReplayEngine([recording]), Settings(format="qwen3"))
    assert service.format.name == "hermes"
    asyncio.run(service.generate(Conversation(HI), Sampling()))


def test_the_format_that_the_template_shows_is_read() -> None:
    shown = "{{ '[TOOL_CALLS]' }}{{ '[ARGS]' }}"
    assert Service(ScriptedEngine(template=shown), Settings()).format.name == "mistral"
    assert Service(ScriptedEngine(template="{{ 'plain' }}"), Settings()).format.name == "hermes"
    named = Settings(format="qwen3_coder")
    assert Service(ScriptedEngine(template=shown), named).format.name == "qwen3_coder"


def test_a_template_that_shows_several_formats_is_not_served() -> None:
    shown = "{{ '<tool_call>' }}{{ '[TOOL_CALLS]' }}"
    with pytest.raises(unspool.AmbiguousFormatError, match=r"hermes, .*mistral_v3"):
        Service(ScriptedEngine(template=shown), Settings())


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ '<|START|><think>' }}</think><|im_start|>assistant\n", "hermes"),
        ("<｜Assistant｜><think></think>{% if add_generation_prompt %}<think>{% endif %}", "deepseek_r1+hermes"),
        ("<|turn>model\n{{ '<|channel>thought' }}<channel|>", "gemma4+hermes"),
    ],
)
def test_a_template_without_calls_gets_those_of_the_built_in_tool_prompt(template: str, name: str) -> None:
    template = "{{ messages[0].content }}" + template
    assert Service(ScriptedEngine(template=template), Settings()).format.name == name


def test_no_name_is_the_served_model() -> None:
    service = Service(ReplayEngine([Recording("a", "")]), Settings(aliases=("b",)))
    assert [service.resolve(name) for name in (None, "default", "a", "b")] == ["replay", "replay", "a", "b"]
    with pytest.raises(InvalidRequestError) as caught:
        service.resolve("c")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
