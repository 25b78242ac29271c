"""Hermes, Qwen2.5, Qwen3: JSON calls in ``<tool_call>``, reasoning in ``<think>`` if there is any."""

from dataclasses import replace

from unspool.parsing.declaration import Format, JsonCalls, Reasoning

BARE_THINK = Reasoning("<think>", "</think>", ends_at_call=True)
THINK = replace(BARE_THINK, open_pad="\n", close_pad="\n", after="\n\n")
HERMES_CALLS = JsonCalls(open=("<tool_call>",), close=("</tool_call>",), body_pad="\n", body_end="\n")

CHATML_TURNS = ("<|im_start|>assistant\n", "<|im_start|>assistant")
CHATML_NEXT_TURNS = ("<|im_start|>",)
CHATML_STOPS = ("<|im_end|>", "<|endoftext|>")

_HERMES = Format(
    name="hermes",
    summary="one JSON object in <tool_call> tags a call; reasoning in <think>, optional",
    aliases=(
        *("qwen3", "qwen25", "qwen2_5", "qwen", "qwen3_instruct", "nous", "hermes_3", "hermes3", "hermes_4"),
        *("hermes4", "smollm3", "exaone4", "k_exaone", "falcon_h1", "motif", "ling2", "am_thinking"),
    ),
    models=(
        "Qwen/Qwen3-8B",
        "Qwen/Qwen2.5-7B-Instruct",
        "NousResearch/Hermes-3-Llama-3.1-8B",
        "NousResearch/Hermes-4-70B",
        "HuggingFaceTB/SmolLM3-3B",
        "LGAI-EXAONE/EXAONE-4.0-32B",
        "tiiuae/Falcon-H1-7B-Instruct",
        "inclusionAI/Ling-flash-2.0",
        "a-m-team/AM-Thinking-v1",
    ),
    reasoning=(THINK,),
    calls=HERMES_CALLS,
    turns=CHATML_TURNS,
    stops=CHATML_STOPS,
    next_turns=CHATML_NEXT_TURNS,
    before_call="\n",
    before_call_accepts=" \n ",
    between_calls="\n",
    engine_names={
        "vllm": ("hermes", "qwen3_json", "qwen3"),
        "sglang": ("hermes", "qwen", "qwen25", "qwen3"),
        "vllm-mlx": ("hermes", "nous", "qwen", "qwen3"),
        "mlx-lm": ("json_tools",),
        "ollama": ("qwen3", "qwen3-vl-instruct"),
        "dynamo": ("hermes", "qwen25"),
        "smg": ("qwen",),
        "canitoolcall": ("qwen3-hermes",),
    },
    source="chat templates of Qwen/Qwen3-8B and NousResearch/Hermes-3",
    quirks=(
        "Qwen3 writes <think> itself. enable_thinking=False puts an empty block into the prompt, /no_think makes "
        "the model write one; either way there is no reasoning.",
        "Hermes 3 has <tool_call> as a special token: decode with skip_special_tokens=False or pass token ids.",
        "Arguments as a JSON string, a list of calls in one pair of tags, and arguments before the name are read.",
        "The legacy <scratch_pad> of Hermes 2 is content.",
    ),
    disagreements=(
        "Text behind a call: vLLM's hermes and SGLang's qwen25 drop it; unspool keeps it as content.",
        "</tool_call> inside a JSON string: vLLM gives the whole output as content or, streamed, invalid "
        "arguments.",
        "SGLang's qwen25 needs the newline on both sides of the JSON; vLLM and unspool do not.",
    ),
)

FORMATS = (
    _HERMES,
    replace(
        _HERMES,
        name="qwen3_thinking",
        summary="hermes after reasoning in <think>, which the prompt opens",
        aliases=("qwq",),
        models=("Qwen/Qwen3-4B-Thinking-2507", "Qwen/QwQ-32B"),
        start="<think>\n",
        engine_names={"sglang": ("qwen3-thinking",), "ollama": ("qwen3-thinking", "qwen3-vl-thinking")},
        source="chat template of Qwen/Qwen3-4B-Thinking-2507",
        quirks=(
            "The prompt ends with <think>, so an output without </think> is all reasoning.",
            "Some models repeat the prompt's <think>; it is dropped once.",
        ),
        disagreements=(
            "A call inside reasoning that is never closed ends it in vLLM, SGLang and unspool.",
            "A mere mention of <tool_call> in reasoning: SGLang cuts there when streaming; unspool goes on "
            "reasoning.",
        ),
    ),
)
