"""Families that write all calls of a turn as one JSON list between two markers."""

from unspool.formats.families.hermes import THINK
from unspool.parsing.declaration import Format, Frame, JsonCalls, Reasoning

_ON_LINES = ("[\n    ", ",\n    ", "\n]")
_INLINE = ("[", ", ", "]")

FORMATS = (
    Format(
        name="jamba",
        summary="a JSON list of calls in <tool_calls>, one a line",
        models=("ai21labs/AI21-Jamba-Large-1.5", "ai21labs/AI21-Jamba-Mini-1.5"),
        calls=JsonCalls(open=("<tool_calls>",), close=("</tool_calls>",), written_list=_ON_LINES),
        turns=("<|assistant|>",),
        stops=("<|eom|>", "<|endoftext|>"),
        engine_names={"vllm": ("jamba",), "dynamo": ("jamba",)},
        source="chat template of ai21labs/AI21-Jamba-Large-1.5",
    ),
    Format(
        name="hunyuan_a13b",
        summary="a JSON list of calls in <tool_calls>, inside <answer>; reasoning in <think>",
        models=("tencent/Hunyuan-A13B-Instruct",),
        reasoning=(Reasoning("<think>", "</think>", open_pad="\n", close_pad="\n", after="\n"),),
        frames=(
            Frame("<answer>", "</answer>", open_pad="\n", close_pad="\n", written="always", holds_calls=True),
        ),
        calls=JsonCalls(open=("<tool_calls>",), close=("</tool_calls>",), written_list=_INLINE),
        before_call="\n",
        engine_names={"vllm": ("hunyuan_a13b",)},
        source="chat template of tencent/Hunyuan-A13B-Instruct",
    ),
    Format(
        name="apertus",
        summary="a JSON list in <|tools_prefix|>, the name as an object's only key; calls stand inside reasoning",
        aliases=("apertus2509",),
        models=("swiss-ai/Apertus-8B-Instruct-2509", "swiss-ai/Apertus-70B-Instruct-2509"),
        reasoning=(
            Reasoning("<|inner_prefix|>", "<|inner_suffix|>", recurs=True, holds_calls=True, closes_last=False),
        ),
        calls=JsonCalls(
            open=("<|tools_prefix|>",),
            close=("<|tools_suffix|>",),
            written_list=_INLINE,
            name_is_key=True,
        ),
        turns=("<|assistant_start|>",),
        stops=("<|assistant_end|>",),
        engine_names={"vllm": ("apertus",), "sglang": ("apertus2509",)},
        source="chat template of swiss-ai/Apertus-8B-Instruct-2509",
    ),
    Format(
        name="ernie45",
        summary="hermes calls, content in <response>, after reasoning in <think>, which the prompt opens",
        models=("baidu/ERNIE-4.5-21B-A3B-Thinking",),
        reasoning=(THINK,),
        frames=(Frame("<response>", "</response>", open_pad="\n", close_pad="\n", after="\n"),),
        calls=JsonCalls(open=("<tool_call>",), close=("</tool_call>",), body_pad="\n", body_end="\n"),
        between_calls="\n",
        calls_end="\n",
        before_call="\n",
        start="<think>\n",
        stops=("</s>",),
        engine_names={"vllm": ("ernie45",)},
        source="chat template of baidu/ERNIE-4.5-21B-A3B-Thinking",
    ),
    Format(
        name="trinity",
        summary="hermes calls, which may stand inside <think>",
        models=("arcee-ai/Trinity-Mini",),
        reasoning=(
            Reasoning("<think>", "</think>", open_pad="\n", close_pad="\n", after="\n\n", holds_calls=True),
        ),
        calls=JsonCalls(open=("<tool_call>",), close=("</tool_call>",), body_pad="\n", body_end="\n"),
        between_calls="\n",
        before_call="\n",
        turns=("<|im_start|>assistant\n",),
        stops=("<|im_end|>",),
        engine_names={"sglang": ("trinity",)},
        source="chat template of arcee-ai/Trinity-Mini",
    ),
)
