"""Inkling: typed blocks; the marker that ends a block's header says what it is."""

from unspool.parsing.declaration import ChannelCalls, ChannelLayout, Format, JsonCalls

FORMATS = (
    Format(
        name="inkling",
        summary="blocks of <|content_thinking|>, <|content_text|> and <|content_invoke_tool_json|>",
        calls=ChannelCalls(
            start="<|message_model|>",
            role="",
            ends=("<|end_message|>", "<|content_model_end_sampling|>"),
            routed_by="marker",
            named=True,
            reasoning=("<|content_thinking|>",),
            content=("<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>"),
            calls=("<|content_invoke_tool_json|>",),
            body=JsonCalls(arguments_keys=("args", "arguments", "parameters", "input"), compact=True),
            written=ChannelLayout(
                reasoning="<|content_thinking|>",
                content="<|content_text|>",
                preamble="<|content_text|>",
                call="{name}<|content_invoke_tool_json|>",
                next="<|message_model|>",
                end="<|end_message|>",
                call_end="<|end_message|>",
                last="<|end_message|><|content_model_end_sampling|>",
                last_call="<|end_message|><|content_model_end_sampling|>",
            ),
        ),
        turns=("<|message_model|>",),
        stops=("<|content_model_end_sampling|>",),
        evidence=("<|content_invoke_tool_json|>",),
        engine_names={"vllm": ("inkling",), "sglang": ("inkling",), "smg": ("inkling",)},
        source="the parsers of vLLM, SGLang and llama.cpp",
        quirks=(
            "All markers are special tokens: decode with skip_special_tokens=False or pass token ids. There is "
            "no chat template in Jinja.",
            "Blocks come in any order and recur. Text calls and tool errors are content.",
            "The name before a call's marker repeats that in the JSON; the latter counts.",
        ),
        disagreements=("SGLang leaks the name before the marker into the content when there is no reasoning.",),
    ),
)
