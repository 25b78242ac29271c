"""What a chat template says, read from its source without running it.

A marker rarely stands in the source as the model sees it: a newline is ``\\n``, a tag is put together from
pieces, a token has a variable's name. :class:`TemplateText` undoes that much and no more, so that looking for
markers needs no Jinja.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# One that is never closed reaches to the end: looking for each of its quotes again would take too long.
_ANY_STRING = r"""(?:'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))"""
_OPENER = re.compile(r"\{[{%#][-+]?")
_CLOSERS = {"{": "}}", "%": "%}", "#": "#}"}
_CODE_PART = re.compile(rf"{_ANY_STRING}|[-+]?[%}}]\}}|[^'\"%}}+-]+|.", re.DOTALL)
_TERM = re.compile(rf"{_STRING}|\w+(?:\.\w+)*|[+~]|\s+|.", re.DOTALL)
_CONSTANT = re.compile(rf"\s*set\s+(\w+)\s*=\s*({_STRING})\s*", re.DOTALL)
_SET = re.compile(r"\s*set\s+(\w+)\s*=")
_FORMATTED = re.compile(rf"({_STRING})\.format\(({_STRING})\)", re.DOTALL)
_LONE = re.compile(rf"\s*({_STRING})\s*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
_PROMPT = "add_generation_prompt"


class TemplateText:
    """The source of one template, its pieces of text put together.

    ``whole`` is all of it; ``prompt_ends`` are the pieces of text from where the template last asks whether to
    open the model's turn.
    """

    def __init__(self, source: str) -> None:
        parts = [*_parts(source)]
        sets = Counter(found[1] for opener, body in parts if opener and (found := _SET.match(body)))
        self._constants: dict[str, str] = {}
        self._parts: list[tuple[str, str]] = []
        for opener, body in parts:
            text = self._joined(body) if opener else body
            self._parts.append((opener, text))
            # What is set more than once is no constant.
            if opener and (found := _CONSTANT.fullmatch(text)) and sets[found[1]] == 1:
                self._constants[found[1]] = found[2]

    @cached_property
    def whole(self) -> str:
        """The source with escapes resolved, constants filled in and concatenated strings joined."""
        return _unescaped("".join(_shown(opener, body) for opener, body in self._parts))

    @cached_property
    def prompt_ends(self) -> tuple[str, ...]:
        """The texts that the part about the generation prompt can write; empty if there is no such part."""
        asked = [i for i, (opener, body) in enumerate(self._parts) if opener and _PROMPT in body]
        texts: list[str] = []
        for opener, body in self._parts[asked[-1] :] if asked else ():
            texts += [text[1:-1] for text in re.findall(_STRING, body)] if opener else [body.strip()]
        return tuple(_unescaped(text) for text in texts if text)

    def _joined(self, code: str) -> str:
        """Code with each constant as its string and strings that ``+`` or ``~`` joins as one."""
        setting = _SET.match(code)
        terms: list[str] = [setting[0]] if setting else []
        for term in _TERM.findall(code, setting.end() if setting else 0):
            text = self._constants.get(term, term)
            if _is_string(text):
                before = [each for each in terms[-4:] if not each.isspace()][-2:]
                if len(before) == 2 and before[1] in "+~" and _is_string(before[0]):
                    while terms[-1] != before[0]:
                        terms.pop()
                    terms[-1] = terms[-1][:-1] + text[1:-1] + terms[-1][-1]
                    continue
            terms.append(text)
        return _FORMATTED.sub(_formatted, "".join(terms))


def _parts(source: str) -> Iterator[tuple[str, str]]:
    """The source as text (its opener is ``""``) and code; comments are left out, unclosed code is text."""
    at = 0
    while found := _OPENER.search(source, at):
        yield "", source[at : found.start()]
        end = _end(source, found)
        if end is None:
            at = found.start()
            break
        if found[0][1] != "#":
            yield found[0][:2], source[found.end() : end].removesuffix("-").removesuffix("+")
        at = end + 2
    yield "", source[at:]


def _end(source: str, opener: re.Match[str]) -> int | None:
    """Where the closer of a tag stands; one in a string is none."""
    closer = _CLOSERS[opener[0][1]]
    if closer == "#}":
        at = source.find(closer, opener.end())
        return at if at >= 0 else None
    for part in _CODE_PART.finditer(source, opener.end()):
        if part[0].endswith(closer) and len(part[0]) <= 3:
            return part.end() - 2
    return None


def _formatted(call: re.Match[str]) -> str:
    return call[1].replace("{}", call[2][1:-1])


def _shown(opener: str, body: str) -> str:
    """A part as text; code that writes nothing but a string is that string."""
    lone = _LONE.fullmatch(body) if opener == "{{" else None
    if lone:
        return lone[1][1:-1]
    return opener + body + _CLOSERS[opener[1]] if opener else body


def _is_string(term: str) -> bool:
    return len(term) > 1 and term[0] in "'\""


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        four, two, letter = match.groups()
        return chr(int(four or two, 16)) if letter is None else _LETTERS.get(letter, letter)

    return _ESCAPE.sub(character, text)
