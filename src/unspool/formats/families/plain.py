"""Families without calls of their own: reasoning and content, or content alone."""

from unspool.formats.families.hermes import CHATML_STOPS, CHATML_TURNS, THINK
from unspool.parsing.declaration import Format, Reasoning

FORMATS = (
    Format(
        name="holo2",
        summary="reasoning in <think>, which the prompt opens; no calls",
        models=("Hcompany/Holo2-8B", "Hcompany/Holo2-30B-A3B"),
        reasoning=(THINK,),
        turns=CHATML_TURNS,
        start="<think>\n",
        stops=CHATML_STOPS,
        engine_names={"vllm": ("holo2",)},
        source="chat template of Hcompany/Holo2-8B",
        quirks=("thinking is on by default; there are no calls, and their letters are content.",),
    ),
    Format(
        name="kimi_vl",
        summary="reasoning in ◁think▷, no calls",
        aliases=("kimi_vl_thinking",),
        models=("moonshotai/Kimi-VL-A3B-Thinking", "moonshotai/Kimi-VL-A3B-Thinking-2506"),
        reasoning=(Reasoning("◁think▷", "◁/think▷"),),
        turns=("<|im_assistant|>assistant<|im_middle|>",),
        stops=("<|im_end|>",),
        source="chat template of moonshotai/Kimi-VL-A3B-Thinking",
        quirks=("The model writes the opener itself; each marker is one token. There are no calls.",),
    ),
    Format(
        name="identity",
        summary="everything is content",
        aliases=("passthrough",),
        engine_names={"vllm": ("identity",), "ollama": ("passthrough",)},
        source="no family: for answers that are wanted as they are",
        quirks=("For models that neither reason nor call, and for raw text.",),
    ),
)
