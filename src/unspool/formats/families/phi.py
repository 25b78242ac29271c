"""Phi-4-mini and Firefunction: the word ``functools`` before a JSON list; Phi's own tokens around one."""

from dataclasses import replace

from unspool.formats.families.hermes import THINK
from unspool.formats.families.lists import INLINE
from unspool.formats.families.llama import LLAMA3_TURNS
from unspool.parsing.declaration import Format, JsonCalls

_PHI = Format(
    name="phi4_mini",
    summary="functools and a JSON list of calls, or a list between <|tool_call|> and <|/tool_call|>",
    aliases=("phi4", "phi_4_mini", "phi4_mini_json"),
    models=("microsoft/Phi-4-mini-instruct",),
    reasoning=(THINK,),
    calls=JsonCalls(open=("functools", "<|tool_call|>"), close=("", "<|/tool_call|>"), written_list=INLINE),
    turns=("<|assistant|>",),
    stops=("<|end|>", "<|endoftext|>"),
    engine_names={"vllm": ("phi4_mini_json",), "dynamo": ("phi4",), "bfcl": ("phi_fc",)},
    source="tool templates of vLLM for microsoft/Phi-4-mini-instruct",
    quirks=(
        "Three notations are about: functools and a list, a list in tokens, one object in tokens a call. All are "
        "read.",
        "A list in tokens without its closer is read; one without brackets is content.",
    ),
    disagreements=(
        "vLLM reads only functools, ends at the first ] even inside arguments, and when streaming gives nothing "
        "at all.",
    ),
)

FORMATS = (
    _PHI,
    replace(
        _PHI,
        name="phi4_mini_tokens",
        summary="a JSON list between <|tool_call|> and <|/tool_call|>; the closer is often missing",
        aliases=(),
        models=(),
        calls=JsonCalls(open=("<|tool_call|>", "functools"), close=("<|/tool_call|>",), written_list=INLINE),
        evidence=("<|tool_call|>", "<|/tool_call|>"),
        engine_names={},
        source="model card of microsoft/Phi-4-mini-instruct",
        quirks=(
            "The closer is often missing; functools before the list is read as well.",
            "A list without brackets is content.",
        ),
        disagreements=(
            "vLLM's parser does not know this notation; llama.cpp's template writes one object a call.",
        ),
    ),
    Format(
        name="firefunction",
        summary="functools and a JSON list of calls, behind a space",
        aliases=("firefunction_v2",),
        models=("fireworks-ai/llama-3-firefunction-v2",),
        calls=JsonCalls(open=("functools",), written_list=INLINE),
        turns=LLAMA3_TURNS[:1],
        stops=("<|eot_id|>", "<|end_of_text|>"),
        before_call=" ",
        before_call_alone=" ",
        engine_names={"llama.cpp": ("firefunction_v2",)},
        source="chat template of fireworks-ai/llama-3-firefunction-v2",
        quirks=("The marker is an ordinary word behind a space; only a list of calls behind it makes it one.",),
        disagreements=("Only llama.cpp reads it.",),
    ),
)
