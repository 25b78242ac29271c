"""Salesforce xLAM and Hammer: the whole answer is a JSON list of calls, sometimes in somebody else's wrapper."""

from unspool.formats.families.hermes import THINK
from unspool.formats.families.lists import INLINE
from unspool.parsing.declaration import Format, JsonCalls

FORMATS = (
    Format(
        name="xlam",
        summary="a bare JSON list of calls, or one in a fence, <tool_call> or [TOOL_CALLS]; offered names only",
        aliases=("hammer", "llama_xlam"),
        models=("Salesforce/Llama-xLAM-2-8b-fc-r", "Salesforce/xLAM-2-3b-fc-r", "MadeAgents/Hammer2.1-7b"),
        reasoning=(THINK,),
        calls=JsonCalls(
            open=("```json", "```", "[TOOL_CALLS]", "<tool_call>"),
            close=("```", "</tool_call>"),
            bare=True,
            offered_only=True,
            separators=",;",
            written_list=INLINE,
        ),
        before_call="\n",
        stops=("<|eot_id|>", "<|im_end|>"),
        evidence=('[{"name": "tool_call_name"',),
        engine_names={"vllm": ("xlam",), "vllm-mlx": ("xlam",), "smg": ("json",)},
        source="model card of Salesforce/Llama-xLAM-2-8b-fc-r",
        quirks=(
            "Calls have no markers, so a JSON answer looks the same: only offered names make calls.",
            "A list may stand in a code fence behind text, behind [TOOL_CALLS], in <tool_call> or behind "
            "reasoning; objects may be joined by ;.",
        ),
        disagreements=("A list whose names are no tools is content; streaming, vLLM makes calls of it.",),
    ),
)
