"""gpt-oss: the Harmony message format."""

from unspool.parsing.declaration import ChannelCalls, Format

FORMATS = (
    Format(
        name="gpt_oss",
        summary="Harmony messages: analysis is reasoning, final and commentary are content, functions.X a call",
        aliases=("harmony", "openai", "openai_gptoss"),
        models=("openai/gpt-oss-20b", "openai/gpt-oss-120b"),
        calls=ChannelCalls(
            start="<|start|>",
            channel="<|channel|>",
            constrain="<|constrain|>",
            message="<|message|>",
            ends=("<|end|>", "<|call|>", "<|return|>", "<|endoftext|>"),
            reasoning_channels=("analysis",),
        ),
        turns=("<|start|>assistant",),
        stops=("<|return|>", "<|call|>", "<|endoftext|>"),
        engine_names={
            "vllm": ("openai", "openai_gptoss"),
            "sglang": ("gpt-oss",),
            "vllm-mlx": ("harmony", "gpt-oss"),
            "dynamo": ("harmony", "gpt_oss"),
            "ollama": ("harmony",),
            "canitoolcall": ("gpt-oss",),
        },
        source="openai/gpt-oss-20b and the openai-harmony library's documentation",
    ),
)
