"""IBM Granite: a JSON list without a closer (3.x), hermes tags (4.0), a trigger before each call (20B)."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK, HERMES_CALLS
from unspool.formats.families.lists import INLINE
from unspool.parsing.declaration import Format, Frame, JsonCalls, Reasoning

_TURNS = ("<|start_of_role|>assistant<|end_of_role|>",)
_STOPS = ("<|end_of_text|>",)

_PHRASES = tuple(
    Reasoning(
        f"{words} my thought process:",
        "Here is my response:",
        closes_too=("Here's my response:",),
        open_pad=" ",
        close_pad="\n",
        after=" ",
        ends_at_call=True,
    )
    for words in ("Here is", "Here's")
)

_CALLS = JsonCalls(open=("<tool_call>", "<|tool_call|>"), close=("", "</tool_call>"), written_list=INLINE)

_GRANITE = Format(
    name="granite",
    summary="a JSON list of calls after <tool_call>, no closer; reasoning between two phrases, or in <think>",
    aliases=("granite3", "granite_3", "granite_3.2", "granite3.2", "granite_3.3", "granite3.3"),
    models=(
        "ibm-granite/granite-3.2-8b-instruct",
        "ibm-granite/granite-3.3-8b-instruct",
    ),
    reasoning=(*_PHRASES, replace(BARE_THINK, after="\n")),
    frames=(Frame("<response>", "</response>", written="never"),),
    calls=_CALLS,
    turns=_TURNS,
    stops=_STOPS,
    evidence=("<|tool_call|>", "<|start_of_role|>"),
    engine_names={
        "vllm": ("granite",),
        "vllm-mlx": ("granite", "granite3"),
        "dynamo": ("granite",),
        "bfcl": ("granite_3",),
    },
    source="chat templates of ibm-granite/granite-3.2-8b-instruct and granite-3.3-8b-instruct",
    quirks=(
        "3.0 and 3.1 do not reason. 3.2 with thinking=True does so between two phrases, which are ordinary text; "
        "3.3 in <think> and <response>.",
        "The list's last bracket closes the calls; text behind it is content, a stray </tool_call> is dropped.",
    ),
    disagreements=(
        "vLLM's reasoning parser needs both phrases and takes the output for content if one is missing; for "
        "unspool the first opens reasoning that may stay open.",
        "Prose behind the list: vLLM drops it in whole answers and keeps it when streaming.",
        "Reasoning by phrases and then a call: vLLM leaves the call in the content when streaming.",
    ),
)

FORMATS = (
    _GRANITE,
    replace(
        _GRANITE,
        name="granite_30",
        summary="a JSON list of calls after <|tool_call|>, no closer",
        aliases=("granite_3.0", "granite3.0", "granite_3.1", "granite3.1"),
        models=("ibm-granite/granite-3.0-8b-instruct", "ibm-granite/granite-3.1-8b-instruct"),
        reasoning=(),
        frames=(),
        # The same markers, the other one written.
        calls=replace(_CALLS, open=_CALLS.open[::-1]),
        engine_names={},
        source="chat template of ibm-granite/granite-3.0-8b-instruct",
        quirks=(
            "<|tool_call|> is one special token: decode with skip_special_tokens=False or pass token ids.",
            "A space may stand between it and the list.",
        ),
        disagreements=(
            "vLLM's granite drops prose behind the list in whole answers and keeps it when streaming.",
        ),
    ),
    Format(
        name="granite4",
        summary="one JSON object in <tool_call> tags a call, no reasoning",
        aliases=("granite_4", "granite_4.0", "granite4.0", "granite_4.1", "granite4.1"),
        models=("ibm-granite/granite-4.0-h-small", "ibm-granite/granite-4.0-h-tiny"),
        calls=HERMES_CALLS,
        turns=_TURNS,
        stops=_STOPS,
        before_call="\n",
        between_calls="\n",
        evidence=("<tool_call>", "<|start_of_role|>"),
        engine_names={"vllm": ("granite4",)},
        source="chat template of ibm-granite/granite-4.0-h-small",
        quirks=(
            "<tool_call> is a special token: decode with skip_special_tokens=False or pass token ids.",
            "Arguments may come as a JSON string; they are read as the object in it.",
        ),
        disagreements=("SGLang has no parser of its own for it; its qwen25 or hermes is used.",),
    ),
    Format(
        name="granite_20b_fc",
        summary="<function_call> before the JSON object of each call, no closer",
        models=("ibm-granite/granite-20b-functioncalling",),
        calls=JsonCalls(open=("<function_call>",), body_pad=" "),
        stops=("<|endoftext|>",),
        between_calls=" ",
        engine_names={"vllm": ("granite-20b-fc",)},
        source="model card of ibm-granite/granite-20b-functioncalling",
        quirks=("The marker is ordinary text; text before the first one is content.",),
        disagreements=(
            "vLLM streams calls only if the output begins with the marker.",
            "A second call without arguments gets an empty text instead of {} when vLLM streams it.",
        ),
    ),
)
