"""Names to parsers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import unspool
from tests.compat.conftest import EXAMPLES
from unspool.compat import (
    ReasoningParser,
    ReasoningParserManager,
    ToolParser,
    ToolParserManager,
    get_parser_stop_tokens,
    get_reasoning_parser,
    get_tool_parser,
    load_plugin,
)

NAMES = sorted({name for fmt in unspool.formats() for names in fmt.engine_names.values() for name in names})


@pytest.mark.parametrize("name", NAMES)
def test_every_engines_name_is_a_parser(name: str) -> None:
    fmt = unspool.get_format(name)
    tool, reasoning = get_tool_parser(name), get_reasoning_parser(name)
    assert (tool.format, reasoning.format) == (fmt, fmt)  # type: ignore[attr-defined]
    assert issubclass(tool, ToolParser)
    assert issubclass(reasoning, ReasoningParser)
    assert name in ToolParserManager.list_registered()
    assert name in ReasoningParserManager.list_registered()


def test_a_combination_is_a_parser_as_well() -> None:
    assert get_tool_parser("qwen3+mistral").format.name == "hermes+mistral"  # type: ignore[attr-defined]


@pytest.mark.parametrize("manager", [ToolParserManager, ReasoningParserManager])
def test_an_unknown_name_says_what_is_near(manager: Any) -> None:
    get = getattr(manager, "get_tool_parser", None) or manager.get_reasoning_parser
    with pytest.raises(KeyError, match=r"There is no \w+ parser 'hermse'.* Did you mean 'hermes'.*mistral"):
        get("hermse")


@pytest.mark.parametrize(
    ("manager", "base"), [(ToolParserManager, ToolParser), (ReasoningParserManager, ReasoningParser)]
)
def test_registering(manager: Any, base: Any) -> None:
    get = getattr(manager, "get_tool_parser", None) or manager.get_reasoning_parser

    @manager.register_module("mine")
    class Mine(base):  # type: ignore[misc]
        pass

    @manager.register_module(["ours", "theirs"])
    class Ours(base):  # type: ignore[misc]
        pass

    manager.register_module(module=Mine)
    manager.register_module(name="again", module=Mine, force=True)
    assert get("mine") is get("Mine") is get("again") is Mine
    assert get("ours") is get("theirs") is Ours
    assert {"mine", "Mine", "again", "ours", "theirs"} <= set(manager.list_registered())
    assert manager.list_registered() == sorted(manager.list_registered())
    with pytest.raises(KeyError, match="'mine' is taken"):
        manager.register_module("mine", force=False, module=Ours)
    # vllm-mlx has these two the other way round.
    with pytest.raises(KeyError, match="'mine' is taken"):
        manager.register_module("mine", Ours, False)
    manager.register_module("mine", Ours)
    assert get("mine") is Ours
    with pytest.raises(TypeError, match="must be a subclass of"):
        manager.register_module("wrong", module=dict)
    with pytest.raises(TypeError, match="a name or a list of names, not 7"):
        manager.register_module(7, module=Mine)
    with pytest.raises(TypeError, match="force must be true or false"):
        manager.register_module("mine", force="yes")


def test_where_generation_ends() -> None:
    assert get_parser_stop_tokens("hermes", ["X"]) == ["X", "<|im_end|>", "<|endoftext|>"]
    assert get_parser_stop_tokens(None, ["X", "X"]) == ["X"]
    assert get_parser_stop_tokens(None) == []


def test_a_registered_name_comes_before_a_format() -> None:
    @ToolParserManager.register_module("hermes")
    class Mine(ToolParser):
        pass

    assert get_tool_parser("hermes") is Mine
    assert ToolParserManager.is_plugin("hermes")
    assert not ToolParserManager.is_plugin("mistral")


def test_lazy_registration() -> None:
    # What a plugin merely imports is not its class.
    load_plugin(EXAMPLES / "my_parser.py")
    ToolParserManager.register_lazy_module("late", "unspool.compat.interface", "ToolParser")
    assert get_tool_parser("late") is ToolParser
    ToolParserManager.register_lazy_module("gone", "no.such.module", "ToolParser")
    with pytest.raises(ImportError, match=r"'gone' was registered as ToolParser of no\.such\.module"):
        get_tool_parser("gone")
    ToolParserManager.register_lazy_module("nameless", "unspool.compat.interface", "Nothing")
    with pytest.raises(ImportError, match="'nameless' was registered as Nothing"):
        get_tool_parser("nameless")
    ToolParserManager.register_lazy_module("other", "unspool.compat.interface", "ReasoningParser")
    with pytest.raises(TypeError, match="is no ToolParser"):
        get_tool_parser("other")


class Templated:
    """As much of a tokenizer as has a chat template."""

    def __init__(self, template: Any) -> None:
        self.chat_template = template


@pytest.mark.parametrize("get", [get_tool_parser, get_reasoning_parser])
def test_auto_reads_the_chat_template(get: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert get("auto")(Templated("[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}")).format.name == "mistral"
    assert (
        get("auto")(
            Templated(
                {
                    "default": "x",
                    "tool_use": "{{ name }}<ifm|tool_calls><ifm|tool_call>{{ name }}<ifm|arg_key><ifm|arg_value>",
                }
            )
        ).format.name
        == "k2_horizon"
    )
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert get("auto")(Templated("plain")).format.name == "hermes"
        assert get("auto")(None).format.name == "hermes"
    assert ": reading hermes" in caplog.text
