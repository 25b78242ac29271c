"""gpt-oss (Harmony messages), and LLM-jp-4 and Beam, which write dialects of them."""

from dataclasses import replace

from unspool.parsing.declaration import ChannelCalls, ChannelLayout, Format, TaggedCalls, TaggedLayout, map_strings

_STOPS = ("<|return|>", "<|call|>", "<|endoftext|>")

_HARMONY = ChannelCalls(
    start="<|start|>",
    channel="<|channel|>",
    constrain="<|constrain|>",
    message="<|message|>",
    ends=("<|end|>", "<|call|>", "<|return|>", "<|endoftext|>"),
    reasoning=("analysis",),
    functions="functions.",
    written=ChannelLayout(
        reasoning="<|channel|>analysis<|message|>",
        content="<|channel|>final<|message|>",
        preamble="<|channel|>commentary<|message|>",
        call=" to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>",
        next="<|start|>assistant",
        end="<|end|>",
        call_end="<|call|>",
    ),
)

_SPACED = {
    "<|start|>": "<|start|> ",
    "<|channel|>": "<|channel|> ",
    "<|constrain|>": "<|constrain|>  ",
    "<|message|>": "<|message|> ",
}

FORMATS = (
    Format(
        name="gpt_oss",
        summary="Harmony messages: analysis is reasoning, final and commentary are content, functions.X a call",
        aliases=("harmony", "openai", "openai_gptoss"),
        models=("openai/gpt-oss-20b", "openai/gpt-oss-120b"),
        calls=_HARMONY,
        turns=("<|start|>assistant",),
        stops=_STOPS,
        engine_names={
            "vllm": ("openai", "openai_gptoss"),
            "sglang": ("gpt-oss",),
            "vllm-mlx": ("harmony", "gpt-oss"),
            "dynamo": ("harmony", "gpt_oss"),
            "ollama": ("harmony",),
            "canitoolcall": ("gpt-oss",),
        },
        source="openai/gpt-oss-20b and the openai-harmony library's documentation",
        quirks=(
            "Every marker is a special token: decode with skip_special_tokens=False or pass token ids.",
            "The recipient may stand in the role or the channel part, on any channel; the type after it may be "
            "missing.",
            "<|call|> and <|return|> end a turn, <|end|> only a message. Several analysis messages are joined "
            "without anything between.",
            "Messages to python or browser are dropped; an unknown channel is content.",
        ),
        disagreements=(
            "A recipient in the role part, as the official renderer writes it: SGLang loses the call.",
            "Several analysis messages: vLLM joins them with a newline in whole answers, with nothing when "
            "streaming.",
        ),
    ),
    Format(
        name="llmjp4",
        summary="Harmony messages with a space after each special token",
        aliases=("llm_jp_4", "llm_jp_4.1", "llmjp4.1"),
        models=("llm-jp/llm-jp-4-8b-thinking",),
        calls=replace(
            _HARMONY,
            spaced=True,
            written=replace(map_strings(_HARMONY.written, _SPACED), call_end="<|end|>"),
        ),
        turns=("<|start|>assistant", "<|start|> assistant"),
        stops=_STOPS,
        evidence=("<|start|>", "<|channel|>", "<|message|>", "LLM-jp"),
        source="recorded outputs of LLM-jp-4 and Ollama's and llama.cpp's handlers of it",
        quirks=(
            "A space follows each special token; it may be missing.",
            "Parallel calls are messages of their own, ended by <|end|>.",
        ),
    ),
    Format(
        name="beam",
        summary="Harmony messages whose recipient is the tool and whose body is <rfl:parameter> elements",
        calls=replace(
            _HARMONY,
            functions="",
            body=TaggedCalls(
                call_open=(),
                header_end=(),
                param_open=("<rfl:parameter",),
                key_end=(">",),
                value_close=("</rfl:parameter>",),
                call_close=(),
                key_attribute="name",
                value_pad="\n",
                written=TaggedLayout(key=' name="{key}"'),
            ),
            written=replace(
                _HARMONY.written,
                call=" to={name}<|channel|>analysis <|constrain|>xml<|message|>",
                call_end="<|end|>",
                last="<|return|>",
                last_call="<|call|>",
            ),
        ),
        turns=("<|start|>assistant",),
        stops=_STOPS,
        engine_names={"vllm": ("beam",), "sglang": ("beam",)},
        source="the checkpoint's response_template, as vLLM and SGLang read it",
        quirks=(
            "A value's closer may be missing before the next parameter.",
            "Final content may end with any terminator.",
        ),
        disagreements=(
            "A tool that was not offered: vLLM rejects the call, unspool passes it on.",
            "vLLM needs the checkpoint's response template, SGLang has one built in.",
        ),
    ),
)
