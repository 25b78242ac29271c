"""DeepSeek V3 and R1 (a code fence), V3.1 (JSON), V3.2 to V4.1 (DSML elements that say what is a string).

GigaChat 3.5 writes DSML with a marker of its own.
"""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK, THINK
from unspool.formats.families.invoke import invoke
from unspool.parsing.declaration import Format, JsonArguments, NamedCalls, TaggedCalls

_TURNS = ("<｜Assistant｜>",)
_STOPS = ("<｜end▁of▁sentence｜>",)
_NEXT_TURNS = ("<｜User｜>", "<｜Assistant｜>")

_SECTION = NamedCalls(
    section_open="<｜tool▁calls▁begin｜>",
    section_close="<｜tool▁calls▁end｜>",
    open="<｜tool▁call▁begin｜>",
    header_end=("<｜tool▁sep｜>",),
    close="<｜tool▁call▁end｜>",
    type_header=True,
)


def dsml(section: str, space: str, mark: str = "｜DSML｜") -> TaggedCalls:
    """DSML with this section tag and marker; V4.1 writes a space after the marker, some outputs leave it out."""
    others = ("function_calls", "tool_calls", "calls", " calls", "toolcalls", "tool")
    sections = (f"{mark}{space}{section}", *(mark + name for name in others))

    def spelled(before: str, name: str, after: str = "") -> tuple[str, ...]:
        spellings = (mark + space, mark, f"{mark} ", "")
        return tuple(dict.fromkeys(f"{before}{spelling}{name}{after}" for spelling in spellings))

    elements = invoke()
    return replace(
        elements,
        section_open=tuple(dict.fromkeys(f"<{name}>" for name in sections)),
        section_close=tuple(dict.fromkeys(f"</{name}>" for name in sections)),
        call_open=spelled("<", "invoke"),
        param_open=spelled("<", "parameter"),
        value_close=spelled("</", "parameter", ">"),
        call_close=spelled("</", "invoke", ">"),
        loose=("<parameter", "</parameter>", "</invoke>"),
        type_attribute="string",
        written=replace(elements.written, empty="\n", types="string"),
    )


_V3 = Format(
    name="deepseek_v3",
    summary="special-token section, JSON arguments in a code fence; reasoning in <think>",
    aliases=("deepseek", "cogito", "deepseek_v3_0324"),
    models=("deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-R1"),
    reasoning=(THINK,),
    calls=replace(
        _SECTION,
        written_header="function<｜tool▁sep｜>{name}\n",
        arguments=JsonArguments(written_before="```json\n", written_after="\n```"),
    ),
    turns=_TURNS,
    stops=_STOPS,
    next_turns=_NEXT_TURNS,
    between_calls="\n",
    engine_names={
        "vllm": ("deepseek_v3",),
        "sglang": ("deepseekv3",),
        "vllm-mlx": ("deepseek", "deepseek_v3"),
        "dynamo": ("deepseek_v3",),
        "smg": ("deepseek",),
        "ollama": ("cogito",),
        "canitoolcall": ("deepseek",),
    },
    source="chat template of deepseek-ai/DeepSeek-V3-0324",
    quirks=(
        "The word before <｜tool▁sep｜> is a type; fence and language may be missing. V3.1's notation is read.",
        "The original R1 writes <think> itself, V3 does not reason.",
        "The call markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
    ),
    disagreements=(
        "vLLM and SGLang need fence and newlines exactly as in the template and drop text behind the section.",
        "A call in one chunk: SGLang gives it {} as arguments.",
    ),
)

_DSML_NOTES = (
    "Only the marker inside the tags is a special token: decode with skip_special_tokens=False or pass token ids.",
    'string="true" is text as it stands, "false" JSON; without the attribute the schema decides, then the looks.',
)

_V32 = Format(
    name="deepseek_v32",
    summary="DSML elements in a function_calls section; each says whether its value is a string",
    aliases=("deepseek_v3.2", "deepseekv32", "deepseek_v3_2", "dsml"),
    models=("deepseek-ai/DeepSeek-V3.2",),
    reasoning=(BARE_THINK,),
    calls=dsml("function_calls", ""),
    turns=_TURNS,
    start="</think>",
    stops=_STOPS,
    next_turns=_NEXT_TURNS,
    before_call="\n\n",
    before_call_alone="\n\n",
    between_calls="\n",
    engine_names={
        "vllm": ("deepseek_v32",),
        "sglang": ("deepseekv32",),
        "dynamo": ("deepseek_v3_2",),
        "smg": ("deepseek_dsml",),
    },
    source="encoding script of deepseek-ai/DeepSeek-V3.2",
    quirks=(
        "No chat template in Jinja. With thinking=True the prompt ends with <think>, else </think>: pass prompt=.",
        *_DSML_NOTES,
        'A JSON object as the body and <... invoke name="f"/> without a body are read.',
    ),
    disagreements=(
        "Text behind the section: vLLM and SGLang drop it, unspool keeps it.",
        "A sole parameter named arguments or input that holds an object: vLLM unwraps it, unspool does not.",
        "A call that is cut off: vLLM gives a call with {} or invalid JSON, unspool none.",
    ),
)

FORMATS = (
    _V3,
    replace(
        _V3,
        name="deepseek_r1",
        summary="the calls of deepseek_v3 after reasoning in <think>, which the prompt opens",
        aliases=("deepseek_r1_0528",),
        models=("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"),
        start="<think>\n",
        engine_names={
            "vllm": ("deepseek_r1",),
            "sglang": ("deepseek-r1",),
            "vllm-mlx": ("deepseek_r1",),
            "dynamo": ("basic",),
        },
        source="chat template of deepseek-ai/DeepSeek-R1-0528",
        quirks=(
            "Newer templates end the prompt with <think>: an output without a closer is all reasoning.",
            "For the original R1, whose prompt does not, pass prompt= or take deepseek_v3.",
        ),
        disagreements=(
            "Does an output start in reasoning? vLLM asks the prompt, SGLang its default and the request.",
        ),
    ),
    replace(
        _V3,
        name="deepseek_v31",
        summary="special-token section, name and JSON arguments; reasoning in <think>, off by default",
        aliases=("deepseek_v3.1", "deepseekv31", "deepseek_v3_1", "deepseek3"),
        models=("deepseek-ai/DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3.2-Exp"),
        reasoning=(BARE_THINK,),
        calls=replace(_SECTION, written_header="{name}<｜tool▁sep｜>"),
        start="</think>",
        between_calls="",
        engine_names={
            "vllm": ("deepseek_v31",),
            "sglang": ("deepseekv31", "deepseek-v3"),
            "ollama": ("deepseek3",),
            "dynamo": ("deepseek_v3_1",),
            "smg": ("deepseek31",),
        },
        source="chat template of deepseek-ai/DeepSeek-V3.1",
        quirks=(
            "With thinking=True the prompt ends with <think>, by default with </think>: pass prompt=.",
            "The fenced notation of V3 is read as well.",
            "The call markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
        ),
        disagreements=("Two calls in one chunk: SGLang puts the first call's JSON into a name.",),
    ),
    _V32,
    replace(
        _V32,
        name="deepseek_v4",
        summary="DSML elements in a tool_calls section",
        aliases=("deepseekv4",),
        models=("deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro"),
        calls=dsml("tool_calls", ""),
        start="<think>",
        engine_names={
            "vllm": ("deepseek_v4",),
            "sglang": ("deepseekv4", "deepseek-v4"),
            "vllm-mlx": ("deepseek_v4", "dsml"),
            "dynamo": ("deepseek_v4",),
        },
        source="encoding script of deepseek-ai/DeepSeek-V4-Flash",
        quirks=(
            "No chat template in Jinja. Thinking is on, unless reasoning_effort is none: pass prompt=.",
            "The section names of V3.2 and the slips toolcalls and tool are read.",
            *_DSML_NOTES,
        ),
        disagreements=(
            "Thinking is on by default in vLLM; SGLang wants it said.",
            *_V32.disagreements,
        ),
    ),
    replace(
        _V32,
        name="deepseek_v41",
        summary="DSML elements in a calls section, a space after each marker",
        aliases=("deepseek_v4.1", "deepseekv41"),
        models=("deepseek-ai/DeepSeek-V4.1-Flash",),
        calls=dsml("calls", " "),
        start="<think>",
        engine_names={"vllm": ("deepseek_v41",), "sglang": ("deepseekv41", "deepseek-v41")},
        source="encoding script of deepseek-ai/DeepSeek-V4.1-Flash",
        quirks=(
            "Each tag name has a space before it; section names of V3.2 and V4 are read.",
            *_DSML_NOTES,
        ),
    ),
    replace(
        _V32,
        name="gigachat35",
        summary="DSML elements with the marker GCML; the prompt opens <think>",
        aliases=("gigachat3.5", "gcml"),
        models=(),
        calls=dsml("tool_calls", "", "｜GCML｜"),
        turns=(),
        start="<think>",
        stops=("<|message_sep|>", "</s>"),
        evidence=("<｜GCML｜tool_calls>",),
        engine_names={"sglang": ("gigachat35",)},
        source="llama.cpp's template of GigaChat 3.5",
        quirks=(
            "DSML with a marker of its own; a turn may end with either terminator.",
            'string="true" is text as it stands, "false" JSON.',
        ),
        disagreements=("vLLM has no parser for it; SGLang reads reasoning as DeepSeek R1's.",),
    ),
)
