"""Families that write calls as Python between markers: statements on lines, or a list."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK, CHATML_STOPS, CHATML_TURNS
from unspool.parsing.declaration import Format, JsonCalls, PythonCalls, Reasoning

_LIST = PythonCalls(
    open=("<|tool_call_start|>",),
    close=("<|tool_call_end|>",),
    quote="'",
    json_containers=True,
    loose_quotes=True,
)

_OLMO3 = Format(
    name="olmo3",
    summary="Python calls on lines in <function_calls>, after reasoning in <think>, which the prompt opens",
    aliases=("olmo3_think", "olmo_3", "olmo_3.1", "olmo3.1"),
    models=("allenai/Olmo-3-7B-Think", "allenai/Olmo-3-32B-Think"),
    reasoning=(BARE_THINK,),
    calls=PythonCalls(open=("<function_calls>",), close=("</function_calls>",), statements=True),
    turns=CHATML_TURNS,
    start="<think>",
    stops=CHATML_STOPS,
    between_calls="\n",
    engine_names={"vllm": ("olmo3",), "ollama": ("olmo3-think",)},
    source="chat template of allenai/Olmo-3-7B-Think",
    quirks=(
        "The prompt ends with <think>. The tags are ordinary text of several tokens.",
        "Calls are statements, not lines: a string may hold a newline. true and null are read beside True and "
        "None.",
    ),
    disagreements=("A newline in a string breaks parsers that split by lines; unspool's does not.",),
)

FORMATS = (
    _OLMO3,
    replace(
        _OLMO3,
        name="olmo3_instruct",
        summary="Python calls on lines in <function_calls>",
        aliases=(),
        models=("allenai/Olmo-3-7B-Instruct",),
        start="",
        engine_names={"ollama": ("olmo3",)},
        source="chat template of allenai/Olmo-3-7B-Instruct",
        quirks=(
            "The tags are ordinary text of several tokens; text may stand before and behind them.",
            "Calls are statements, not lines: a string may hold a newline. true and null are read beside True "
            "and None.",
        ),
    ),
    Format(
        name="lfm2",
        summary="a Python list of calls between <|tool_call_start|> and <|tool_call_end|>; reasoning in <think>",
        aliases=("lfm2.5", "lfm2_thinking"),
        models=("LiquidAI/LFM2-1.2B", "LiquidAI/LFM2-8B-A1B", "LiquidAI/LFM2.5-1.2B-Thinking"),
        reasoning=(BARE_THINK,),
        calls=_LIST,
        also=(
            JsonCalls(open=("<|tool_call_start|>",), close=("<|tool_call_end|>",)),
            PythonCalls(bare=True, loose_quotes=True),
        ),
        turns=CHATML_TURNS,
        stops=CHATML_STOPS,
        between_calls=", ",
        engine_names={
            "vllm": ("lfm2",),
            "sglang": ("lfm2",),
            "ollama": ("lfm2", "lfm2-thinking"),
        },
        source="chat template of LiquidAI/LFM2.5-1.2B-Thinking",
        quirks=(
            "The markers are special tokens: decode with skip_special_tokens=False or pass token ids. The model "
            "writes <think> itself, or not.",
            "Newer templates write strings without escaping: a quote ends one only where the call can go on.",
            "A JSON list between the markers, and a bare list of offered tools, are read. A repetition of the "
            "call behind its closer is content.",
        ),
        disagreements=(
            "'it's' as a value: vLLM gives the text or invalid JSON, SGLang nothing.",
            "TRL's response template reads at most three levels of nesting.",
        ),
    ),
    Format(
        name="minicpm3",
        summary="Python calls on lines, in a code fence between markers, before the content",
        models=("openbmb/MiniCPM3-4B",),
        reasoning=(Reasoning("<|thought_start|>", "<|thought_end|>", open_pad="\n", close_pad="\n", after="\n"),),
        calls=PythonCalls(
            open=("<|tool_call_start|>",), close=("<|tool_call_end|>",), statements=True, fence="python"
        ),
        turns=CHATML_TURNS,
        stops=CHATML_STOPS,
        between_calls="\n",
        calls_first=True,
        calls_end="\n",
        evidence=("<|tool_call_start|>", "<|thought_start|>"),
        engine_names={"bfcl": ("minicpm_fc",)},
        source="chat template of openbmb/MiniCPM3-4B",
        quirks=("Calls stand before the content. The code fence may be missing.",),
        disagreements=("Only BFCL has a reader for it.",),
    ),
)
