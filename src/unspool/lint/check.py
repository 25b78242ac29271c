"""Round trips through a checkpoint's own chat template: rendered, cut out, parsed, compared.

What a template writes into the history is what the model learns to write, so it must be read back as what went in.
The model's part is what follows the prompt that the same template renders for it.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace

import unspool
from unspool.compat.helpers import find_common_prefix
from unspool.formats.checkpoint import Checkpoint
from unspool.lint.cases import ANSWER, THOUGHT, TOOLS, Case, cases
from unspool.lint.places import Reading
from unspool.lint.report import Difference, Report, Result
from unspool.message import Message
from unspool.parsing.declaration import Format, NamedCalls
from unspool.parsing.parser import turn_tail
from unspool.server.template import ChatTemplate
from unspool.surfaces.conversation import Conversation, Turn
from unspool.surfaces.errors import InvalidRequestError


class _RenderError(Exception):
    """The template stopped: by its own decision (``refused``), or because it broke."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused


def check(checkpoint: Checkpoint, fmt: Format) -> Report:
    """Tries everything with the checkpoint's template for tools and this format.

    Raises ``ValueError`` if there is no template, and its subclass ``BadTemplateError`` if it is not valid Jinja.
    """
    if checkpoint.template is None:
        raise ValueError("the checkpoint has no chat template")
    special = {"bos_token": "", "eos_token": next(iter(fmt.stops), ""), **checkpoint.special}
    template = _Template(ChatTemplate(checkpoint.template, special))
    every = [_with_ids(case, fmt) for case in cases()]
    ends = (*fmt.stops, special["eos_token"], _turn_end(every[0], template))
    results = [_checked(case, template, fmt, ends) for case in every]
    return Report(fmt, results, tuple(_general(every, template, fmt, ends)))


class _Template:
    """A template that says where it stopped, and that gets calls even if it can't offer tools."""

    def __init__(self, template: ChatTemplate) -> None:
        self.offers_tools = template.traits.knows_tools
        self.writes_calls = "tool_calls" in template.source
        # Otherwise the calls would be spelled out before the template sees them.
        template.traits = replace(template.traits, knows_tools=self.offers_tools or self.writes_calls)
        self._template = template

    def render(self, conversation: Conversation) -> str:
        """Raises :class:`_RenderError`."""
        try:
            return self._template.render(conversation)
        except InvalidRequestError as error:
            cause = error.__cause__ or error
            frames = traceback.extract_tb(cause.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
            where = f"line {lines[-1]}: " if lines else ""
            refused = any(frame.name == "_raise_exception" for frame in frames)
            raise _RenderError(f"{where}{cause or type(cause).__name__}", refused=refused) from None


def _with_ids(case: Case, fmt: Format) -> Case:
    """The case with call ids as the model writes them, if the format has them on the wire."""
    shape = fmt.calls
    if not isinstance(shape, NamedCalls) or not shape.id_header:
        return case
    written = shape.written_header.removesuffix(shape.header_end[0])
    ids: dict[str, str] = {}

    def turn(old: Turn) -> Turn:
        calls = []
        for i, call in enumerate(old.tool_calls):
            ids[call.id] = written.format(name=call.name, index=i)
            calls.append(replace(call, id=ids[call.id]))
        answered = old.tool_call_id
        return replace(
            old, tool_calls=tuple(calls), tool_call_id=ids.get(answered, answered) if answered else None
        )

    return replace(case, before=tuple(map(turn, case.before)), said=turn(case.said))


def _turn_end(answer: Case, template: _Template) -> str:
    """What the template writes behind an answer, whatever the format says: the end of the turn, or nothing."""
    try:
        behind = template.render(answer.conversation(answered=True)).rpartition(ANSWER)[2].strip()
    except _RenderError:
        return ""
    return behind if len(behind.split()) == 1 else ""


def _checked(case: Case, template: _Template, fmt: Format, ends: Sequence[str]) -> Result:
    if case.needs_tools and not template.writes_calls:
        return Result(case.name, "skipped", notes=("the template writes no calls",))
    if case.needs_tools and fmt.calls is None:
        return Result(case.name, "skipped", notes=(f"the format {fmt.name} has no calls",))
    try:
        prompt = template.render(case.conversation(answered=False))
        whole = template.render(case.conversation(answered=True))
    except _RenderError as error:
        return Result(case.name, "refused" if error.refused else "fails", notes=(str(error),))
    notes: list[str] = []
    begin = _begin(fmt, case, prompt, whole)
    if begin is None:
        # Earlier turns look different once there is an answer, so only the opener of its turn can be looked for.
        begin = len(whole) - len(turn_tail(fmt, whole))
        opener, found = prompt[_said(case, prompt) :], whole[_said(case, whole) : begin]
        if opener != found:
            differing = Difference("the opener of the model's turn", _quoted(opener), _quoted(found))
            return Result(case.name, "differs", whole, (differing,))
        notes.append("what stands before the model's turn in the history is not what the prompt has there")
    elif begin < len(prompt):
        notes.append(f"the prompt ends with {_quoted(prompt[begin:])}, which the history leaves out")
    text = _without_end(whole[begin:], ends)
    expected, left_out = _expected(case, text)
    notes += left_out
    reading = _read(fmt, text, whole[:begin], case)
    differences = [*_missing_before(case, prompt, template), *reading.differences(expected)]
    return Result(case.name, "differs" if differences else "holds", text, tuple(differences), tuple(notes))


def _begin(fmt: Format, case: Case, prompt: str, whole: str) -> int | None:
    """Where in the history the model's part begins: after the prompt, as far as the history has it.

    ``None``: the history has something else already where earlier turns or the opener of the model's turn stand.
    """
    if whole.startswith(prompt):
        return len(prompt)
    opened = len(prompt) - len(turn_tail(fmt, prompt))
    same = len(find_common_prefix(prompt, whole))
    # Two tags that begin alike are not the same tag.
    tag = prompt.rfind("<", 0, same)
    if tag > prompt.rfind(">", 0, same):
        same = tag
    return same if opened and same >= max(_said(case, prompt), opened) else None


def _said(case: Case, text: str) -> int:
    """Where the last thing that was said before ends, 0 if that is not in the text."""
    return max((text.rfind(part) + len(part) for part in case.before[-1].parts if part in text), default=0)


def _without_end(text: str, ends: Sequence[str]) -> str:
    """The text without the terminators at its end, and the layout between them and the next turn."""
    while found := next((end for end in ends if end and text.rstrip().endswith(end)), None):
        text = text.rstrip().removesuffix(found)
    return text


def _expected(case: Case, text: str) -> tuple[Message, list[str]]:
    """What should be read back: what was said, without reasoning that the template left out on purpose."""
    said = case.said
    reasoning = said.reasoning
    notes = []
    if reasoning is not None and reasoning not in text:
        reasoning = None
        notes.append("the template leaves reasoning out of the history")
    return Message(reasoning, said.text, said.tool_calls), notes


def _missing_before(case: Case, prompt: str, template: _Template) -> Iterator[Difference]:
    """What the model has to know, of its tools and of earlier turns, and can't."""
    for tool in TOOLS if case.needs_tools and template.offers_tools else ():
        if tool["function"]["name"] not in prompt:
            yield Difference("offered tool", tool["function"]["name"], "nothing")
    for turn in case.before:
        for part in turn.parts:
            if part not in prompt:
                yield Difference(f"earlier {turn.role} turn", _quoted(part), "nothing")
        for call in turn.tool_calls:
            if call.name not in prompt:
                yield Difference("earlier call", call.name, "nothing")


def _read(fmt: Format, text: str, prompt: str, case: Case) -> Reading:
    tools = TOOLS if case.needs_tools else None
    message = unspool.parse(fmt, text, tools=tools, prompt=prompt)
    return Reading(text, message, unspool.explain(fmt, text, tools=tools, prompt=prompt))


def _general(every: Sequence[Case], template: _Template, fmt: Format, ends: Sequence[str]) -> Iterator[str]:
    """What holds for the template as a whole."""
    if not template.offers_tools and not template.writes_calls:
        yield "the template has no support for tools: it mentions neither 'tools' nor 'tool_calls'"
    elif not template.offers_tools:
        yield "the template writes calls but can't offer tools: it doesn't mention 'tools'"
    elif not template.writes_calls:
        yield "the template offers tools but writes no calls: it doesn't mention 'tool_calls'"
    for end in dict.fromkeys(ends):
        if end and end not in fmt.stops:
            yield f"a turn ends with {_quoted(end)}, which is no stop of {fmt.name}: {_listed(fmt.stops)}"
    try:
        prompt = template.render(every[0].conversation(answered=False))
    except _RenderError:
        return
    if not any(turn in prompt for turn in fmt.turns):
        yield f"the prompt opens the model's turn with none of the turns of {fmt.name}: {_listed(fmt.turns)}"
    elif (tail := turn_tail(fmt, prompt)).strip() != fmt.start.strip():
        yield (
            f"the prompt ends with {_quoted(tail)} after the opener of the turn, the start of {fmt.name} is "
            f"{_quoted(fmt.start)}: parsers must be given the prompt"
        )
    try:
        whole = template.render(every[-1].conversation(answered=False))
    except _RenderError:
        return
    if THOUGHT not in whole:
        yield "reasoning of earlier turns is left out of the prompt"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(map(_quoted, texts)) or "it has none"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
