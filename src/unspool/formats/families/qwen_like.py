"""Families that write the calls of Qwen3-Coder, with other wrappers, layout or reasoning."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK, CHATML_STOPS, CHATML_TURNS, THINK
from unspool.formats.families.qwen_xml import QWEN3_5, QWEN_XML
from unspool.parsing.declaration import Format, Reasoning, map_strings

_ELEMENTS = ("<tool_call>", "<function=", "<parameter=")

_NEMOTRON = Format(
    name="nemotron_v3",
    summary="the calls of qwen3_coder after reasoning in <think>, which the prompt opens; one newline behind it",
    aliases=("nemotron_3", "nemotron3", "nemotron_3_nano", "nemotron_nano_v3"),
    models=("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"),
    reasoning=(replace(THINK, after="\n", after_prompt=""),),
    calls=QWEN_XML,
    turns=CHATML_TURNS,
    start="<think>\n",
    stops=CHATML_STOPS,
    before_call="\n",
    between_calls="\n",
    calls_end="\n",
    evidence=(*_ELEMENTS, "truncate_history_thinking"),
    engine_names={
        "vllm": ("nemotron_v3",),
        "sglang": ("nemotron_3",),
        "dynamo": ("nemotron_nano", "nemotron3"),
        "ollama": ("nemotron-3-nano", "nemotron-3.5-nano"),
    },
    source="chat template of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    quirks=(
        "enable_thinking=False makes the prompt end with <think></think>: pass prompt=.",
        "Super and Ultra write no newlines around </think>; their outputs are read, too.",
    ),
    disagreements=(
        "force_nonempty_content: engines give the reasoning as content if there is none; unspool never does.",
    ),
)

FORMATS = (
    Format(
        name="mimo",
        summary="the calls of qwen3_coder, values inline and verbatim; reasoning in <think>",
        models=("XiaomiMiMo/MiMo-V2-Flash", "XiaomiMiMo/MiMo-7B-RL"),
        reasoning=(BARE_THINK,),
        calls=replace(QWEN_XML, value_pad=""),
        turns=CHATML_TURNS,
        stops=CHATML_STOPS,
        before_call="\n",
        between_calls="\n",
        evidence=(*_ELEMENTS, "keep_all_reasoning"),
        engine_names={"vllm": ("mimo",), "sglang": ("mimo",)},
        source="chat template of XiaomiMiMo/MiMo-V2-Flash",
        quirks=(
            "enable_thinking decides. Where the template opens <think> in the prompt, pass prompt=.",
            "Values have no newlines around them; whatever is there belongs to the value.",
        ),
        disagreements=(
            "SGLang turns &lt; in values into <; vLLM and unspool leave it.",
            "Thinking is on by default in vLLM, off in SGLang.",
        ),
    ),
    Format(
        name="seed_oss",
        summary="the calls of qwen3_coder in <seed:tool_call>, values inline and as Python; <seed:think>",
        aliases=("seedoss", "seed"),
        models=("ByteDance-Seed/Seed-OSS-36B-Instruct",),
        reasoning=(
            Reasoning(
                "<seed:think>",
                "</seed:think>",
                after="\n",
                ends_at_call=True,
                # The model's notes on its thinking budget; a prompt with budget 0 ends behind the first marker.
                dropped=("<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>"),
            ),
        ),
        calls=replace(map_strings(QWEN_XML, {"tool_call>": "seed:tool_call>"}), value_pad="", python_values=True),
        turns=("<seed:bos>assistant\n",),
        stops=("<seed:eos>",),
        before_call="\n\n",
        between_calls="\n",
        content_end="\n",
        engine_names={"vllm": ("seed_oss",)},
        source="chat template of ByteDance-Seed/Seed-OSS-36B-Instruct",
        quirks=(
            "thinking_budget: the model writes notes on it inside reasoning; their markers are dropped, their "
            "text is reasoning.",
            "With budget 0 the prompt ends inside reasoning and a note: pass prompt=.",
            "The template writes lists and objects as Python; both notations are read.",
        ),
        disagreements=(
            "None and quotes of Python in a list or object: vLLM leaves text, SGLang has no parser, unspool "
            "gives JSON.",
        ),
    ),
    Format(
        name="step3p5",
        summary="the calls of qwen3_coder without layout between them; the prompt opens <think>",
        aliases=("step3.5", "step3.7", "step3p7", "step5", "step_3.5", "step_3.7", "step_5"),
        models=("stepfun-ai/Step-3.5-Flash",),
        reasoning=(replace(THINK, after="\n"),),
        calls=QWEN_XML,
        turns=CHATML_TURNS,
        start="<think>\n",
        stops=CHATML_STOPS,
        evidence=(*_ELEMENTS, "<|im_start|>tool_response"),
        engine_names={"vllm": ("step3p5", "step5"), "sglang": ("step3p5",), "vllm-mlx": ("step3p5",)},
        source="chat template of stepfun-ai/Step-3.5-Flash",
        quirks=(
            "The prompt always opens <think>; there is no switch.",
            "Nothing stands between calls, or between content and a call. Step-5 writes the same.",
        ),
        disagreements=("vLLM's step5 keeps whitespace around content, its step3p5 trims one newline.",),
    ),
    _NEMOTRON,
    replace(
        _NEMOTRON,
        name="nemotron_v3_super",
        summary="nemotron_v3 without newlines around </think>",
        aliases=("nemotron_super_v3", "nemotron_ultra_v3"),
        models=(),
        reasoning=(replace(THINK, close_pad="", after=""),),
        evidence=(*_ELEMENTS, "truncate_history_thinking", 'message.reasoning_content ~ "</think>"'),
        engine_names={},
        source="chat templates of Nemotron 3 Ultra and Nemotron 3.5 Lightning",
        quirks=(
            "enable_thinking=False makes the prompt end with <think></think>: pass prompt=.",
            "Take nemotron_v3 for Nano and Super: here their newlines around </think> are text.",
        ),
    ),
    replace(
        _NEMOTRON,
        name="granite_thinking",
        summary="nemotron_v3, more newlines behind </think>",
        aliases=("granite4.2", "granite_4.2", "granite42"),
        models=(),
        reasoning=(replace(THINK, after="\n", after_accepts="\n\n", after_prompt=""),),
        evidence=(*_ELEMENTS, "truncate_history_thinking", "defer_loading"),
        engine_names={"vllm": ("granite_thinking_parser",), "sglang": ("granite_thinking_parser",)},
        source="vLLM 0.33 and SGLang; the template wasn't seen",
        quirks=(
            "enable_thinking=False makes the prompt end with <think></think>: pass prompt=.",
            "One or two newlines behind </think> are framing, more are content.",
        ),
        disagreements=("vLLM strips all newlines before content.",),
    ),
    replace(
        QWEN3_5,
        name="minicpm_v",
        summary="qwen3_5; a backslash and n in content and reasoning are a newline",
        aliases=("minicpmv", "minicpm_v_4_6", "minicpm_o"),
        models=(),
        text_filter="escapes",
        evidence=(*_ELEMENTS, "ns.parts"),
        engine_names={"vllm": ("minicpmv",)},
        source="vLLM 0.33; the template wasn't seen",
        quirks=(
            "A backslash and n become a newline in content and reasoning, but not in code, formulas or arguments.",
            "Terminators that leak into the text are dropped.",
        ),
        disagreements=(),
    ),
)
