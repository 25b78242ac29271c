"""Gemma 4 and FunctionGemma: relaxed JSON with a quote token; Gemma 4 reasons in a labelled channel."""

from dataclasses import replace

from unspool.parsing.declaration import Format, NamedCalls, Reasoning, RelaxedArguments, map_strings

_THOUGHT = Reasoning(
    "<|channel>thought", "<channel|>", open_pad="\n", close_pad="\n", recurs=True, ends_at_call=True
)
_CALLS = NamedCalls(
    open="<|tool_call>",
    header_stops=("{", "<tool_call|>"),
    close="<tool_call|>",
    arguments=RelaxedArguments('<|"|>'),
    prefixes=("call:", ":"),
    written_header="call:{name}",
)

FORMATS = (
    Format(
        name="gemma4",
        summary='<|tool_call>call:NAME{key:<|"|>text<|"|>}; reasoning in <|channel>thought',
        aliases=("gemma_4",),
        models=("google/gemma-4-31B-it", "google/gemma-4-E4B-it"),
        # Some outputs leave the label out.
        reasoning=(_THOUGHT, replace(_THOUGHT, open="<|channel>")),
        calls=_CALLS,
        turns=("<|turn>model\n", "<tool_response|>"),
        calls_first=True,
        stops=("<turn|>", "<|tool_response>", "<eos>"),
        next_turns=("<|turn>",),
        engine_names={
            "vllm": ("gemma4",),
            "sglang": ("gemma4",),
            "vllm-mlx": ("gemma4",),
            "mlx-lm": ("gemma4",),
            "dynamo": ("gemma4",),
            "ollama": ("gemma4", "gemma4-no-thinking"),
            "canitoolcall": ("gemma4",),
        },
        source="chat template of google/gemma-4-31B-it",
        quirks=(
            "enable_thinking is off by default. Off, the prompt of the large models ends with an empty thought "
            "channel, that of the E models with nothing: pass prompt=.",
            "Thought channels recur between calls and tool responses of one turn.",
            'All markers, the quote <|"|> too, are special tokens: decode with skip_special_tokens=False or pass '
            "token ids.",
            "Plain quotes, a missing call: and any letters in keys are read.",
        ),
        disagreements=(
            "Numbers and null without a schema, also nested: text in vLLM; typed in SGLang, Transformers and "
            "unspool.",
            "Keys with spaces or hyphens fail in the checkpoint's response template.",
            "A missing closing quote: Ollama mends it; parentheses: vLLM reads them. For unspool both are "
            "content.",
            "Text behind the calls: vLLM and SGLang drop it in whole answers and keep it when streaming.",
        ),
    ),
    Format(
        name="functiongemma",
        summary="the calls of gemma4 with <escape> as the quote token; no reasoning",
        aliases=("function_gemma",),
        models=("google/functiongemma-270m-it",),
        calls=map_strings(
            _CALLS,
            {"<|tool_call>": "<start_function_call>", "<tool_call|>": "<end_function_call>", '<|"|>': "<escape>"},
        ),
        turns=("<start_of_turn>model\n",),
        stops=("<start_function_response>", "<end_of_turn>"),
        evidence=("<start_function_call>",),
        engine_names={
            "vllm": ("functiongemma",),
            "mlx-lm": ("function_gemma",),
            "ollama": ("functiongemma",),
        },
        source="chat template of google/functiongemma-270m-it",
        quirks=(
            "Both quotes are the same special token: decode with skip_special_tokens=False or pass token ids.",
        ),
        disagreements=(
            "vLLM loses numbers, lists and objects, and makes a number of the text 3; Ollama, mlx-lm and unspool "
            "read all of them.",
        ),
    ),
)
