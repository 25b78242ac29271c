"""Mistral: a JSON list after ``[TOOL_CALLS]`` up to v7, ``NAME[ARGS]{...}`` a call from v11 on.

Every marker is a control token that mistral-common never decodes to text, so ids are needed for certainty.
"""

from unspool.parsing.declaration import Format, JsonCalls, NamedCalls, Reasoning

_TURNS = ("[/INST]",)
_STOPS = ("</s>",)
_NEXT_TURNS = ("[INST]", "[TOOL_RESULTS]")

FORMATS = (
    Format(
        name="mistral",
        summary="[TOOL_CALLS]NAME[ARGS] and a JSON object a call, or a JSON list; reasoning in [THINK]",
        aliases=("ministral", "devstral", "magistral", "mistral_v11", "mistral_v13"),
        models=(
            "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
            "mistralai/Magistral-Small-2509",
            "mistralai/Ministral-3-14B-Reasoning-2512",
        ),
        reasoning=(
            Reasoning("[THINK]", "[/THINK]", recurs=True, ends_at_call=True),
            Reasoning("<think>", "</think>", open_pad="\n", close_pad="\n", after="\n\n", ends_at_call=True),
        ),
        calls=NamedCalls(
            open="[TOOL_CALLS]",
            header_end=("[ARGS]",),
            header_stops=("{",),
            header_notes=("[CALL_ID]",),
            list_body=True,
            written_header="{name}[ARGS]",
        ),
        turns=_TURNS,
        stops=_STOPS,
        next_turns=_NEXT_TURNS,
        engine_names={
            "vllm": ("mistral",),
            "sglang": ("mistral",),
            "vllm-mlx": ("mistral",),
            "mlx-lm": ("mistral",),
            "dynamo": ("mistral",),
            "smg": ("mistral",),
            "ollama": ("ministral",),
            "canitoolcall": ("mistral",),
        },
        source="mistral-common 1.13, tokenizer versions 11 and 13",
    ),
    Format(
        name="mistral_v3",
        summary="[TOOL_CALLS] and a JSON list of calls",
        aliases=("mistral_v2", "mistral_v7", "mixtral", "mistral_nemo"),
        models=("mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-Nemo-Instruct-2407"),
        calls=JsonCalls(open=("[TOOL_CALLS]",), body_pad=" ", written_list=("[", ", ", "]")),
        turns=_TURNS,
        stops=_STOPS,
        next_turns=_NEXT_TURNS,
        source="mistral-common 1.13, tokenizer versions 2 to 7",
    ),
)
