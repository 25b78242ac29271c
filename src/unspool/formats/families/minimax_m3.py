"""MiniMax-M3: nested elements, a marker before every tag."""

from unspool.parsing.declaration import ElementCalls, Format, Reasoning

_MARK = "]<]minimax[>["

FORMATS = (
    Format(
        name="minimax_m3",
        summary="an element a parameter, nested as the value is, each tag behind ]<]minimax[>[; <mm:think>",
        aliases=("minimaxm3",),
        reasoning=(Reasoning("<mm:think>", "</mm:think>", after="\n", after_prompt="", ends_at_call=True),),
        calls=ElementCalls(
            section_open=_MARK + "<tool_call>",
            section_close=_MARK + "</tool_call>",
            call_open=_MARK + "<invoke ",
            call_close=_MARK + "</invoke>",
            element_open=_MARK + "<",
            element_close=_MARK + "</",
            layout="\n",
        ),
        turns=("]~b]ai\n",),
        stops=("[e~[",),
        next_turns=("]~b]",),
        before_call="\n",
        between_calls="\n",
        evidence=("]<]minimax[>[<tool_call>",),
        engine_names={
            "vllm": ("minimax_m3",),
            "sglang": ("minimax-m3",),
            "dynamo": ("minimax_m3",),
        },
        source="chat template of MiniMaxAI/MiniMax-M3, vLLM 0.33",
        quirks=(
            "The marker before each tag is ordinary text, sometimes in several tokens.",
            "thinking_mode: enabled puts the opener into the prompt, disabled the closer, adaptive leaves it to "
            "the model. Pass prompt=; a closer that comes first is dropped.",
            "A repeated element is a list, text beside elements is $text; an empty one follows the schema.",
        ),
        disagreements=(
            "Text behind the section: vLLM drops it, unspool keeps it.",
            "Other parsers give a call's arguments at once; unspool streams them.",
        ),
    ),
)
