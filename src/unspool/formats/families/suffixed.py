"""Tencent HY V3 and V4: key and value elements whose every marker ends with a suffix of the checkpoint's own.

The first open checkpoints had none, so the markers without it are read as well.
"""

from dataclasses import replace

from unspool.formats.families.glm import GLM_CALLS, GLM_LINES
from unspool.formats.families.hermes import BARE_THINK
from unspool.parsing.declaration import SUFFIX, Format, TaggedCalls, TaggedLayout, map_strings

_PLAIN = replace(
    GLM_CALLS,
    section_open=("<tool_calls>",),
    section_close=("</tool_calls>",),
    header_end=("<tool_sep>",),
    header_stops=("<arg_key>", "</tool_call>"),
    written=replace(GLM_LINES, section_pad="\n"),
)


def _own(value: TaggedCalls) -> TaggedCalls:
    return map_strings(value, {">": SUFFIX + ">"})


_PLAIN_V4 = replace(_PLAIN, header_end=(), written=TaggedLayout())
_REASONING = (map_strings(BARE_THINK, {">": SUFFIX + ">"}), BARE_THINK)

_V3 = Format(
    name="hy_v3",
    summary="sections of <tool_call>NAME<tool_sep> with <arg_key>/<arg_value> pairs; each marker has a suffix",
    aliases=("hunyuan_v3", "hyv3", "hy3"),
    models=("tencent/Hy3", "tencent/Hy3-preview"),
    reasoning=_REASONING,
    calls=_own(_PLAIN),
    also=(_PLAIN,),
    turns=(f"<｜hy_Assistant{SUFFIX}｜>", "<｜hy_Assistant｜>"),
    stops=(f"<｜hy_eos{SUFFIX}｜>", "<｜hy_eos｜>"),
    between_calls="\n",
    suffix=":opensource",
    evidence=tuple(f"<{tag}{SUFFIX}>" for tag in ("tool_calls", "tool_call", "tool_sep", "arg_key", "arg_value")),
    engine_names={"vllm": ("hy_v3",), "sglang": ("hunyuan",)},
    source="chat template of tencent/Hy3",
    quirks=(
        "Each marker ends with a suffix of the checkpoint's own; the vocabulary or the prompt tells it: pass "
        "tokenizer= or prompt=. Markers without one are read as well.",
        "reasoning_effort is no_think by default; the model then writes content alone.",
    ),
    disagreements=(
        "vLLM types by the first letters of a type's name and knows no null; unspool follows the schema.",
    ),
)

FORMATS = (
    _V3,
    replace(
        _V3,
        name="hy_v4",
        summary="hy_v3 without layout and without <tool_sep>; the prompt opens <think>",
        aliases=("hunyuan_v4", "hyv4"),
        models=(),
        turns=(),
        stops=(),
        calls=_own(_PLAIN_V4),
        also=(_PLAIN_V4,),
        start=f"<think{SUFFIX}>",
        between_calls="",
        evidence=(),
        # Each checkpoint has its own; without vocabulary or prompt, that of the one seen.
        suffix=":6124c78e",
        engine_names={"vllm": ("hy_v4",)},
        source="vLLM 0.33 and SGLang; the template wasn't seen",
        quirks=(
            "The suffix of each checkpoint comes from its vocabulary or the prompt: pass tokenizer= or prompt=.",
            "reasoning_effort is high by default: the prompt opens the reasoning.",
            "Newlines between elements, as in hy_v3, are read.",
        ),
        disagreements=("vLLM takes the suffix from the tokenizer alone.",),
    ),
)
