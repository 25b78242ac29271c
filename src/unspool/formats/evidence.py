"""By what a chat template of a format is known."""

from __future__ import annotations

from unspool.parsing.declaration import (
    ChannelCalls,
    Format,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RelaxedArguments,
    TaggedCalls,
)


def evidence(fmt: Format) -> tuple[str, ...]:
    """The texts that a chat template of this format has, all of them: what it declares, or its calls' openers."""
    if fmt.evidence:
        return fmt.evidence
    return tuple(dict.fromkeys(text for opener in _openers(fmt) if (text := opener.strip())))


def _openers(fmt: Format) -> tuple[str, ...]:
    match fmt.calls:
        case JsonCalls(open=()) as calls:
            return (f'"{calls.name_keys[0]}"', f'"{calls.arguments_keys[0]}"')
        case JsonCalls() | PythonCalls() as calls:
            return calls.open[:1]
        case NamedCalls() as calls:
            return (calls.section_open, calls.open, *calls.header_end[:1], _inside(calls))
        case TaggedCalls() as calls:
            return (*calls.section_open[:1], calls.call_open[0], calls.param_open[0], calls.value_open)
        case ChannelCalls() as calls:
            return (calls.start, calls.channel, calls.message)
    return ()


def _inside(calls: NamedCalls) -> str:
    """What stands before a value or a string of it, if the format writes anything there."""
    if isinstance(calls.arguments, RelaxedArguments):
        return calls.arguments.quote
    return calls.arguments.written_before
