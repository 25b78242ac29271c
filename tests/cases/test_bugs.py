"""Public bug reports of other servers, replayed against the parser.

``bugs.jsonl`` holds reports on tool calls and reasoning as small reproductions in the exact wire format.
Each one runs as a whole, at its own cuts, one character at a time and at every split point, in both
argument modes; all of these must give one and the same message. Content and reasoning are compared after
strip, arguments as parsed JSON. Reports about a surface, a constraint or an executed tool are here with
the part that the parser decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

import unspool
from tests.conformance.replay import (
    ArgumentMode,
    Generation,
    Outcome,
    calls,
    every_cut,
    outcome,
    outcomes_by_cut,
    parse_cut,
)
from unspool import ContentDelta, ReasoningDelta, ToolCallDelta, ToolCallStart

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, Path(__file__).with_name("bugs.jsonl").read_text("utf-8").splitlines())
}
MODES: tuple[ArgumentMode, ...] = get_args(ArgumentMode)

FORMAT_BY_WIRE = {
    "hermes-json": "hermes",
    "llama3-json": "llama3_json",
    "deepseek-dsml": "deepseek_v4",
    "glm": "glm47",
    "kimi-k2": "kimi_k2",
    "harmony": "gpt_oss",
    "gemma4": "gemma4",
    "mistral": "mistral",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3",
    "step3": "step3",
    "lfm2-pythonic": "lfm2",
    "internlm2": "internlm",
    "nemotron-nano-v2": "nemotron_nano_v2",
}

# Cases whose wire name covers several formats, or none: the family or the prompt says which.
FORMAT_BY_CASE = {
    "BUG-006": "hermes",
    "BUG-007": "deepseek_r1",
    "BUG-033": "mistral_v3",
    "BUG-044": "jamba",
    "BUG-045": "hunyuan_a13b",
    "BUG-052": "hermes",
    "BUG-065": "qwen3_5",
    "BUG-066": "qwen3_5",
    "BUG-067": "qwen3_5",
    "BUG-084": "hermes",
    "BUG-095": "hermes",
    "BUG-097": "hermes",
    "BUG-107": "qwen3_5",
    "BUG-111": "hermes",
    "BUG-115": "kimi_k2",
    "BUG-126": "pythonic",
    "BUG-146": "deepseek_v31",
    "BUG-153": "hermes",
    "BUG-155": "hermes",
    "BUG-156": "deepseek_v31",
    "BUG-157": "hermes",
    "BUG-170": "glm45",
    "BUG-171": "hermes",
    "BUG-182": "hermes",
    "BUG-183": "qwen3_coder",
    "BUG-188": "hermes",
    "BUG-205": "hermes",
}

PROMPT_BY_CASE = {
    # The report is about an answer without thinking; this model's own prompt opens a thinking block.
    "BUG-022": "<｜Assistant｜></think>",
    # The grammar covers the thinking span, so no end marker can be sampled. Whoever sets such a grammar has to
    # hand the parser a closed block: the parser takes its start from the prompt and from nothing else.
    "BUG-065": "<think>\n\n</think>\n\n",
}

# What the parser decides in reports about executed tools: which call there is, by its exact name.
CALL_BEFORE_EXECUTION = {
    "BUG-118": calls(("slow", {})),
    "BUG-121": calls(("db", {})),
    "BUG-123": calls(("list_application", {})),
    "BUG-131": calls(("execute_shell", {"cmd": "id"})),
    # About endpoints, which all have to get this call.
    "BUG-181": calls(("get_weather", {"city": "Oslo"})),
}


@dataclass(frozen=True, slots=True)
class Settled:
    """The alternative, among those a report accepts, that unspool settled on."""

    outcome: Outcome
    reason: str


SETTLED: Mapping[str, Settled] = {
    "BUG-022": Settled(
        Outcome(content="Switching on.", calls=calls(("toggle", {"on": True}))),
        "a tag without its marker is read as if it had one",
    ),
    "BUG-105": Settled(
        Outcome(
            calls=calls(("get_weather", {"city": "Oslo"}), ("launch_rocket", {}), ("get_time", {"zone": "CET"}))
        ),
        "an unknown tool name is passed on: the client knows its tools",
    ),
    "BUG-151": Settled(
        Outcome(calls=calls(("set", {"n": "5", "id": 7}))),
        "arguments the model wrote as JSON are passed on verbatim",
    ),
    "BUG-179": Settled(
        Outcome(
            content="Done.",
            calls=calls(("get_weather", {"city": "Oslo"}), ("get_time", {"zone": "CET"})),
        ),
        "a closer of another name closes the element all the same",
    ),
    "BUG-188": Settled(
        Outcome("First <think>aside", "then more</think>Result"),
        "the first closer ends the reasoning, as it must when it is one token",
    ),
}


def generation_of(case: Mapping[str, Any]) -> Generation:
    """The report as parser input."""
    given = case["input"]
    # A list is what was sent to several endpoints, which differ in nothing that a parser sees.
    request = {} if isinstance(given.get("request"), list) else given.get("request", {})
    return Generation(
        format=_format_of(case),
        raw=given["raw"],
        tools=case.get("tools") or (),
        prompt=PROMPT_BY_CASE.get(case["id"], given.get("prompt", given.get("prompt_tail"))),
        tool_choice=request.get("tool_choice", "auto"),
        parallel_tool_calls=request.get("parallel_tool_calls", True),
        finish=given.get("finish", "stop"),
    )


def _format_of(case: Mapping[str, Any]) -> str:
    if case["id"] in FORMAT_BY_CASE:
        return FORMAT_BY_CASE[case["id"]]
    if case["wire"] == "qwen-xml":
        return "qwen3_5" if "<think>" in case["input"].get("prompt_tail", "") else "qwen3_coder"
    return FORMAT_BY_WIRE[case["wire"]]


def expected_of(case: Mapping[str, Any]) -> Outcome:
    """The right message, stripped, whatever surface the report describes it on."""
    if case["id"] in SETTLED:
        return SETTLED[case["id"]].outcome
    expected = case["expected"]
    if case["id"] in CALL_BEFORE_EXECUTION:
        return Outcome(calls=CALL_BEFORE_EXECUTION[case["id"]])
    if "tool_calls" in expected:
        return Outcome(
            expected.get("reasoning"),
            expected.get("content"),
            calls(*((call["name"], call["arguments"]) for call in expected["tool_calls"])),
        )
    if "content_blocks" in expected:
        return Outcome(calls=calls(*((block["name"], block["input"]) for block in expected["content_blocks"])))
    if "items" in expected:
        texts = {item["type"]: item["text"] for item in expected["items"]}
        return Outcome(texts["reasoning"], texts["message"])
    if "message_fields" in expected:
        fields = expected["message_fields"]
        return Outcome(fields["reasoning"], fields["content"])
    # What is left are stream shapes of a surface; their text is the raw text.
    assert {"events", "output", "completed_fields"} & expected.keys(), sorted(expected)
    return Outcome(content=case["input"]["raw"])


def cuts_of(case: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The report's own cut first, then every other one."""
    if "chunks" in case["input"]:
        yield tuple(case["input"]["chunks"])
    yield from every_cut(case["input"]["raw"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case_id", CASES)
def test_the_reported_output_gives_the_right_message_at_every_cut(case_id: str, mode: ArgumentMode) -> None:
    case = CASES[case_id]
    found = outcomes_by_cut(generation_of(case), cuts_of(case), mode)
    assert len(found) == 1, f"the message depends on the cut: {found}"
    assert next(iter(found)).stripped() == expected_of(case), case["why"]


@pytest.mark.parametrize("case_id", [name for name, case in CASES.items() if "prompt" in case["input"]])
def test_the_prompt_s_tail_decides_as_the_whole_prompt_does(case_id: str) -> None:
    case = CASES[case_id]
    message = unspool.parse(
        _format_of(case), case["input"]["raw"], prompt=case["input"]["prompt_tail"], tools=case.get("tools")
    )
    expected = expected_of(case)
    assert (message.reasoning or "").strip() == expected.reasoning
    assert [call.name for call in message.tool_calls] == [name for name, _ in expected.calls]


@pytest.mark.parametrize("case_id", CASES)
def test_the_finish_reason_says_calls_and_the_token_limit_wins(case_id: str) -> None:
    case = CASES[case_id]
    finish = parse_cut(generation_of(case), (case["input"]["raw"],))[-1]
    assert isinstance(finish, unspool.Finish)
    called = "tool_calls" if expected_of(case).calls else "stop"
    assert finish.reason == case["input"].get("finish", called)
    if case_id not in SETTLED and "finish_reason" in case["expected"]:
        assert finish.reason == case["expected"]["finish_reason"]


def test_every_report_of_these_formats_is_here() -> None:
    assert len(CASES) == 101
    unknown = (
        FORMAT_BY_CASE.keys() | PROMPT_BY_CASE.keys() | SETTLED.keys() | CALL_BEFORE_EXECUTION.keys()
    ) - CASES.keys()
    assert not unknown


# What the reports demand of the stream as a whole.


def test_a_long_value_streams_while_it_is_written() -> None:
    case = CASES["BUG-048"]
    parser = _parser("BUG-048")
    events = [event for chunk in case["input"]["chunks"][:2] for event in parser.feed(chunk)]
    sent = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
    assert "line 1" in sent


def test_plain_words_leave_at_once_though_tools_are_offered() -> None:
    case = CASES["BUG-205"]
    for name in ("hermes", "qwen3_coder", "llama3_json", "pythonic", "mistral", "mistral_v3", "deepseek_v3"):
        parser = unspool.Parser(unspool.get_format(name), tools=case["tools"])
        assert parser.feed(case["input"]["chunks"][0]) == [ContentDelta("The cap")], name


@pytest.mark.parametrize("case_id", ["BUG-084", "BUG-095"])
def test_plain_text_passes_delta_by_delta(case_id: str) -> None:
    chunks = CASES[case_id]["input"]["chunks"]
    events = parse_cut(generation_of(CASES[case_id]), chunks)
    assert [event.text for event in events if isinstance(event, ContentDelta)] == chunks


def test_layout_before_a_call_is_never_content_on_its_own() -> None:
    case = CASES["BUG-194"]
    for pieces in cuts_of(case):
        texts = [event.text for event in parse_cut(generation_of(case), pieces) if isinstance(event, ContentDelta)]
        assert not texts, pieces


@pytest.mark.parametrize(("case_id", "indices"), [("BUG-103", [0, 1, 2]), ("BUG-104", [0, 1])])
def test_indices_count_calls_and_ids_differ(case_id: str, indices: list[int]) -> None:
    case = CASES[case_id]
    for pieces in cuts_of(case):
        starts = [e for e in parse_cut(generation_of(case), pieces) if isinstance(e, ToolCallStart)]
        assert [start.index for start in starts] == indices
        assert len({start.id for start in starts}) == len(indices)


def test_a_name_is_sent_when_it_is_complete_not_when_it_equals_an_offered_one() -> None:
    case = CASES["BUG-215"]
    for pieces in cuts_of(case):
        starts = [e for e in parse_cut(generation_of(case), pieces) if isinstance(e, ToolCallStart)]
        assert [start.name for start in starts] == ["get_current_date"]


def test_a_possible_marker_is_held_and_never_guessed() -> None:
    case = CASES["BUG-052"]
    whole = expected_of(case).reasoning
    assert whole is not None
    parser = _parser("BUG-052")
    sent = ""
    for chunk in case["input"]["chunks"]:
        sent += "".join(event.text for event in parser.feed(chunk) if isinstance(event, ReasoningDelta))
        assert whole.startswith(sent.strip())
    assert sent.strip() == whole


def test_no_placeholder_precedes_the_real_arguments() -> None:
    case = CASES["BUG-146"]
    for pieces in cuts_of(case):
        events = parse_cut(generation_of(case), pieces)
        assert "".join(e.arguments for e in events if isinstance(e, ToolCallDelta)) == '{"city": "上海"}'


def test_only_one_call_when_parallel_calls_are_refused() -> None:
    case = CASES["BUG-173"]
    for pieces in cuts_of(case):
        starts = [e for e in parse_cut(generation_of(case), pieces) if isinstance(e, ToolCallStart)]
        assert [start.index for start in starts] == [0]


def test_characters_are_never_split() -> None:
    case = CASES["BUG-092"]
    for pieces in cuts_of(case):
        assert not any("\ufffd" in repr(event) for event in parse_cut(generation_of(case), pieces))


def test_a_cut_list_of_calls_is_neither_a_call_nor_text() -> None:
    case = CASES["BUG-126"]
    assert outcome(parse_cut(generation_of(case), (case["input"]["raw"],))) == Outcome()


def _parser(case_id: str) -> unspool.Parser:
    generation = generation_of(CASES[case_id])
    return unspool.Parser(
        unspool.get_format(generation.format), tools=list(generation.tools), prompt=generation.prompt
    )


# Reports whose input is too long to be written out.


def test_an_opener_with_nothing_but_layout_behind_it_is_no_call() -> None:
    """BUG-127: what it costs is counted by the law of linear work."""
    tools = CASES["BUG-181"]["tools"]
    generation = Generation("dots", "<dots_function_call>" + " " * 50_000, tools, finish="length")
    found = outcome(parse_cut(generation, (generation.raw,)))
    assert found.calls == ()
    assert (found.content or generation.raw) == generation.raw


def test_long_reasoning_ends_where_its_marker_says() -> None:
    """BUG-203: the same."""
    words = ["<think>", *["word "] * 20_000, "</think>", "done"]
    found = outcome(parse_cut(Generation("qwen3", "".join(words)), words))
    assert (found.content, found.calls) == ("done", ())
    assert found.reasoning == "word " * 20_000
