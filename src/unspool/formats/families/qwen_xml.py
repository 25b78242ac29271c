"""Qwen3-Coder and Qwen3.5 and later: parameters as elements inside ``<tool_call>``."""

from dataclasses import replace

from unspool.formats.families.hermes import CHATML_NEXT_TURNS, CHATML_STOPS, CHATML_TURNS, THINK
from unspool.parsing.declaration import Format, TaggedCalls, TaggedLayout

QWEN_XML = TaggedCalls(
    section_open=("<tool_call>",),
    section_close=("</tool_call>",),
    section_per_call=True,
    call_open=("<function=",),
    header_end=(">",),
    param_open=("<parameter=",),
    key_end=(">",),
    value_close=("</parameter>",),
    call_close=("</function>",),
    value_pad="\n",
    written=TaggedLayout(section_pad="\n", after_header="\n", after_param="\n"),
)

_CODER = Format(
    name="qwen3_coder",
    summary="<function=NAME> with one <parameter=KEY> element a parameter, typed by schema; no reasoning",
    aliases=("qwen3_xml", "qwen_xml", "qwen_coder"),
    models=("Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen/Qwen3-Coder-Next"),
    calls=QWEN_XML,
    turns=CHATML_TURNS,
    stops=CHATML_STOPS,
    next_turns=CHATML_NEXT_TURNS,
    before_call="\n",
    before_call_accepts="\n\n",
    between_calls="\n",
    engine_names={
        "vllm": ("qwen3_coder", "qwen3_xml"),
        "sglang": ("qwen3_coder",),
        "vllm-mlx": ("qwen3_xml", "qwen3_coder"),
        "mlx-lm": ("qwen3_coder",),
        "ollama": ("qwen3-coder",),
        "dynamo": ("qwen3_coder",),
        "smg": ("qwen_coder",),
        "canitoolcall": ("qwen3-xml",),
    },
    source="chat template of Qwen/Qwen3-Coder-30B-A3B-Instruct",
)

FORMATS = (
    _CODER,
    replace(
        _CODER,
        name="qwen3_5",
        summary="the calls of qwen3_coder after reasoning in <think>, which the prompt opens",
        aliases=("qwen3.5", "qwen3.6", "qwen3.8", "qwen35", "nanbeige", "ornith"),
        models=("Qwen/Qwen3.5-9B", "Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.8-27B", "Nanbeige/Nanbeige4-3B"),
        reasoning=(THINK,),
        start="<think>\n",
        before_call="\n\n",
        engine_names={
            "sglang": ("nanbeige",),
            "vllm-mlx": ("qwen3.5",),
            "ollama": ("qwen3.5", "ornith"),
        },
        source="chat template of Qwen/Qwen3.5-9B",
    ),
)
