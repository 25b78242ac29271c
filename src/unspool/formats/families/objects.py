"""Families that write one JSON object a call behind markers of their own."""

from dataclasses import replace

from unspool.formats.families.glm import GLM_CALLS
from unspool.formats.families.hermes import CHATML_STOPS, CHATML_TURNS, HERMES_CALLS, THINK
from unspool.parsing.declaration import Format, JsonCalls, Reasoning, TaggedCalls, map_strings

_GLM_TAGS = ("tool_call", "arg_key", "arg_value")


def _longcat_elements() -> TaggedCalls:
    """The body of GLM's calls in LongCat's tags, which the same models write as well."""
    tags = {f"{start}{tag}>": f"{start}longcat_{tag}>" for start in ("<", "</") for tag in _GLM_TAGS}
    return map_strings(GLM_CALLS, tags)


_MESSAGES = tuple(f"<|message_sep|>{space}function call<|role_sep|>" for space in ("\n\n", "\n", ""))

_GIGACHAT3 = Format(
    name="gigachat3",
    summary="a message 'function call' with one JSON object, or the object after <|function_call|>",
    aliases=("gigachat",),
    models=("ai-sage/GigaChat3-10B-A1.8B", "ai-sage/GigaChat3-702B-A36B-preview"),
    calls=JsonCalls(open=(*_MESSAGES, "<|function_call|>"), body_pad="\n"),
    stops=("</s>", "<|message_sep|>"),
    evidence=("<|role_sep|>", "<|message_sep|>", "function call"),
    engine_names={"vllm": ("gigachat3",), "sglang": ("gigachat3",)},
    source="chat template of ai-sage/GigaChat3-10B-A1.8B",
    quirks=(
        "A turn has one call. The markers are special tokens: decode with skip_special_tokens=False or pass "
        "token ids.",
        "The words 'function call' between two special tokens belong to the marker.",
        "<|message_sep|> ends a turn unless a call's message follows.",
    ),
    disagreements=("A call that comes in one chunk loses its arguments in vLLM and SGLang.",),
)

FORMATS = (
    Format(
        name="longcat",
        summary="one JSON object in <longcat_tool_call> tags a call; reasoning in <longcat_think>",
        aliases=("longcat_flash",),
        models=("meituan-longcat/LongCat-Flash-Chat", "meituan-longcat/LongCat-Flash-Thinking"),
        reasoning=(Reasoning("<longcat_think>", "</longcat_think>", ends_at_call=True),),
        calls=map_strings(HERMES_CALLS, {"tool_call>": "longcat_tool_call>"}),
        also=(_longcat_elements(),),
        before_call="\n",
        between_calls="\n",
        stops=("</longcat_s>",),
        engine_names={"vllm": ("longcat",), "mlx-lm": ("longcat",)},
        source="chat template of meituan-longcat/LongCat-Flash-Chat",
        quirks=(
            "The same tags may hold GLM's key and value elements instead of JSON; both are read.",
            "The tags are added tokens: decode with skip_special_tokens=False.",
        ),
        disagreements=(
            "vLLM's longcat knows only the JSON body, mlx-lm both. No engine has a reasoning parser for "
            "<longcat_think>.",
        ),
    ),
    Format(
        name="internlm",
        summary="one JSON object between <|action_start|><|plugin|> and <|action_end|> a call",
        aliases=("internlm2", "interns1", "intern_s1"),
        models=("internlm/Intern-S1", "internlm/Intern-S1-mini", "internlm/internlm2_5-7b-chat"),
        reasoning=(THINK,),
        calls=JsonCalls(
            open=(
                "<|action_start|><|plugin|>",
                "<|action_start|> <|plugin|>",
                "<|action_start|>\n<|plugin|>",
            ),
            close=("<|action_end|>",),
            body_pad="\n",
            arguments_keys=("parameters", "arguments"),
        ),
        turns=CHATML_TURNS,
        stops=CHATML_STOPS,
        between_calls="\n",
        engine_names={"vllm": ("internlm",), "sglang": ("interns1",)},
        source="chat template of internlm/Intern-S1",
        quirks=(
            "Some decoders put a space between the two special tokens, and a newline is read too.",
            "The interpreter block of InternLM2 (code) is content.",
            "All markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
        ),
        disagreements=(
            "SGLang needs that space, vLLM needs it missing.",
            "Several calls: vLLM fails on them, SGLang and unspool give all.",
        ),
    ),
    _GIGACHAT3,
    replace(
        _GIGACHAT3,
        name="gigachat31",
        summary="one JSON object after <|function_call|>",
        aliases=("gigachat_3.1",),
        models=(),
        calls=JsonCalls(open=("<|function_call|>", *_MESSAGES)),
        evidence=("<|role_sep|>", "<|message_sep|>", "function call", "<|function_call|>"),
        engine_names={},
        source="parser tests of vLLM 0.33 for GigaChat 3.1",
        quirks=(
            "The message notation of gigachat3 is read as well.",
            "The marker is a special token: decode with skip_special_tokens=False or pass token ids.",
        ),
    ),
    Format(
        name="rwkv",
        summary="'**Tool Call:**' and one JSON object in a code fence a call",
        aliases=("rwkv7",),
        calls=JsonCalls(
            open=(
                "**Tool Call:**\n```json",
                "**Tool Call:**\n\n```json",
                "**Tool Call:** ```json",
                "**Tool Call:**```json",
                "**Tool Call:**\n```",
            ),
            close=("```",),
            body_pad="\n",
            body_end="\n",
        ),
        also=(JsonCalls(open=("<tool_call>",), close=("</tool_call>",)),),
        before_call="\n",
        between_calls="\n",
        source="parser that RWKV-7 G1 is served with",
        quirks=(
            "Older outputs have <tool_call> and an object on one line, the closer missing; that is read.",
            "A Python dict in place of JSON is content.",
        ),
        disagreements=("The parser the model is served with reads a Python dict, too.",),
    ),
)
