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
    aliases=("qwen3_xml", "qwen_xml", "qwen_coder", "qwen3_coder_next"),
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
    quirks=(
        "<tool_call> may be missing, as may </parameter> and </function>; several functions may share one pair.",
        "One newline on both sides of a value is framing, more belong to it. </parameter> inside a value is text "
        "unless a closer is due.",
        "Values are typed by the schema; True, None and Python lists are read, since templates print them.",
    ),
    disagreements=(
        "null for a string: SGLang makes it null, vLLM and unspool keep the text.",
        "1_000 for an integer: vLLM and SGLang make it 1000, unspool keeps the text.",
        "A parameter closed only by </function>: vLLM loses it, or streams invalid JSON.",
        "</parameter> inside a value cuts it in vLLM and SGLang.",
        "Text behind the calls: SGLang drops it; vLLM drops it in whole answers and keeps it when streaming.",
    ),
)

QWEN3_5 = replace(
    _CODER,
    name="qwen3_5",
    summary="the calls of qwen3_coder after reasoning in <think>, which the prompt opens",
    aliases=("qwen3.5", "qwen3.6", "qwen3.8", "qwen35", "nanbeige", "ornith"),
    models=("Qwen/Qwen3.5-9B", "Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.8-27B", "Nanbeige/Nanbeige4.1-3B"),
    reasoning=(THINK,),
    start="<think>\n",
    before_call="\n\n",
    engine_names={
        "sglang": ("nanbeige",),
        "vllm-mlx": ("qwen3.5",),
        "ollama": ("qwen3.5", "ornith"),
    },
    source="chat template of Qwen/Qwen3.5-9B",
    quirks=(
        "enable_thinking=False puts an empty block into the prompt: pass prompt=.",
        "A call without </think> before it, a known slip, ends the reasoning; a quoted <tool_call> does not.",
        "Qwen3.5's template prints True and None, Qwen3.6's JSON; both are read.",
    ),
    disagreements=(
        "<tool_call> mentioned in reasoning: vLLM loses the rest of the output, SGLang does so when streaming.",
        "None for a parameter that may be null: vLLM and SGLang keep the text, unspool gives null.",
    ),
)

FORMATS = (_CODER, QWEN3_5)
