"""Cohere Command: a JSON list of numbered calls between action markers, content between markers of its own."""

from dataclasses import replace

from unspool.formats.families.lists import ON_LINES
from unspool.parsing.declaration import Format, Frame, JsonCalls, Reasoning

_TURNS = ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",)
_STOPS = ("<|END_OF_TURN_TOKEN|>",)
_NEXT_TURNS = ("<|START_OF_TURN_TOKEN|>",)

_RESPONSE = Frame("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_TEXT = Frame("<|START_TEXT|>", "<|END_TEXT|>")

_COMMAND3 = Format(
    name="cohere_command3",
    summary="a JSON list between <|START_ACTION|> and <|END_ACTION|>; content in <|START_RESPONSE|>",
    aliases=("cohere", "cohere_command", "command_a", "command_r7b"),
    models=(
        "CohereLabs/c4ai-command-r7b-12-2024",
        "CohereLabs/c4ai-command-a-03-2025",
        "CohereLabs/command-a-reasoning-08-2025",
    ),
    reasoning=(Reasoning("<|START_THINKING|>", "<|END_THINKING|>", ends_at_call=True),),
    frames=(_RESPONSE, _TEXT),
    calls=JsonCalls(
        open=("<|START_ACTION|>",),
        close=("<|END_ACTION|>",),
        written_list=ON_LINES,
        id_key="tool_call_id",
        name_keys=("tool_name", "name"),
        arguments_keys=("parameters", "arguments"),
    ),
    turns=_TURNS,
    stops=_STOPS,
    next_turns=_NEXT_TURNS,
    engine_names={"vllm": ("cohere_command3",), "ollama": ("cohere",), "smg": ("cohere",)},
    source="chat template of CohereLabs/c4ai-command-a-03-2025",
    quirks=(
        "R7B and A write the thinking markers themselves, for a plan; A-Reasoning's prompt opens them or holds "
        "an empty pair.",
        "Some templates open the response in the prompt: pass prompt=, so that its end is known.",
        "Citations such as <co>text</co: 0:[1]> stay in the content as they are.",
        "All markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
    ),
    disagreements=(
        "vLLM's filter takes citations out of the content; unspool, like the others, does not.",
        "An invalid list: Ollama salvages the objects in it one by one, for unspool it is content.",
    ),
)

FORMATS = (
    _COMMAND3,
    replace(
        _COMMAND3,
        name="cohere_command4",
        summary="the calls of cohere_command3; content in <|START_TEXT|>; the prompt opens the reasoning",
        aliases=("command4",),
        models=(),
        frames=(_TEXT, _RESPONSE),
        start="<|START_THINKING|>",
        engine_names={"vllm": ("cohere_command4",), "sglang": ("cohere_command4",)},
        source="parsers of vLLM 0.33 and SGLang 0.5; the checkpoints have no chat template in Jinja",
        quirks=(
            "With reasoning off the prompt ends with an empty thinking pair: pass prompt=.",
            "Some outputs have the response markers of cohere_command3; both are read.",
            "All markers are special tokens: decode with skip_special_tokens=False or pass token ids.",
        ),
        disagreements=("Ollama gives a call that was cut off as good as it can; for unspool it is no call.",),
    ),
    Format(
        name="command_r",
        summary="'Action:' and a JSON list of calls in a code fence; only offered names are calls",
        aliases=("command_r_plus",),
        models=("CohereLabs/c4ai-command-r-v01", "CohereLabs/c4ai-command-r-plus"),
        calls=JsonCalls(
            open=("Action:\n```json", "Action: ```json", "Action:```json", "Action:\n```", "Action: ```"),
            close=("```",),
            offered_only=True,
            body_pad="\n",
            body_end="\n",
            written_list=ON_LINES,
            name_keys=("tool_name", "name"),
            arguments_keys=("parameters", "arguments"),
        ),
        turns=_TURNS,
        stops=_STOPS,
        next_turns=_NEXT_TURNS,
        before_call="\n",
        source="tool use template of CohereLabs/c4ai-command-r-v01; its list is indented further when rendered",
        quirks=(
            "The pseudo tool directly-answer is a call only if a tool of that name is offered; otherwise the "
            "text is content.",
            "All markers are ordinary text.",
        ),
        disagreements=("llama.cpp reads it with a workaround; vLLM has no parser.",),
    ),
)
