from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unspool
from tests.compat.conftest import EXAMPLES, fresh_registries
from tests.constrained.vocabularies import Letters
from tests.server.serving import ScriptedEngine
from unspool.compat import load_plugin
from unspool.engines.base import Chunk, Sampling
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.constraints import Held, hold
from unspool.server.service import Service, Settings
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.output_format import OutputFormat

__all__ = ["fresh_registries"]

LETTERS = Letters()
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


class HeldEngine(ScriptedEngine):
    """An engine that is given constraints, with the smallest vocabulary."""

    constrains = True
    tokenizer: Any = LETTERS


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keywords, schema, max_size=5), st.sampled_from(FORMATS))
def test_no_tools_schema_breaks_a_request(parameters: dict[str, Any], form: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    service = Service(ScriptedEngine(), Settings(format=form))
    with suppress(InvalidRequestError):
        asyncio.run(service.generate(Conversation(HI, (tool,)), Sampling()))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(keywords, schema, max_size=5),
    st.sampled_from(FORMATS),
    st.sampled_from([False, True]),
    st.sampled_from(["required", "auto"]),
)
def test_no_tools_schema_breaks_its_constraint(
    parameters: dict[str, Any], form: str, strict: bool, mode: Any
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters, "strict": strict}}
    service = Service(HeldEngine(), Settings(format=form, constrain_tools="schema"))
    with suppress(InvalidRequestError):
        asyncio.run(service.generate(Conversation(HI, (tool,), ToolChoice(mode)), Sampling()))


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


def held(engine: ScriptedEngine, settings: Settings | None = None, **options: Any) -> None:
    """Generates one answer with these demands."""

    async def generate() -> None:
        service = Service(engine, settings or Settings())
        conversation = Conversation(HI, options.pop("tools", ()), options.pop("choice", ToolChoice()))
        await (await service.generate(conversation, Sampling(), **options)).events()

    asyncio.run(generate())


DONE = Chunk("{}", finish_reason="stop")
OBJECT = OutputFormat("json_object", "response_format")
STRICT = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}


def test_each_choice_gets_a_constraint_where_something_is_demanded() -> None:
    engine = HeldEngine(DONE)
    held(engine, choices=2, output=OBJECT)
    held(engine)
    one, other, none = engine.constraints
    assert one is not None
    assert other is not None
    assert one is not other
    assert none is None


def test_an_engine_that_cannot_be_held_gets_nothing_and_refuses_nothing() -> None:
    engine = ScriptedEngine(DONE)
    held(engine, output=OutputFormat("json_schema", "f", {"type": "strin"}), reasoning_budget=0)
    assert engine.constraints == [None]


def test_grammars_are_compiled_in_a_thread_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def recorded(*args: Any) -> Held:
        threads.append(threading.current_thread())
        return hold(*args)

    monkeypatch.setattr("unspool.server.service.hold", recorded)
    held(HeldEngine(DONE), output=OBJECT)
    assert threads
    assert threading.main_thread() not in threads


def test_the_operator_says_what_calls_are_held_to() -> None:
    for scope, some in (("strict", False), ("envelope", True), ("schema", True)):
        engine = HeldEngine(DONE)
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        held(engine, Settings(constrain_tools=scope), tools=(tool,))  # type: ignore[arg-type]
        assert (engine.constraints[0] is not None) is some


def test_calls_that_a_plugin_reads_are_not_held(caplog: pytest.LogCaptureFixture) -> None:
    load_plugin(EXAMPLES / "my_parser.py")
    settings = Settings(tool_parser="my_parser")
    engine = HeldEngine(DONE)
    held(engine, settings, tools=(STRICT,), choice=ToolChoice("required"))
    assert engine.constraints == [None]
    assert "tool_choice is not enforced: " in caplog.text
    held(engine, settings, tools=(STRICT,), output=OBJECT)
    assert engine.constraints[-1] is not None


def test_a_finished_answer_is_checked_for_what_the_grammar_left_out(caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "minProperties": 1, "propertyNames": {"minLength": 2}}
    held(HeldEngine(DONE), output=OutputFormat("json_schema", "f", schema, strict=False))
    assert "The answer does not hold to its schema: The value: {}" in caplog.text


def test_no_name_is_the_served_model() -> None:
    service = Service(ReplayEngine([Recording("a", "")]), Settings(aliases=("b",)))
    assert [service.resolve(name) for name in (None, "default", "a", "b")] == ["replay", "replay", "a", "b"]
    with pytest.raises(InvalidRequestError) as caught:
        service.resolve("c")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
