"""Families that write all calls of a turn as one JSON list between two markers."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK, CHATML_TURNS, HERMES_CALLS, THINK
from unspool.parsing.declaration import Format, Frame, JsonCalls, Reasoning

ON_LINES = ("[\n    ", ",\n    ", "\n]")
INLINE = ("[", ", ", "]")

_LISTED = JsonCalls(open=("<tool_calls>",), close=("</tool_calls>",), written_list=INLINE)

_APRIEL = Format(
    name="apriel",
    summary="a JSON list of calls in <tool_calls>; reasoning from a phrase to [BEGIN FINAL RESPONSE]",
    aliases=("apriel_1.6",),
    models=("ServiceNow-AI/Apriel-1.6-15b-Thinker", "ServiceNow-AI/Apriel-Nemotron-15b-Thinker"),
    reasoning=(
        Reasoning(
            "Here are my reasoning steps:",
            "[BEGIN FINAL RESPONSE]",
            open_pad="\n",
            close_pad="\n",
            after="\n",
            ends_at_call=True,
        ),
    ),
    frames=(Frame("", "[END FINAL RESPONSE]", close_pad="\n", written="never"),),
    calls=_LISTED,
    turns=("<|begin_assistant|>\n", "<|assistant|>\n"),
    start="Here are my reasoning steps:\n",
    stops=("<|end|>",),
    before_call="\n",
    before_call_alone="\n",
    evidence=("<tool_calls>", "[BEGIN FINAL RESPONSE]"),
    source="chat template of ServiceNow-AI/Apriel-1.6-15b-Thinker",
    quirks=(
        "1.5 writes the opening phrase itself, in 1.6 the prompt ends with it; calls follow the closing phrase.",
        "1.5 may close content with [END FINAL RESPONSE] and give calls an id; neither is part of the message.",
        "The phrases are ordinary text.",
    ),
    disagreements=(
        "llama.cpp reads it with a workaround in its automatic parser; vLLM needs a third party's plug-in.",
    ),
)

FORMATS = (
    Format(
        name="jamba",
        summary="a JSON list of calls in <tool_calls>, one a line",
        models=("ai21labs/AI21-Jamba-Large-1.5", "ai21labs/AI21-Jamba-Mini-1.5"),
        calls=replace(_LISTED, written_list=ON_LINES),
        turns=("<|assistant|>",),
        stops=("<|eom|>", "<|endoftext|>"),
        lead_accepts=" ",
        evidence=("<tool_calls>", "<|bom|>"),
        engine_names={"vllm": ("jamba",), "dynamo": ("jamba",)},
        source="chat template of ai21labs/AI21-Jamba-Large-1.5",
        quirks=(
            "The tags are special tokens: decode with skip_special_tokens=False or pass token ids.",
            "A list without the tags is content.",
        ),
        disagreements=(
            "vLLM searches for </tool_calls> without regard to JSON strings, and writes corrupt arguments when "
            "streaming.",
        ),
    ),
    Format(
        name="hunyuan_a13b",
        summary="a JSON list of calls in <tool_calls>, inside <answer>; reasoning in <think>",
        models=("tencent/Hunyuan-A13B-Instruct",),
        reasoning=(replace(THINK, after="\n", ends_at_call=False),),
        frames=(
            Frame("<answer>", "</answer>", open_pad="\n", close_pad="\n", written="always", holds_calls=True),
        ),
        calls=_LISTED,
        before_call="\n",
        evidence=("<tool_calls>", "<answer>"),
        engine_names={"vllm": ("hunyuan_a13b",)},
        source="chat template of tencent/Hunyuan-A13B-Instruct",
        quirks=(
            "The model writes <think> itself; with enable_thinking=False or /no_think it writes an empty block.",
            "All markers are ordinary text of several tokens. Calls inside <think> are reasoning.",
            "Calls may stand inside <answer> or behind it; arguments may be a JSON string.",
            "Some outputs begin with a role prefix in Chinese; unspool takes all of such an output for content.",
        ),
        disagreements=("vLLM strips that prefix, and matches the markers as token sequences.",),
    ),
    Format(
        name="apertus",
        summary="a JSON list in <|tools_prefix|>, the name as an object's only key; calls stand inside reasoning",
        aliases=("apertus2509",),
        models=("swiss-ai/Apertus-8B-Instruct-2509", "swiss-ai/Apertus-70B-Instruct-2509"),
        reasoning=(
            Reasoning("<|inner_prefix|>", "<|inner_suffix|>", recurs=True, holds_calls=True, closes_last=False),
        ),
        calls=JsonCalls(
            open=("<|tools_prefix|>",),
            close=("<|tools_suffix|>",),
            written_list=INLINE,
            name_is_key=True,
        ),
        turns=("<|assistant_start|>",),
        stops=("<|assistant_end|>",),
        engine_names={"vllm": ("apertus",), "sglang": ("apertus2509",)},
        source="chat template of swiss-ai/Apertus-8B-Instruct-2509",
        quirks=(
            "Deliberation is off unless the developer message asks for it (enable_thinking).",
            "Calls may stand inside the inner region; the reasoning goes on behind them.",
            "All four markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
        ),
        disagreements=("vLLM reads only the calls; SGLang and unspool give the text around them as reasoning.",),
    ),
    Format(
        name="ernie45",
        summary="hermes calls, content in <response>, after reasoning in <think>, which the prompt opens",
        aliases=("ernie", "ernie_4.5", "ernie4.5"),
        models=("baidu/ERNIE-4.5-21B-A3B-Thinking",),
        reasoning=(THINK,),
        frames=(Frame("<response>", "</response>", open_pad="\n", close_pad="\n", after="\n"),),
        calls=HERMES_CALLS,
        between_calls="\n",
        calls_end="\n",
        before_call="\n",
        start="<think>\n",
        stops=("</s>",),
        evidence=("<tool_call>", "\n</response>\n"),
        engine_names={"vllm": ("ernie45",)},
        source="chat template of baidu/ERNIE-4.5-21B-A3B-Thinking",
        quirks=(
            "These checkpoints always think: the prompt ends with <think>.",
            "Content may come without <response>; calls stand outside of it.",
        ),
        disagreements=(
            "vLLM closes a call at the first brace and tag even inside a JSON string; unspool reads the JSON.",
        ),
    ),
    Format(
        name="trinity",
        summary="hermes calls, which may stand inside <think>",
        models=("arcee-ai/Trinity-Mini",),
        reasoning=(replace(THINK, ends_at_call=False, holds_calls=True),),
        calls=HERMES_CALLS,
        between_calls="\n",
        before_call="\n",
        turns=CHATML_TURNS[:1],
        stops=("<|im_end|>",),
        by_name_only=True,
        engine_names={"sglang": ("trinity",)},
        source="chat template of arcee-ai/Trinity-Mini",
        quirks=("Calls inside <think> are given as calls; the text around them stays reasoning.",),
        disagreements=(
            "SGLang deletes the think tags before it looks for calls, so reasoning around them becomes content; "
            "with a reasoning parser it misses the calls.",
            "vLLM has no parser of its own; hermes with a reasoning parser misses calls inside <think>.",
        ),
    ),
    Format(
        name="nemotron_nano_v2",
        summary="a JSON list of calls in <TOOLCALL>, after reasoning in <think>, which the prompt opens",
        aliases=("nemotron_2", "nemotron2", "nemotron_deci", "llama_nemotron_super"),
        models=("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5"),
        reasoning=(replace(THINK, open_pad="\n\n", after_prompt=""),),
        calls=JsonCalls(open=("<TOOLCALL>",), close=("</TOOLCALL>",), written_list=INLINE),
        turns=("<SPECIAL_11>Assistant\n",),
        start="<think>\n\n",
        stops=("<SPECIAL_12>", "<|eot_id|>"),
        before_call="\n\n",
        engine_names={"dynamo": ("nemotron_deci",), "vllm-mlx": ("nemotron",)},
        source="chat template of nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        quirks=(
            "/think, /no_think or 'detailed thinking on' in the system prompt switch it; off, the prompt ends "
            "with <think></think>.",
            "Arguments often come as a JSON string; they are read as the object in it.",
            "Markers are ordinary text.",
        ),
        disagreements=("vLLM has no parser for it: NVIDIA ships a plug-in.",),
    ),
    _APRIEL,
    replace(
        _APRIEL,
        name="apriel_15",
        summary="apriel, but the model writes the phrase that opens the reasoning itself",
        aliases=("apriel_1.5",),
        models=("ServiceNow-AI/Apriel-1.5-15b-Thinker",),
        turns=("<|assistant|>\n",),
        start="",
        evidence=("<tool_calls>", "<tool_call>", "[BEGIN FINAL RESPONSE]"),
        source="chat template of ServiceNow-AI/Apriel-1.5-15b-Thinker",
    ),
    Format(
        name="openpangu",
        summary="a JSON list between <|tool_call_start|> and <|tool_call_end|>, or [unused11] and [unused12]",
        aliases=("pangu", "openpangu_v2"),
        reasoning=(
            BARE_THINK,
            Reasoning("[unused16]", "[unused17]", ends_at_call=True),
        ),
        calls=JsonCalls(
            open=("<|tool_call_start|>", "[unused11]"),
            close=("<|tool_call_end|>", "[unused12]"),
            written_list=INLINE,
        ),
        turns=("[unused9]助手：",),
        evidence=("[unused9]", "[unused10]"),
        engine_names={"vllm": ("pangu", "openpangu_v2")},
        source="parsers that the vLLM forks of the vendor have",
        quirks=(
            "Older vocabularies call the same tokens [unused11], [unused12] and, for reasoning, [unused16], "
            "[unused17].",
            "LFM2 has the same tokens around its calls, with Python inside.",
        ),
        disagreements=("Neither vLLM nor SGLang has a parser for it; the vendor's plug-ins do.",),
    ),
    Format(
        name="minimax_m1",
        summary="one JSON object a line in <tool_calls>; calls drafted in <think> are reasoning",
        models=("MiniMaxAI/MiniMax-M1-80k", "MiniMaxAI/MiniMax-M1-40k"),
        reasoning=(replace(THINK, recurs=True, ends_at_call=False),),
        calls=replace(
            _LISTED,
            body_pad="\n",
            body_end="\n",
            written_list=("", "\n", ""),
            # A model that closes an object once too often goes on with the next.
            separators=",;}",
        ),
        evidence=("<tool_calls>", "<beginning_of_sentence>ai name=assistant"),
        engine_names={"vllm": ("minimax",)},
        source="function call guide of MiniMaxAI/MiniMax-M1-80k",
        quirks=(
            "One JSON object a line, not a list; one closing brace too many is dropped.",
            "Calls inside <think> are drafts and stay reasoning.",
        ),
        disagreements=("vLLM had a parser named minimax for it and has none now; llama.cpp has none.",),
    ),
)
