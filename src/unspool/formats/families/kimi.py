"""Kimi K2 (a header with the call id, JSON arguments) and K3 (typed elements in channels)."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK
from unspool.parsing.declaration import Format, Frame, NamedCalls, Reasoning, TaggedCalls, TaggedLayout


def _open(name: str) -> str:
    return f"<|open|>{name}<|sep|>"


def _close(name: str) -> str:
    return f"<|close|>{name}<|sep|>"


_K2 = Format(
    name="kimi_k2",
    summary="special-token section, functions.NAME:INDEX and JSON arguments a call; reasoning in <think>",
    aliases=("kimi", "moonshot", "kimik2", "kimi_k2_instruct"),
    models=("moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2-Instruct-0905", "moonshotai/Kimi-K2-Thinking"),
    reasoning=(BARE_THINK,),
    calls=NamedCalls(
        section_open="<|tool_calls_section_begin|>",
        section_close="<|tool_calls_section_end|>",
        open="<|tool_call_begin|>",
        header_end=("<|tool_call_argument_begin|>",),
        close="<|tool_call_end|>",
        id_header=True,
        written_header="functions.{name}:{index}<|tool_call_argument_begin|>",
    ),
    turns=("<|im_assistant|>assistant<|im_middle|>",),
    stops=("<|im_end|>",),
    next_turns=("<|im_user|>", "<|im_assistant|>", "<|im_system|>"),
    engine_names={
        "vllm": ("kimi_k2",),
        "sglang": ("kimi_k2",),
        "vllm-mlx": ("kimi", "kimi_k2", "moonshot"),
        "mlx-lm": ("kimi_k2",),
        "dynamo": ("kimi_k2",),
        "smg": ("kimik2",),
        "canitoolcall": ("kimi",),
    },
    source="chat template of moonshotai/Kimi-K2-Instruct-0905",
    quirks=(
        "All five call markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
        "The number in functions.NAME:3 counts over the whole conversation; history needs the id as the model "
        "wrote it. unspool takes the name and makes ids of its own.",
        "Spaces around a header and a missing functions. are read. A bare number instead of the name is no call.",
        "An empty section gives no call and no text.",
    ),
    disagreements=(
        "<|tool_call_end|> inside a string: vLLM cuts the arguments there, SGLang and unspool do not.",
        "Text behind the section: vLLM and SGLang drop it.",
        "A bare number as id: SGLang guesses the tool by its arguments' names; dynamo also reads a singular "
        "section marker.",
    ),
)

FORMATS = (
    _K2,
    replace(
        _K2,
        name="kimi_k2_thinking",
        summary="the calls of kimi_k2 after reasoning in <think>, which the prompt opens",
        aliases=("kimi_k25", "kimi_k2.5", "kimi_k2.6", "kimi_k2.7"),
        models=("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.6"),
        start="<think>",
        engine_names={"dynamo": ("kimi_k25",)},
        source="chat template of moonshotai/Kimi-K2.6",
        quirks=(
            "K2.6's prompt ends with <think>, with thinking=False with <think></think>: pass prompt=.",
            "A section that opens in reasoning ends it; the mere marker does not.",
            "All call markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
        ),
        disagreements=(
            "A section marker mentioned in reasoning: vLLM cuts there and loses the rest, SGLang does so when "
            "streaming.",
        ),
    ),
    Format(
        name="kimi_k3",
        summary="channels of <|open|>NAME<|sep|>: think, response, tools with typed argument elements",
        aliases=("kimi3", "xtml"),
        models=("moonshotai/Kimi-K3",),
        reasoning=(
            Reasoning(
                _open("think"), _close("think"), ends_at=(_open("response"),), recurs=True, ends_at_call=True
            ),
        ),
        calls=TaggedCalls(
            section_open=(_open("tools"),),
            section_close=(_close("tools"),),
            call_open=("<|open|>call",),
            header_end=("<|sep|>",),
            param_open=("<|open|>argument",),
            key_end=("<|sep|>",),
            value_close=(_close("argument"),),
            call_close=(_close("call"),),
            name_attribute="tool",
            key_attribute="key",
            type_attribute="type",
            attribute_entities=True,
            whole_open="<|open|>json",
            whole_close=_close("json"),
            written=TaggedLayout(name=' tool="{name}" index="{number}"', key=' key="{key}"', types="kind"),
        ),
        turns=('<|open|>message role="assistant"<|sep|>',),
        start=_open("think"),
        stops=("<|end_of_msg|>", _close("message")),
        next_turns=("<|open|>message ",),
        turn_end=_close("message"),
        frames=(Frame(_open("response"), _close("response"), written="always"),),
        evidence=("<|open|>", "<|close|>", "<|sep|>"),
        engine_names={
            "vllm": ("kimi_k3",),
            "sglang": ("kimi_k3",),
            "mlx-lm": ("kimi_k3",),
            "smg": ("kimi_k3",),
        },
        source="encoding script of moonshotai/Kimi-K3",
        quirks=(
            "There is no chat template in Jinja. The prompt opens think, or response when thinking is off: pass "
            "prompt=.",
            "Marker letters inside a value can't be told from markers without ids: pass token ids. As text, "
            "decode with skip_special_tokens=False and spaces_between_special_tokens=False.",
            "A model may skip think or response, and give all arguments as one json element; all are read.",
            "Ids of K2's vocabulary mean other tokens here: use the checkpoint's own tokenizer.",
        ),
    ),
)
