"""Families that write the name in a header of their own, then a JSON object (CWM: or free text)."""

from dataclasses import replace

from unspool.formats.families.hermes import THINK
from unspool.formats.families.llama import LLAMA3_STOPS, LLAMA3_TURNS
from unspool.parsing.declaration import Format, Frame, NamedCalls, RawArguments, Reasoning


def _plamo(tag: str) -> str:
    return f"<|plamo:{tag}:plamo|>"


_ELEMENT = NamedCalls(open="<function=", header_end=(">",), close="</function>", written_header="{name}>")

_FUNCTIONARY = Format(
    name="functionary_v3",
    summary=">>>NAME and a JSON object on the next line a call, >>>all before content; or <function=NAME>",
    aliases=("functionary", "meetkai", "functionary_v3.2"),
    models=("meetkai/functionary-small-v3.2", "meetkai/functionary-medium-v3.2"),
    frames=(Frame(">>>all\n"),),
    calls=NamedCalls(open=">>>", header_end=("\n",), written_header="{name}\n", offered_only=True),
    also=(_ELEMENT,),
    turns=LLAMA3_TURNS,
    start=">>>",
    stops=LLAMA3_STOPS,
    evidence=(">>>all\n",),
    engine_names={"vllm-mlx": ("functionary", "meetkai"), "llama.cpp": ("functionary_v3.2",)},
    source="chat template of meetkai/functionary-small-v3.2",
    quirks=(
        "The prompt ends with >>>, so the output starts with all or a name. Only offered names are calls.",
        "Code for the recipient python is content. The elements of v3.1 are read as well.",
    ),
    disagreements=("Neither vLLM nor SGLang has a parser for it; llama.cpp and vllm-mlx do.",),
)

FORMATS = (
    _FUNCTIONARY,
    replace(
        _FUNCTIONARY,
        name="functionary_v31",
        summary="<function=NAME> and a JSON object a call",
        aliases=("functionary_v3.1",),
        models=("meetkai/functionary-small-v3.1",),
        frames=(),
        calls=_ELEMENT,
        also=(),
        start="",
        evidence=("<function=", "</function>", "<|start_header_id|>"),
        engine_names={"llama.cpp": ("functionary_v3.1",)},
        source="chat template of meetkai/functionary-small-v3.1",
        quirks=("Python behind <|python_tag|> is content.",),
        disagreements=("Neither vLLM nor SGLang has a parser for it; llama.cpp reads it with a workaround.",),
    ),
    Format(
        name="functionary_v2",
        summary="messages with <|from|>, <|recipient|> and <|content|>; the recipient all is content",
        models=("meetkai/functionary-small-v2.4", "meetkai/functionary-small-v2.5"),
        frames=(Frame("<|from|>assistant\n<|recipient|>all\n<|content|>"),),
        calls=NamedCalls(
            open="<|from|>assistant\n<|recipient|>",
            header_end=("\n<|content|>", "<|content|>"),
            written_header="{name}\n<|content|>",
        ),
        start="<|from|>assistant\n<|recipient|>",
        stops=("<|stop|>",),
        before_call="\n",
        between_calls="\n",
        source="prompt template v2 of the functionary repository",
        quirks=("The prompt ends inside the header. Code for the recipient python is no JSON and stays content.",),
        disagreements=("Neither vLLM nor SGLang has a parser for it.",),
    ),
    Format(
        name="chatglm4",
        summary="NAME and a JSON object on the next line, without markers; only offered names are calls",
        aliases=("glm4", "glm_4_9b", "chatglm"),
        models=("zai-org/glm-4-9b-chat",),
        calls=NamedCalls(header_end=("\n",), written_header="{name}\n", offered_only=True),
        turns=("<|assistant|>",),
        stops=("<|observation|>", "<|user|>", "<|endoftext|>"),
        between_calls="\n",
        evidence=("[gMASK]<sop>", "可用工具"),
        engine_names={"bfcl": ("glm",)},
        source="chat template of zai-org/glm-4-9b-chat",
        quirks=(
            "There are no markers: a call must begin a turn or follow a call, and have an offered name.",
            "This is the old GLM-4-9B; for GLM-4.5 and later see glm45 and glm47.",
        ),
        disagreements=("glm is GLM-4.5 in SGLang. Only BFCL has a reader for this one.",),
    ),
    Format(
        name="plamo3",
        summary="a section of requests with the name and JSON arguments in markers of several tokens",
        reasoning=(Reasoning(_plamo("begin_think"), _plamo("end_think"), ends_at_call=True),),
        # Only where the last of a request's closers is missing.
        frames=(Frame("", _plamo("end_tool_arguments"), written="never"),),
        calls=NamedCalls(
            section_open=_plamo("begin_tool_requests"),
            section_close=_plamo("end_tool_requests"),
            open=_plamo("begin_tool_request"),
            prefixes=(_plamo("begin_tool_name"),),
            header_notes=(_plamo("end_tool_name"),),
            header_end=("<|plamo:msg|>",),
            close=_plamo("end_tool_arguments") + _plamo("end_tool_request"),
            written_header=_plamo("begin_tool_name")
            + "{name}"
            + _plamo("end_tool_name")
            + _plamo("begin_tool_arguments")
            + "<|plamo:constrain|>json<|plamo:msg|>",
        ),
        start=_plamo("begin_think"),
        stops=("<|plamo:tag|>",),
        engine_names={"vllm": ("plamo3",)},
        source="parser of vLLM 0.33",
        quirks=(
            "Each marker is several tokens, so it is matched by text. enable_thinking is on by default: the "
            "prompt opens the reasoning.",
            "Whitespace belongs to content and reasoning. A terminator may stand for the last closers.",
        ),
        disagreements=("vLLM alone has a parser; it needs the markers' parts preserved when decoding.",),
    ),
    Format(
        name="step_audio2",
        summary="<tool_call>function, the name and a JSON object on lines",
        aliases=("step_audio_2",),
        models=("stepfun-ai/Step-Audio-2-mini",),
        calls=NamedCalls(
            open="<tool_call>",
            header_end=("\n",),
            close="</tool_call>",
            written_header="function\n{name}\n",
            type_header=True,
            list_body=True,
        ),
        evidence=("<tool_call>function\n",),
        source="parser that Step-Audio 2 is served with",
        quirks=(
            "The line with the type may be missing, the arguments may stand in a fence, and hermes calls in the "
            "same tags are read.",
        ),
    ),
    Format(
        name="cwm",
        summary="<tool: NAME> with JSON arguments or a command as free text",
        models=("facebook/cwm",),
        reasoning=(replace(THINK, after="\n"),),
        calls=NamedCalls(
            open="<tool:",
            header_end=(">",),
            header_stops=("\n", "<"),
            close="</tool>",
            arguments=RawArguments(member="command", written_after="\n"),
            written_header=" {name}>\n{name} ",
        ),
        before_call="\n",
        between_calls="\n",
        turns=LLAMA3_TURNS,
        stops=LLAMA3_STOPS,
        evidence=("<tool:", "</tool>"),
        source="parser in a vLLM fork for facebook/cwm",
        quirks=(
            "What stands behind the name is JSON arguments, or free text that becomes the argument command.",
            "The first word of the body is the tool if it is offered, otherwise the label is.",
        ),
        disagreements=("Only a fork of vLLM reads it.",),
    ),
)
