"""By what a chat template of a format is known."""

from __future__ import annotations

from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    ElementCalls,
    Format,
    JsonArguments,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RawArguments,
    RelaxedArguments,
    TaggedCalls,
)


def evidence(fmt: Format) -> tuple[str, ...]:
    """The texts that a chat template of this format has, all of them: what it declares, or its calls' openers."""
    if fmt.evidence:
        return fmt.evidence
    return openers(fmt)


def openers(fmt: Format) -> tuple[str, ...]:
    """The texts with which a call of this format opens."""
    return tuple(dict.fromkeys(text for opener in _openers_of(fmt.calls) if (text := opener.strip())))


def _openers_of(shape: Calls | JsonArguments | None) -> tuple[str, ...]:
    match shape:
        case JsonCalls(open=()) as calls:
            return (f'"{calls.name_keys[0]}"', f'"{calls.arguments_keys[0]}"')
        case JsonCalls() | PythonCalls() as calls:
            return calls.open[:1]
        case NamedCalls() as calls:
            return (calls.section_open, calls.open, *calls.header_end[:1], _inside(calls))
        case TaggedCalls() as calls:
            return (*calls.section_open[:1], *calls.call_open[:1], calls.param_open[0], calls.value_open)
        case ElementCalls() as calls:
            return (calls.section_open, calls.call_open, calls.element_open)
        case ChannelCalls(routed_by="marker") as calls:
            return (*calls.calls, *_openers_of(calls.body))
        case ChannelCalls() as calls:
            return (calls.start, calls.channel, calls.message, *_openers_of(calls.body))
    return ()


def _inside(calls: NamedCalls) -> str:
    """What stands before a value or a string of it, if the format writes anything there."""
    if isinstance(calls.arguments, RelaxedArguments):
        return calls.arguments.quote
    return "" if isinstance(calls.arguments, RawArguments) else calls.arguments.written_before
