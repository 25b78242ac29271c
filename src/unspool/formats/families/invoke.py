"""Families whose elements name tool and parameter in an attribute, with text typed by schema."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK, CHATML_STOPS, CHATML_TURNS, THINK
from unspool.parsing.declaration import Format, TaggedCalls, TaggedLayout


def invoke(section: str = "", namespace: str = "") -> TaggedCalls:
    """``<invoke>`` elements with this before each tag's name, in a section of this name if there is one."""
    return TaggedCalls(
        section_open=(f"<{section}>",) if section else (),
        section_close=(f"</{section}>",) if section else (),
        call_open=(f"<{namespace}invoke",),
        header_end=(">",),
        param_open=(f"<{namespace}parameter",),
        key_end=(">",),
        value_close=(f"</{namespace}parameter>",),
        call_close=(f"</{namespace}invoke>",),
        name_attribute="name",
        key_attribute="name",
        written=TaggedLayout(
            section_pad="\n", after_header="\n", after_param="\n", name=' name="{name}"', key=' name="{key}"'
        ),
    )


_STEP_CALL = "<｜tool_call_begin｜>function<｜tool_sep｜>"

FORMATS = (
    Format(
        name="minicpm5",
        summary='<function name="NAME"> with one <param name="KEY"> element a parameter; reasoning in <think>',
        aliases=("minicpm4", "minicpm4_v3"),
        reasoning=(THINK,),
        # Without the space: some models write <functionname=.
        calls=TaggedCalls(
            call_open=("<function",),
            header_end=(">",),
            param_open=("<param",),
            key_end=(">",),
            value_close=("</param>",),
            call_close=("</function>",),
            name_attribute="name",
            key_attribute="name",
            verbatim=("<![CDATA[", "]]>"),
            written=TaggedLayout(name=' name="{name}"', key=' name="{key}"'),
        ),
        turns=CHATML_TURNS,
        stops=CHATML_STOPS,
        before_call="\n",
        between_calls="\n",
        evidence=("<function name=", "<param name="),
        engine_names={"vllm": ("minicpm5",), "sglang": ("minicpm5",), "mlx-lm": ("minicpm5",)},
        source="vLLM 0.33 and SGLang; the template wasn't seen",
        quirks=(
            "CDATA sections are verbatim, closers in them are letters. <functionname= without the space is read.",
            "A wrapper parameter named properties or arguments stays a parameter; undeclared ones are passed on.",
        ),
        disagreements=(
            "vLLM unwraps such parameters, drops unknown ones and renames some; unspool does not.",
            "Whitespace around a text value: SGLang strips it, vLLM and unspool keep it.",
        ),
    ),
    Format(
        name="minimax_m2",
        summary='<invoke name="NAME"> elements in <minimax:tool_call>; the prompt opens <think>',
        aliases=("minimax", "minimax_m2.1", "minimax_m2.5", "minimaxm2"),
        models=("MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.5"),
        reasoning=(THINK,),
        calls=invoke("minimax:tool_call"),
        turns=("]~b]ai\n",),
        start="<think>\n",
        stops=("[e~[",),
        before_call="\n",
        before_call_alone="\n",
        between_calls="\n",
        evidence=("<minimax:tool_call>",),
        engine_names={
            # The append_think parsers differ only in what an API makes of the reasoning.
            "vllm": ("minimax_m2", "minimax_m2_append_think"),
            "sglang": ("minimax-m2", "minimax", "minimax-append-think"),
            "vllm-mlx": ("minimax",),
            "mlx-lm": ("minimax_m2",),
            "dynamo": ("minimax_m2",),
            "smg": ("minimax_m2",),
        },
        source="chat template of MiniMaxAI/MiniMax-M2",
        quirks=(
            "The prompt always opens <think>; there is no switch.",
            "Quotes of attributes may be single or missing; several sections may follow each other.",
            "A section that opens in reasoning that is never closed ends it.",
        ),
        disagreements=(
            "The append_think parsers of vLLM and SGLang give reasoning as content behind a <think>; unspool has "
            "no such mode.",
            "Text behind the calls: vLLM drops it in whole answers and keeps it when streaming.",
        ),
    ),
    Format(
        name="step3",
        summary='<steptml:invoke name="NAME"> between special tokens; the prompt opens <think>',
        aliases=("step_3",),
        models=("stepfun-ai/step3",),
        reasoning=(replace(BARE_THINK, open_pad="\n"),),
        calls=replace(
            invoke(namespace="steptml:"),
            section_open=("<｜tool_calls_begin｜>",),
            section_close=("<｜tool_calls_end｜>",),
            call_open=(
                f"{_STEP_CALL}<steptml:invoke",
                f"{_STEP_CALL}\n<steptml:invoke",
                "<｜tool_call_begin｜><steptml:invoke",
                "<steptml:invoke",
            ),
            call_close=(
                "</steptml:invoke><｜tool_call_end｜>",
                "</steptml:invoke>\n<｜tool_call_end｜>",
                "</steptml:invoke>",
                "<｜tool_call_end｜>",
            ),
        ),
        start="<think>\n",
        stops=("<|EOT|>",),
        between_calls="\n",
        evidence=("<steptml:invoke",),
        engine_names={"vllm": ("step3",), "sglang": ("step3",), "dynamo": ("step3",), "smg": ("step3",)},
        source="chat template of stepfun-ai/step3",
        quirks=(
            "The prompt always opens <think>.",
            "The section markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
            "The word function and its separator may be missing.",
        ),
        disagreements=(
            "vLLM gives a call's arguments at once.",
            "A call in one chunk is lost in SGLang; a second call without arguments gets an empty text in vLLM.",
        ),
    ),
    Format(
        name="dots",
        summary='<invoke name="NAME"> elements in <dots_function_call>; reasoning in <think>',
        aliases=("dots2", "dots_llm"),
        reasoning=(THINK,),
        calls=invoke("dots_function_call"),
        before_call="\n",
        between_calls="\n",
        evidence=("<dots_function_call>",),
        engine_names={"vllm": ("dots",), "sglang": ("dots",)},
        source="vLLM 0.33 and SGLang; the template wasn't seen",
        quirks=("A JSON object in place of parameter elements is read. Several calls may share a section.",),
        disagreements=(
            "null as a value: vLLM and SGLang make it null for every type and strip values; unspool follows the "
            "schema and keeps whitespace.",
        ),
    ),
)
