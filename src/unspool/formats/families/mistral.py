"""Mistral: a JSON list after ``[TOOL_CALLS]`` up to v7, ``NAME[ARGS]{...}`` a call from v11 on.

Every marker is a control token that mistral-common never decodes to text, so ids are needed for certainty.
"""

from unspool.formats.families.hermes import THINK
from unspool.formats.families.lists import INLINE
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
            THINK,
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
        quirks=(
            "mistral-common never decodes control tokens, so text has no markers: pass token ids.",
            "Lists of calls, a missing [ARGS], and a [CALL_ID] between name and arguments are read; that id is "
            "dropped.",
            "Magistral 2506 reasons in <think> as ordinary text, later ones in [THINK]. The model writes the "
            "opener.",
            "mistral-common wants call ids of 9 letters or digits back in the history; those of unspool are "
            "longer.",
        ),
        disagreements=(
            "[TOOL_CALLS] inside a string: vLLM makes two calls of it, unspool one.",
            "A generated [CALL_ID]: vLLM does not strip it, llama.cpp and unspool do.",
            "Ollama takes the output of a thinking model for reasoning from its start; unspool waits for the "
            "opener.",
        ),
    ),
    Format(
        name="mistral_v3",
        summary="[TOOL_CALLS] and a JSON list of calls",
        aliases=("mistral_v2", "mistral_v7", "mixtral", "mistral_nemo"),
        models=("mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-Nemo-Instruct-2407"),
        calls=JsonCalls(open=("[TOOL_CALLS]",), body_pad=" ", written_list=INLINE),
        turns=_TURNS,
        stops=_STOPS,
        next_turns=_NEXT_TURNS,
        source="mistral-common 1.13, tokenizer versions 2 to 7",
        quirks=(
            "A space follows the marker with SentencePiece vocabularies, none with Tekken; both are read.",
            "A list that is cut off gives no call. An id among an object's members is dropped.",
            "The marker is a control token: pass token ids.",
        ),
        disagreements=("The second call of a list leaks into the content when SGLang streams.",),
    ),
)
