"""GLM-4.5 to 5.3: key and value elements inside ``<tool_call>``, typed by schema."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK
from unspool.parsing.declaration import Format, TaggedCalls, TaggedLayout

GLM_CALLS = TaggedCalls(
    call_open=("<tool_call>",),
    header_end=(),
    header_stops=("\n", "<arg_key>", "</tool_call>"),
    param_open=("<arg_key>",),
    key_end=("</arg_key>",),
    value_open="<arg_value>",
    value_close=("</arg_value>",),
    call_close=("</tool_call>",),
)
GLM_LINES = TaggedLayout(after_header="\n", between_key_value="\n", after_param="\n")

_GLM47 = Format(
    name="glm47",
    summary="<tool_call>NAME with <arg_key>/<arg_value> pairs, no layout; the prompt opens <think>",
    aliases=("glm_4.7", "glm4.7", "glm5", "glm_5", "glm_5.1", "glm5.1", "glm_5.2", "glm5.2", "glm_5.3", "glm5.3"),
    models=("zai-org/GLM-4.7", "zai-org/GLM-5", "zai-org/GLM-5.3"),
    reasoning=(BARE_THINK,),
    calls=GLM_CALLS,
    turns=("<|assistant|>",),
    start="<think>",
    stops=("<|user|>", "<|observation|>", "<|endoftext|>"),
    next_turns=("<|user|>", "<|observation|>", "<|assistant|>"),
    evidence=("<tool_call>", "<arg_key>"),
    engine_names={
        "vllm": ("glm47",),
        "sglang": ("glm47",),
        "mlx-lm": ("glm47",),
        "ollama": ("glm-4.7",),
        "dynamo": ("glm47",),
        "smg": ("glm47_moe",),
    },
    source="chat template of zai-org/GLM-4.7",
    quirks=(
        "The prompt ends with <think>, with enable_thinking=False with </think> alone: pass prompt=. 5.3 always "
        "thinks.",
        "Newlines between elements, as GLM-4.5 writes them, are read.",
        "Markers inside a value are letters where the text goes on as a value; only token ids make that certain.",
    ),
    disagreements=("Text behind the calls: vLLM drops it in whole answers and keeps it when streaming.",),
)

GLM45 = replace(
    _GLM47,
    name="glm45",
    summary="<tool_call>NAME with <arg_key>/<arg_value> pairs on lines; the model opens <think>",
    aliases=("glm", "glm_4.5", "glm4.5", "glm_4.6", "glm4.6", "glm46"),
    models=("zai-org/GLM-4.5", "zai-org/GLM-4.5-Air", "zai-org/GLM-4.6"),
    reasoning=(replace(BARE_THINK, after="\n"),),
    calls=replace(GLM_CALLS, written=GLM_LINES),
    start="",
    lead="\n",
    before_call="\n",
    before_call_accepts=" \n",
    between_calls="\n",
    engine_names={
        "vllm": ("glm45",),
        "sglang": ("glm", "glm45"),
        "dynamo": ("glm45",),
        "smg": ("glm45_moe",),
        "canitoolcall": ("glm",),
    },
    source="chat template of zai-org/GLM-4.5",
    quirks=(
        "The model writes <think> itself. enable_thinking=False puts <think></think> into the prompt and "
        "/nothink into the user's message: pass prompt=.",
        "A newline after the name may be missing; a call whose last value is complete may lack </tool_call>.",
        "Values are typed by the schema: 007 stays text for a string.",
    ),
    disagreements=(
        "SGLang has a detector each for 4.5 and 4.7; that of 4.5 misses calls without arguments in 4.7's "
        "notation. vLLM and unspool read both alike.",
        "A value that is cut off: vLLM gives a call with {}, SGLang the text, unspool no call.",
        "A second call in one chunk is lost in SGLang.",
    ),
)

FORMATS = (_GLM47, GLM45)
