"""Solar Open: messages whose marker says what they are; all calls in one message, each with its id."""

from unspool.parsing.declaration import ChannelCalls, ChannelLayout, Format, NamedCalls

FORMATS = (
    Format(
        name="solar_open",
        summary="messages of <|think|>, <|content|> and <|tool_calls|>; a call is id, name and JSON arguments",
        aliases=("solar_open_100b",),
        models=("upstage/Solar-Open-100B",),
        calls=ChannelCalls(
            start="<|begin|>",
            ends=("<|end|>", "<|calls|>", "<|flush|>"),
            routed_by="marker",
            reasoning=("<|think|>",),
            content=("<|content|>",),
            calls=("<|tool_calls|>",),
            body=NamedCalls(
                open="<|tool_call:begin|>",
                header_ids=("<|tool_call:name|>",),
                id_size=10,
                header_end=("<|tool_call:args|>",),
                close="<|tool_call:end|>",
                written_header="{id}<|tool_call:name|>{name}<|tool_call:args|>",
            ),
            written=ChannelLayout(
                reasoning="<|think|>",
                content="<|content|>",
                preamble="<|content|>",
                call="<|tool_calls|>",
                next="<|begin|>assistant",
                end="<|end|>",
                last="<|end|>",
                last_call="<|calls|>",
                shared=True,
            ),
        ),
        turns=("<|begin|>assistant",),
        stops=("<|calls|>", "<|flush|>"),
        engine_names={"vllm": ("solar_open",)},
        source="chat template of upstage/Solar-Open-100B",
        quirks=(
            "The call's id on the wire has 10 letters or digits; unspool makes ids of its own.",
            "<|calls|> and <|flush|> end a turn, <|end|> only a message. Arguments that are no JSON object make "
            "the text content.",
        ),
        disagreements=("The plug-in tries JSON5 and Python when arguments are no JSON.",),
    ),
)
