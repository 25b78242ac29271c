"""llama.cpp's own reader of GBNF, for tests: whether a text is in a grammar, and random texts that are."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_bool, c_char_p, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import TypeAlias

from unspool.engines.llamacpp.library import load

_CHAR, _CHAR_NOT, _UPPER, _MORE, _ANY = 3, 4, 5, 6, 7  # enum llama_gretype
_SYMBOLS = {
    "init": "_Z23llama_grammar_init_implPK11llama_vocabPKcS3_bPS3_mPKim",
    "free": "_Z23llama_grammar_free_implP13llama_grammar",
    "accept": "_Z20llama_grammar_acceptP13llama_grammarj",
    "stacks": "_Z24llama_grammar_get_stacksP13llama_grammar",
}


class _Element(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("value", c_uint32))


class _Vector(ctypes.Structure):
    """A ``std::vector``: where it begins, where it ends, how far it may grow."""

    _fields_ = (("begin", c_void_p), ("end", c_void_p), ("room", c_void_p))


Class: TypeAlias = tuple[bool, list[tuple[int, int]]]
"""Characters: whether they are all but those of some ranges, and the ranges."""


@cache
def _functions() -> dict[str, ctypes._NamedFuncPointer]:
    library = load()
    functions = {name: getattr(library, symbol) for name, symbol in _SYMBOLS.items()}
    functions["init"].argtypes = [c_void_p, c_char_p, c_char_p, c_bool, c_void_p, c_size_t, c_void_p, c_size_t]
    functions["init"].restype = c_void_p
    functions["free"].argtypes, functions["free"].restype = [c_void_p], None
    functions["accept"].argtypes, functions["accept"].restype = [c_void_p, c_uint32], None
    functions["stacks"].argtypes, functions["stacks"].restype = [c_void_p], POINTER(_Vector)
    return functions


class Acceptor:
    """One text in one grammar, by characters. Raises ``ValueError`` if llama.cpp can't read the grammar."""

    def __init__(self, grammar: str) -> None:
        self._grammar = _functions()["init"](None, grammar.encode(), b"root", False, None, 0, None, 0)
        if not self._grammar:
            raise ValueError(f"llama.cpp can't read the grammar:\n{grammar}")

    def __del__(self) -> None:
        if self._grammar:
            _functions()["free"](self._grammar)

    def accept(self, char: str) -> bool:
        """Takes a character; false, for good, if it may not come."""
        _functions()["accept"](self._grammar, ord(char))
        return bool(self._stacks())

    @property
    def may_end(self) -> bool:
        """Whether the text is complete."""
        return any(stack.begin == stack.end for stack in self._stacks())

    def _stacks(self) -> list[_Vector]:
        stacks = _functions()["stacks"](self._grammar).contents
        count = ((stacks.end or 0) - (stacks.begin or 0)) // ctypes.sizeof(_Vector)
        return [_Vector.from_address(stacks.begin + place * ctypes.sizeof(_Vector)) for place in range(count)]

    def classes(self) -> Iterator[Class]:
        """What may come, one class of characters for each way to go on."""
        pointer = ctypes.sizeof(c_void_p)
        for stack in self._stacks():
            if stack.begin == stack.end:
                continue
            place = c_void_p.from_address(stack.end - pointer).value
            assert place is not None
            first = _Element.from_address(place)
            ranges: list[tuple[int, int]] = []
            while True:
                element = _Element.from_address(place)
                if element.kind == _UPPER:
                    ranges[-1] = ranges[-1][0], element.value
                elif element.kind == _MORE or not ranges:
                    ranges.append((element.value, element.value))
                else:
                    break
                place += ctypes.sizeof(_Element)
            yield first.kind in (_CHAR_NOT, _ANY), ranges


def refused(grammar: str, text: str) -> str | None:
    """Where a text stops being in a grammar; ``None`` if it is."""
    acceptor = Acceptor(grammar)
    for place, char in enumerate(text):
        if not acceptor.accept(char):
            return f"{text[max(0, place - 60) : place]!r} can't go on with {text[place : place + 20]!r}"
    return None if acceptor.may_end else f"{text[-80:]!r} can't end here"


_PLAIN = "abcdefgh XYZ 0123 .,:{}[]<>|=/'\"\n"


def walk(grammar: str, seed: object, words: Sequence[str] = (), longest: int = 4000) -> str | None:
    """A random text of a grammar; ``None`` if it came to no end. When it gets long, ``words`` are tried."""
    chance = random.Random(str(seed))
    acceptor = Acceptor(grammar)
    size = chance.choice((40, 150, 400))
    text, word = "", ""
    while len(text) < longest:
        late = len(text) > size
        if acceptor.may_end and (late or chance.random() < 0.02):
            return text
        classes = list(acceptor.classes())
        if not classes:
            assert acceptor.may_end, f"nothing may follow {text[-80:]!r}"
            return text
        if late and not word and words and chance.random() < 0.5:
            word = chance.choice(words)
        if word and any(_holds(each, word[0]) for each in classes):
            char, word = word[0], word[1:]
        else:
            single = [each for each in classes if not each[0] and all(first == last for first, last in each[1])]
            char = _one(chance.choice(single if single and (late or chance.random() < 0.3) else classes), chance)
            word = ""
        assert acceptor.accept(char), f"{char!r} was offered behind {text[-80:]!r}"
        text += char
    return None


def _holds(kind: Class, char: str) -> bool:
    excluded, ranges = kind
    return excluded != any(first <= ord(char) <= last for first, last in ranges)


def _one(kind: Class, chance: random.Random) -> str:
    excluded, ranges = kind
    if excluded:
        return chance.choice([char for char in _PLAIN if _holds(kind, char)])
    first, last = chance.choice(ranges)
    return chr(chance.randint(first, last))
