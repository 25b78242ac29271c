"""HyperCLOVA X SEED Think: the rest of the role line says what a message is."""

from unspool.formats.families.lists import INLINE
from unspool.parsing.declaration import ChannelCalls, ChannelLayout, Format, JsonCalls

FORMATS = (
    Format(
        name="hyperclovax",
        summary="assistant/think is reasoning, assistant -> tool/function_call a JSON list of calls",
        aliases=("hyperclovax_seed_think", "hyperclovax_seed_think_14b"),
        models=("naver-hyperclovax/HyperCLOVAX-SEED-Think-14B", "naver-hyperclovax/HyperCLOVAX-SEED-Think-32B"),
        calls=ChannelCalls(
            start="<|im_start|>",
            ends=("<|im_end|>", "<|stop|>", "<|endofturn|>"),
            routed_by="marker",
            reasoning=("/think\n",),
            content=("\n",),
            calls=(" -> tool/function_call\n", "-> tool/function_call\n"),
            body=JsonCalls(written_list=INLINE, separators=",;"),
            written=ChannelLayout(
                reasoning="/think\n",
                content="\n",
                preamble="\n",
                call=" -> tool/function_call\n",
                next="\n<|im_start|>assistant",
                end="<|im_end|>",
                last="<|im_end|><|endofturn|>",
                last_call="<|im_end|><|stop|>",
                shared=True,
            ),
        ),
        turns=("<|im_start|>assistant",),
        stops=("<|stop|>", "<|endofturn|>"),
        evidence=("-> tool/function_call",),
        engine_names={"vllm": ("hyperclovax", "hyperclovax_seed_think_14b")},
        source="chat template of naver-hyperclovax/HyperCLOVAX-SEED-Think-14B",
        quirks=(
            "force_reasoning makes the prompt end with /think, skip_reasoning with the newline of content: pass "
            "prompt=.",
            "<|im_end|> ends a message, not a turn: stop on <|stop|> and <|endofturn|>.",
            "One object instead of a list, and input or parameters instead of arguments, are read.",
        ),
        disagreements=("vLLM has it only as plug-ins.",),
    ),
)
