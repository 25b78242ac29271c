"""Why a text with the markup of a call or of reasoning gave none.

The answer comes from asking again: the same text is read as if every tool were offered. What is a call then and
was none before was lost for want of an offer; anything else says for itself, in the note of the piece it became,
why it is not a call. Reasoning is lost for want of the prompt, or because of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import unspool
from unspool.cli.options import Reading
from unspool.cli.output import quoted
from unspool.cli.pieces import KINDS
from unspool.parsing.channels import call_markers
from unspool.parsing.declaration import ChannelCalls, Format
from unspool.parsing.grammar import openers
from unspool.parsing.schema import AnyTool


def lost(reading: Reading, raw: str, spans: Sequence[unspool.Span] | None = None) -> str | None:
    """Sentences on why there is no call and no reasoning although the text has markup of them.

    ``spans`` is what :func:`unspool.explain` gave for this text, if that is known already.
    """
    if spans is None:
        spans = explained(reading, raw)
    return " ".join(filter(None, (lost_call(reading, raw, spans), lost_reasoning(reading, raw, spans)))) or None


def lost_reasoning(reading: Reading, raw: str, spans: Sequence[unspool.Span]) -> str | None:
    """A sentence on the prompt, if with another one there would be reasoning that some marker closes."""
    if any(span.kind == "reasoning" for span in spans):
        return None
    turn = next(iter(reading.format.turns), "")
    for block in reading.format.reasoning:
        position = raw.find(block.close)
        if not block.close or position < 0:
            continue
        tail = turn + block.open + block.open_pad
        if reading.prompt is None and _has_reasoning(reading, raw, tail):
            return (
                f"No reasoning was found, though {quoted(block.close)} stands at character {position}: "
                f"if the prompt ended in {quoted(block.open)}, say so with --prompt-tail {quoted(tail)}."
            )
        if reading.prompt is not None and _has_reasoning(reading, raw, None):
            return (
                "No reasoning was found because of the prompt, which does not end where a turn begins; "
                "without it there would be."
            )
    return None


def _has_reasoning(reading: Reading, raw: str, prompt: str | None) -> bool:
    return bool(unspool.parse(reading.format, raw, tools=reading.tools, prompt=prompt).reasoning)


def lost_call(reading: Reading, raw: str, spans: Sequence[unspool.Span]) -> str | None:
    """A sentence on why there is no call although the text has call markup.

    ``None`` when there is a call, or nothing that looks like one.
    """
    kinds = {span.kind for span in spans}
    if "name" in kinds:
        return None
    if "cut" in kinds:
        return "No call was found: the end of the text cut off the one that had begun, and it was dropped."
    names = _calls_if_offered(reading, raw)
    if names:
        would_be = f"a call of {' and '.join(dict.fromkeys(names))}"
        if not reading.tools:
            return f"No call was found because no tools were offered: with --tools there would be {would_be}."
        if reading.tool_choice == "none":
            return f"No call was found because of --tool-choice none: without it there would be {would_be}."
        offered = ", ".join(tool["function"]["name"] for tool in reading.tools)
        return (
            f"No call was found because the tool is not offered: there would be {would_be}, "
            f"but the offered tools are {offered}."
        )
    found = _first_marker(reading.format, raw)
    if found is None:
        return None
    position, marker = found
    became = next(span for span in spans if span.start <= position < span.end)
    return (
        f"No call was found, though {quoted(marker)} stands at character {position}: "
        f"that became {KINDS[became.kind].label} ({became.note})."
    )


def explained(reading: Reading, raw: str) -> list[unspool.Span]:
    """What each character of the text became."""
    return unspool.explain(
        reading.format,
        raw,
        tools=reading.tools,
        tool_choice=reading.tool_choice,
        prompt=reading.prompt,
        finish_reason=reading.finish_reason,
    )


def _calls_if_offered(reading: Reading, raw: str) -> list[str]:
    """The names of the calls there would be if every tool were offered."""
    message = unspool.parse(
        reading.format, raw, tools=AnyTool(), prompt=reading.prompt, finish_reason=reading.finish_reason
    )
    return [call.name for call in message.tool_calls]


def _first_marker(fmt: Format, raw: str) -> tuple[int, str] | None:
    """Where the first opener of a call stands in the text (in characters), and which one it is."""
    markers = call_markers(fmt.calls) if isinstance(fmt.calls, ChannelCalls) else openers(fmt)
    return min(((raw.find(marker), marker) for marker in markers if marker in raw), default=None)
