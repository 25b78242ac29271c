"""Families that write the key and value elements of GLM, under other names or with other layout and reasoning."""

from dataclasses import replace

from unspool.formats.families.glm import GLM45, GLM_CALLS, GLM_LINES
from unspool.formats.families.hermes import BARE_THINK, THINK
from unspool.parsing.declaration import Format, Frame, Reasoning, TaggedCalls, TaggedLayout, map_strings


def _horizon_blocks() -> tuple[Reasoning, ...]:
    """One block for each effort; a checkpoint closes any of them with any of the closers."""
    names = ("think", "think_fast", "think_faster")
    closers = tuple(f"</ifm|{name}>" for name in names)
    return tuple(
        Reasoning(
            f"<ifm|{name}>",
            close,
            closes_too=tuple(other for other in closers if other != close),
            open_pad="\n",
            close_pad="\n",
            ends_at_call=True,
        )
        for name, close in zip(names, closers, strict=True)
    )


_LAGUNA = Format(
    name="poolside_v1",
    summary="<tool_call>NAME with <arg_key>/<arg_value> pairs on lines; the prompt closes or opens <think>",
    aliases=("laguna", "poolside"),
    reasoning=(replace(BARE_THINK, after_accepts="\n", recurs=True),),
    calls=replace(GLM_CALLS, drops_keys_alone=True, written=GLM_LINES),
    turns=("<assistant>\n", "<assistant>"),
    start="</think>",
    stops=("</assistant>",),
    before_call="\n",
    before_call_alone="\n",
    between_calls="\n",
    evidence=("<tool_call>", "<arg_key>", "<assistant>"),
    engine_names={
        "vllm": ("poolside_v1",),
        "sglang": ("poolside_v1",),
        "vllm-mlx": ("poolside_v1",),
        "mlx-lm": ("laguna",),
        "ollama": ("laguna", "poolside-v1"),
    },
    source="the template and vLLM 0.33",
    quirks=(
        "enable_thinking is off by default for XS, on for S-2.1; the prompt ends with </think> or <think>: pass "
        "prompt=.",
        "Reasoning may recur after content. A key without a value is dropped.",
    ),
    disagreements=("Ollama also reads calls in <user> tags and bare JSON calls; unspool does not.",),
)

_SPARK = Format(
    name="spark25",
    summary="<tool_call>NAME on a line, then <arg_key>/<arg_value> pairs; no reasoning",
    aliases=("spark2.5", "spark_2.5"),
    calls=replace(GLM_CALLS, written=TaggedLayout(after_header="\n")),
    before_call="\n",
    between_calls="\n",
    by_name_only=True,
    engine_names={"sglang": ("spark25",)},
    source="SGLang; the template wasn't seen",
    quirks=("Values are typed by the schema; the text null stays text for a string.",),
    disagreements=("SGLang makes null of the text null for every type, and gives a call at once.",),
)

_IQUEST = Format(
    name="iquest_q1",
    summary="<iquest_tool_call>NAME with <arg_key>/<arg_value> pairs, no layout; the prompt opens <think>",
    aliases=("iquest", "iquestq1"),
    reasoning=(BARE_THINK,),
    calls=map_strings(GLM_CALLS, {"tool_call>": "iquest_tool_call>"}),
    turns=("<|iquest_assistant|>",),
    start="<think>",
    stops=("<|iquest_end|>",),
    evidence=("<iquest_tool_call>",),
    engine_names={"sglang": ("iquest_q1",)},
    source="SGLang; the template wasn't seen",
    quirks=(
        "Text values are kept as they are, entities and spaces too.",
        "With thinking on the prompt ends with <think>; pass prompt= otherwise.",
    ),
    disagreements=(
        "Text between a value and the end of the call: SGLang shows all of it as text; for unspool it belongs to "
        "the value.",
    ),
)

FORMATS = (
    replace(
        GLM45,
        name="glm4v",
        summary="the calls of glm45; boxes and <answer> around content are dropped",
        aliases=("glm_4v", "glm4.1v", "glm4.5v", "glm4.6v", "glm45v", "glm46v"),
        models=("zai-org/GLM-4.1V-9B-Thinking", "zai-org/GLM-4.5V", "zai-org/GLM-4.6V"),
        frames=(
            Frame("<|begin_of_box|>", "<|end_of_box|>", written="never"),
            Frame("<answer>", "</answer>", written="never"),
        ),
        evidence=("<tool_call>", "<arg_key>", "<|begin_of_image|>"),
        engine_names={"ollama": ("glm-ocr",)},
        source="chat template of zai-org/GLM-4.5V",
        quirks=(
            "Boxes may stand anywhere in the content; their markers and <answer> are dropped, the text stays.",
            "The box markers are special tokens and vanish without skip_special_tokens=False.",
        ),
        disagreements=("Engines leave the boxes in or strip them. GLM-OCR goes without thinking in Ollama.",),
    ),
    Format(
        name="ling3",
        summary="<tool_call>NAME with <arg_key>/<arg_value> pairs on lines; the model opens <think>",
        aliases=("ling_3", "ring2.6", "bailing", "bailing_v3"),
        reasoning=(THINK,),
        calls=replace(GLM_CALLS, written=GLM_LINES),
        turns=("<role>ASSISTANT</role>",),
        stops=("<|role_end|>",),
        lead_accepts="\n",
        before_call="\n",
        between_calls="\n",
        evidence=("<tool_call>", "<arg_key>", "<role>ASSISTANT</role>"),
        engine_names={"vllm": ("ling3",), "sglang": ("ling3",)},
        source="vLLM 0.33 and llama.cpp's templates",
        quirks=(
            "The model writes <think> itself unless the prompt does; enable_thinking is on by default.",
            "A newline after the name may be missing.",
        ),
        disagreements=("A second call in one chunk is lost in SGLang.",),
    ),
    _LAGUNA,
    replace(
        _LAGUNA,
        name="laguna_xs",
        summary="poolside_v1 with newlines around reasoning and behind content and calls",
        aliases=("laguna_xs_2", "laguna_xs_2.1"),
        models=("poolside/Laguna-XS.2",),
        reasoning=(replace(THINK, after="\n", recurs=True),),
        content_end="\n",
        calls_end="\n",
        evidence=("<tool_call>", "<arg_key>", "<assistant>", "\n</think>\n"),
        engine_names={},
        source="chat template of poolside/Laguna-XS.2",
    ),
    _SPARK,
    replace(
        _SPARK,
        name="spark3",
        summary="the calls of spark25",
        aliases=("spark_3",),
        engine_names={},
        quirks=("Values are typed by the schema; a tool that was not offered is a call all the same.",),
        disagreements=(
            "The model's parser removes a call to an unknown tool and a call that is cut off; unspool never "
            "removes the former.",
        ),
    ),
    _IQUEST,
    replace(
        _IQUEST,
        name="iquest_coder",
        summary="the calls of iquest_q1 in <iquestcoder_tool_call>",
        aliases=("iquest_coder_v2",),
        calls=map_strings(GLM_CALLS, {"tool_call>": "iquestcoder_tool_call>"}),
        evidence=("<iquestcoder_tool_call>",),
        engine_names={},
        quirks=("iquest_q1 with another outer tag.",),
        disagreements=(
            "The model's parser shows a call with leftover text as text; for unspool that belongs to the value.",
        ),
    ),
    Format(
        name="solar_open2",
        summary="special tokens around name, key and value; calls may stand inside the reasoning",
        aliases=("solar_open_2", "solar_pro4"),
        reasoning=(Reasoning("<|think:start|>", "<|think:end|>", holds_calls=True, writes_inside=False),),
        calls=TaggedCalls(
            call_open=("<|tool_call:start|>",),
            header_end=(),
            header_stops=("\n", "<|tool_arg:start|>", "<|tool_call:end|>"),
            param_open=("<|tool_arg:start|>",),
            key_end=("<|tool_arg:value|>",),
            value_close=("<|tool_arg:end|>",),
            call_close=("<|tool_call:end|>",),
            open_ends=True,
            written=TaggedLayout(after_header="\n", after_param="\n"),
        ),
        turns=("<|im:start|>assistant<|im:content|>",),
        start="<|think:start|>",
        stops=("<|im:end|>",),
        between_calls="\n",
        engine_names={"vllm": ("solar_open2",)},
        source="the checkpoint's vLLM plug-in",
        quirks=(
            "With low or minimal effort the prompt holds an empty think pair: pass prompt=.",
            "A complete call inside the thinking is a call, a mention is reasoning. A missing closer of value or "
            "call is read.",
        ),
        disagreements=(
            "A call that is cut off: the checkpoint's plug-in gives its text as content. mlx-lm knows only the "
            "think pair.",
        ),
    ),
    Format(
        name="k2_horizon",
        summary="<ifm|tool_call>NAME with <ifm|arg_key>/<ifm|arg_value> pairs, or JSON; one of three think pairs",
        aliases=("k2_v3", "k2horizon"),
        reasoning=_horizon_blocks(),
        calls=replace(
            map_strings(GLM_CALLS, {"</": "</ifm|", "<t": "<ifm|t", "<a": "<ifm|a"}),
            section_open=("<ifm|tool_calls>",),
            section_close=("</ifm|tool_calls>",),
            type_element=("<ifm|arg_type>", "</ifm|arg_type>"),
            json_body=True,
            written=replace(GLM_LINES, section_pad="\n"),
        ),
        turns=("<|ifm|im_start|>assistant\n",),
        start="<ifm|think>\n",
        stops=("<|ifm|im_end|>",),
        between_calls="\n",
        evidence=("<ifm|tool_calls>", "<ifm|tool_call>"),
        engine_names={"vllm": ("k2_horizon",), "sglang": ("k2_horizon",)},
        source="vLLM 0.33 and llama.cpp's templates",
        quirks=(
            "reasoning_effort chooses one of three openers in the prompt; any of the three closers closes it.",
            "tool_call_format: xml, xml_typed (a type with each value, used if the schema is silent) or json; "
            "what is there decides.",
            "The section's tags may be missing. All markers are special tokens: decode with "
            "skip_special_tokens=False or pass token ids.",
        ),
    ),
)
