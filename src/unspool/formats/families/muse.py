"""Muse Spark and Muse Glimmer: messages to a recipient, calls as ATEM elements."""

from dataclasses import replace

from unspool.formats.families.invoke import invoke
from unspool.parsing.declaration import ChannelCalls, ChannelLayout, Format

_CHANNELS = ChannelCalls(
    start="<|start|>",
    message="<|message|>",
    ends=("<|eom|>", "<|eot|>", "<|end_of_text|>"),
    routed_by="recipient",
    reasoning=("self",),
    content=("user", "commentary"),
    dropped=("developer",),
    unnamed="reasoning",
    body=replace(invoke("atem:function_calls", "atem:"), qualified=True),
    written=ChannelLayout(
        reasoning=" to=self<|message|>",
        content=" to=user<|message|>",
        preamble=" to=commentary<|message|>",
        call=" to={name}<|message|>",
        next="<|start|>assistant",
        end="<|eom|>",
        call_end="<|eom|>",
        last="<|eot|>",
        last_call="<|eot|>",
    ),
)

_SPARK = Format(
    name="muse",
    summary="messages to a recipient: self is reasoning, user content, a tool gets ATEM elements",
    aliases=("musespark1x", "muse_spark", "atem"),
    calls=_CHANNELS,
    turns=("<|start|>assistant",),
    stops=("<|eot|>", "<|end_of_text|>"),
    by_name_only=True,
    engine_names={"vllm": ("muse", "musespark1x"), "sglang": ("muse",), "mlx-lm": ("muse_spark",)},
    source="the parsers of vLLM, SGLang and mlx-lm",
    quirks=(
        "A message without a recipient is reasoning, one to the developer is dropped.",
        "Calls written in a message to self or user are text. A doubled name or a namespace fits an offered tool "
        "without it.",
    ),
)

FORMATS = (
    _SPARK,
    replace(
        _SPARK,
        name="muse_glimmer",
        summary="the messages of muse; one without a recipient is content, as is one that is not all ATEM",
        aliases=("glimmer",),
        calls=replace(_CHANNELS, unnamed="content", calls_in_content=True),
        by_name_only=False,
        evidence=("<|start|>", "<|message|>", "<atem:function_calls>"),
        engine_names={"vllm": ("muse_glimmer",), "ollama": ("glimmer",)},
        source="chat template and response_template of the checkpoint",
        quirks=(
            "A message without a recipient is content.",
            "A content message that is nothing but calls to offered tools is calls; with other text in it, it is "
            "content.",
        ),
        disagreements=("Ollama makes the same exception for content messages.",),
    ),
)
