"""Names to formats."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import pytest

import unspool
from unspool.parsing.declaration import Format, JsonCalls


def test_formats_are_sorted_by_name() -> None:
    names = [fmt.name for fmt in unspool.formats()]
    assert names == sorted(names)
    assert {"hermes", "qwen3_coder", "mistral", "gpt_oss", "kimi_k3"} <= set(names)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("qwen3", "hermes"),
        ("Qwen2.5", "hermes"),
        ("deepseek-v3.1", "deepseek_v31"),
        ("harmony", "gpt_oss"),
        ("glm45_moe", "glm45"),
        ("functools", None),
        ("smollm3", "hermes"),
        ("Llama-3.2", "llama3_json"),
        ("llama-4", "pythonic"),
        ("glm-4.6", "glm45"),
        ("glm5.2", "glm47"),
        ("Step-3", "step3"),
        ("step-3.7", "step3p5"),
        ("granite-3.1", "granite_30"),
        ("granite-3.3", "granite"),
        ("granite-4.1", "granite4"),
        ("granite-4.2", "granite_thinking"),
        ("nemotron-2", "nemotron_nano_v2"),
        ("ernie-4.5", "ernie45"),
        ("granite-20b-fc", "granite_20b_fc"),
        ("granite4", "granite4"),
        ("granite", "granite"),
        ("longcat", "longcat"),
        ("cohere_command3", "cohere_command3"),
        ("cohere_command4", "cohere_command4"),
        ("cohere", "cohere_command3"),
        ("nemotron_deci", "nemotron_nano_v2"),
        ("phi4_mini_json", "phi4_mini"),
        ("xlam", "xlam"),
        ("json", "xlam"),
        ("internlm", "internlm"),
        ("interns1", "internlm"),
        ("gigachat3", "gigachat3"),
        ("plamo3", "plamo3"),
        ("meetkai", "functionary_v3"),
        ("olmo3", "olmo3"),
        ("olmo3-think", "olmo3"),
        ("lfm2-thinking", "lfm2"),
        ("pangu", "openpangu"),
        ("holo2", "holo2"),
        ("identity", "identity"),
        ("passthrough", "identity"),
    ],
)
def test_aliases_and_engine_names(name: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(unspool.UnknownFormatError):
            unspool.get_format(name)
    else:
        assert unspool.get_format(name).name == canonical


def test_every_name_of_a_format_leads_to_it_or_to_the_format_that_owns_the_name() -> None:
    for fmt in unspool.formats():
        assert str(fmt) == fmt.name
        for name in (fmt.name, *fmt.aliases):
            assert unspool.get_format(name) == fmt
        for names in fmt.engine_names.values():
            for name in names:
                assert unspool.get_format(name)


def test_a_format_stands_for_itself() -> None:
    fmt = unspool.get_format("qwen3")
    assert unspool.get_format(fmt) is fmt


@pytest.mark.parametrize("name", ["deepseek_r1", "DeepSeek-R1", "DeepSeek R1", "deepseekr1", " deepseek.r1 "])
def test_what_stands_between_letters_and_digits_makes_no_difference(name: str) -> None:
    assert unspool.get_format(name).name == "deepseek_r1"


def test_an_unknown_name_is_an_error_that_names_near_ones() -> None:
    with pytest.raises(unspool.UnknownFormatError, match="Did you mean 'deepseek_v4'") as caught:
        unspool.get_format("deepseek-v44")
    assert "deepseek_v4" in caught.value.near
    with pytest.raises(unspool.UnknownFormatError, match=r"unknown format 'zzz'\. 'unspool formats'"):
        unspool.get_format("zzz")


def test_reasoning_of_one_format_with_the_calls_of_another() -> None:
    fmt = unspool.get_format("qwen3.5+mistral")
    tools = [{"type": "function", "function": {"name": "f"}}]
    message = unspool.parse(fmt, "Hm.\n</think>\n\n[TOOL_CALLS]f[ARGS]{}", tools=tools)
    assert (fmt.name, message.reasoning, message.tool_calls[0].name) == ("qwen3_5+mistral", "Hm.", "f")


@pytest.mark.parametrize("name", ["qwen3+harmony", "harmony+qwen3"])
def test_routed_messages_cannot_be_combined(name: str) -> None:
    with pytest.raises(ValueError, match="'gpt_oss' goes only by itself"):
        unspool.get_format(name)


def test_a_combination_is_of_two() -> None:
    with pytest.raises(ValueError, match="goes only by itself"):
        unspool.get_format("qwen3+mistral+glm45")


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        unspool.get_format(None)  # type: ignore[arg-type]


def test_a_format_registered_before_any_was_asked_for_harms_no_other() -> None:
    program = (
        "import unspool\n"
        "try:\n    unspool.register(unspool.Format('mine', 's', aliases=('qwen',)))\n"
        "except ValueError:\n    print(unspool.get_format('glm45'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "glm45\n"


@pytest.mark.usefixtures("clean_registry")
def test_a_new_format_is_there_at_once() -> None:
    made = Format(
        name="made_up",
        summary="JSON between double angles",
        aliases=("invented",),
        calls=JsonCalls(open=("<<",), close=(">>",)),
        engine_names={"vllm": ("made_up_parser", "hermes")},
    )
    unspool.register(made)
    assert unspool.get_format("Made-Up-Parser") is made
    assert unspool.get_format("hermes").name == "hermes"
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert unspool.parse("invented", '<<{"name": "f", "arguments": {}}>>', tools=tools).tool_calls[0].name == "f"
    unspool.register(replace(made, summary="again"))


@pytest.mark.usefixtures("clean_registry")
def test_a_name_that_belongs_to_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="'qwen3' belongs to the format 'hermes'"):
        unspool.register(Format(name="mine", summary="", aliases=("qwen3",)))


def test_the_package_has_only_what_it_names() -> None:
    package = import_module("unspool.formats")
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
