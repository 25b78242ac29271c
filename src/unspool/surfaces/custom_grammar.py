"""The grammars of custom tools as regular expressions, which calls can be held to in every format.

A tool says what its text must be as a regular expression or in Lark. A Lark grammar in which no rule leads back to
itself is a regular expression, written differently; one that does is refused, as is what of Lark nobody needs for
such a text. ``%ignore`` allows what it names around every terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields

MAX_LENGTH = 50_000
"""Characters of a regular expression that a grammar may become."""

_MAX_DEPTH = 100

COMMON: Mapping[str, str] = {
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)",
    "FLOAT": r"(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    "NUMBER": r"(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+)",
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z_0-9]*",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\.)*"',
}
"""What Lark's own library of terminals has that texts are made of."""

_TOKEN = re.compile(
    r"""(?P<space>[ \t\f\r]+|(?://|\#)[^\n]*)
    |(?P<line>\n)
    |(?P<text>"(?:[^"\\\n]|\\.)*"i?)
    |(?P<pattern>/(?!/)(?:[^/\\\n]|\\.)+/[imslux]*)
    |(?P<name>[!?]?[A-Za-z_][A-Za-z_0-9]*(?:\.-?[0-9]+(?=\s*:))?)
    |(?P<number>[0-9]+)
    |(?P<sign>->|\.\.|%[a-z]+|[:|()\[\]?*+~,.{}])""",
    re.VERBOSE,
)
_REPEATS = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")


class NotRegularError(ValueError):
    """A grammar that can't be said as a regular expression; the message says why."""


def custom_format(form: Fields) -> str | None:
    """The regular expression that a custom tool's ``format`` holds its text to; ``None`` if any text will do.

    Raises :class:`InvalidRequestError`, with the code ``unsupported_value`` for a grammar that can't be held.
    """
    kind = form.required_string("type")
    if kind == "text":
        return None
    if kind != "grammar":
        raise form.wrong("type", "text or grammar")
    inner = form.fields("grammar") or form
    syntax, definition = inner.required_string("syntax"), inner.required_string("definition")
    if syntax not in ("lark", "regex"):
        raise inner.wrong("syntax", "lark or regex")
    try:
        return from_lark(definition) if syntax == "lark" else from_regex(definition)
    except NotRegularError as error:
        path = inner.at("definition")
        raise InvalidRequestError(
            f"`{path}`: a call can't be held to this grammar. {error} Leave the format out to take any text.",
            path,
            code="unsupported_value",
        ) from error


def from_regex(definition: str) -> str:
    """The expression without anchors around it, as the whole text has to match in any case."""
    if definition.startswith("^") and re.search(r"(?<!\\)(?:\\\\)*\$$", definition) and "|" not in definition:
        return definition[1:-1]
    return definition


def from_lark(definition: str) -> str:
    """The regular expression of a Lark grammar's ``start``. Raises :class:`NotRegularError`."""
    grammar = _Grammar()
    for number, line in _statements(definition):
        _Statement(line, number).read(grammar)
    if "start" not in grammar.rules:
        raise NotRegularError("It has no rule `start`.")
    around = "|".join(grammar.expand(name) for name in grammar.ignored)
    grammar = _Grammar(grammar.rules, between=f"(?:{around})*" if around else "")
    return grammar.between + grammar.expand("start")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


_Node = Callable[["_Grammar"], str]


@dataclass(slots=True)
class _Grammar:
    """The rules so far. ``between`` is what may stand behind every terminal."""

    rules: dict[str, _Node] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    between: str = ""
    _open: list[str] = field(default_factory=list)
    _known: dict[tuple[str, bool], str] = field(default_factory=dict)

    def expand(self, name: str) -> str:
        """A rule or terminal as an expression of its own."""
        inside = bool(self._open) and self._open[-1].isupper()
        if (name, inside) not in self._known:
            self._known[name, inside] = self._expanded(name, inside)
        return self._known[name, inside]

    def _expanded(self, name: str, inside: bool) -> str:
        if name in self._open:
            raise NotRegularError(f"The rule `{name}` leads back to itself.")
        if name not in self.rules:
            raise NotRegularError(f"There is no rule `{name}`.")
        if len(self._open) >= _MAX_DEPTH:
            raise NotRegularError("Its rules are nested too deeply.")
        self._open.append(name)
        found = self.rules[name](self)
        self._open.pop()
        if len(found) > MAX_LENGTH:
            raise NotRegularError(f"Written out it has more than {MAX_LENGTH} characters.")
        # A terminal is one piece, however many others it is made of.
        return found + self.between if name.isupper() and not inside else found

    def terminal(self, expression: str) -> str:
        """A text or pattern that stands in a rule, or in a terminal."""
        return expression if self._open and self._open[-1].isupper() else expression + self.between


def _statements(definition: str) -> list[tuple[int, list[_Token]]]:
    """Statements and the numbers of their lines; one goes on where a line begins with ``|`` and in brackets."""
    found: list[tuple[int, list[_Token]]] = []
    place, number, depth, fresh = 0, 1, 0, True
    while place < len(definition):
        match = _TOKEN.match(definition, place)
        if match is None:
            raise NotRegularError(f"Line {number} can't be read at {definition[place : place + 20]!r}.")
        place, kind, text = match.end(), str(match.lastgroup), match[0]
        if kind == "line":
            number, fresh = number + 1, depth == 0
        elif kind != "space":
            depth += (text in ("(", "[")) - (text in (")", "]")) if kind == "sign" else 0
            if fresh and text != "|":
                found.append((number, []))
            elif not found:
                raise NotRegularError(f"Line {number} begins with {text!r}.")
            found[-1][1].append(_Token(kind, text))
            fresh = False
    return found


class _Statement:
    """One statement that is being read."""

    def __init__(self, tokens: list[_Token], number: int) -> None:
        self._tokens = tokens
        self._number = number
        self._place = 0

    def read(self, grammar: _Grammar) -> None:
        """Puts what it says into the grammar."""
        first = self._take()
        if first.text == "%ignore":
            name = f"IGNORED_{len(grammar.ignored)}"
            grammar.rules[name] = self._choice()
            grammar.ignored.append(name)
        elif first.text == "%import":
            self._import(grammar)
        elif first.kind == "name" and self._sign(":"):
            grammar.rules[first.text.lstrip("!?").partition(".")[0]] = self._choice()
        else:
            raise self._unknown(first)
        if self._peek() is not None:
            raise self._unknown(self._take())

    def _import(self, grammar: _Grammar) -> None:
        library, name = self._take().text, self._take().text if self._sign(".") else ""
        alias = self._take().text if self._sign("->") else name
        if library != "common" or name not in COMMON:
            known = ", ".join(COMMON)
            raise NotRegularError(f"Line {self._number} imports what is not among common.{{{known}}}.")
        expression = COMMON[name]
        grammar.rules[alias] = lambda grammar: expression

    def _choice(self) -> _Node:
        branches = [self._sequence()]
        while self._sign("|"):
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        return lambda grammar: "(?:" + "|".join(branch(grammar) for branch in branches) + ")"

    def _sequence(self) -> _Node:
        items: list[_Node] = []
        while (token := self._peek()) is not None and token.text not in ("|", ")", "]"):
            if self._sign("->"):
                self._take()  # an alias names a tree, and there is none
                break
            items.append(self._repeated(self._atom()))
        return lambda grammar: "".join(item(grammar) for item in items)

    def _atom(self) -> _Node:
        token = self._take()
        if token.kind == "text":
            return self._text(token)
        if token.kind == "pattern":
            pattern, flags = token.text[1:].rsplit("/", 1)
            expression = f"(?{flags}:{pattern})" if flags else f"(?:{pattern})"
            expression = expression.replace("\\/", "/")
            return lambda grammar: grammar.terminal(expression)
        if token.kind == "name" and token.text[0] not in "!?":
            return lambda grammar: grammar.expand(token.text)
        if token.text in ("(", "["):
            inner = self._choice()
            self._expect(")" if token.text == "(" else "]")
            optional = "?" if token.text == "[" else ""
            return lambda grammar: f"(?:{inner(grammar)}){optional}"
        raise self._unknown(token)

    def _text(self, token: _Token) -> _Node:
        text = _unquoted(token.text)
        if self._sign(".."):
            last = _unquoted(self._take().text)
            if len(text) != 1 or len(last) != 1:
                raise NotRegularError(f"Line {self._number} has a range that is not from one letter to another.")
            expression = f"[{_escaped(text)}-{_escaped(last)}]"
        else:
            expression = _escaped(text)
            expression = f"(?i:{expression})" if token.text.endswith("i") else expression
        return lambda grammar: grammar.terminal(expression)

    def _repeated(self, inner: _Node) -> _Node:
        for sign in ("?", "*", "+"):
            if self._sign(sign):
                return lambda grammar: f"(?:{inner(grammar)}){sign}"
        if not self._sign("~"):
            return inner
        least = self._take().text
        most = self._take().text if self._sign("..") else least
        repeats = f"{{{least},{most}}}"
        if not _REPEATS.fullmatch(repeats):
            raise NotRegularError(f"Line {self._number} repeats something `~{least}..{most}` times.")
        return lambda grammar: f"(?:{inner(grammar)}){repeats}"

    def _peek(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self) -> _Token:
        token = self._peek()
        if token is None:
            raise NotRegularError(f"Line {self._number} ends too early.")
        self._place += 1
        return token

    def _sign(self, text: str) -> bool:
        """Takes the sign if it comes next."""
        token = self._peek()
        here = token is not None and token.kind == "sign" and token.text == text
        self._place += here
        return here

    def _expect(self, text: str) -> None:
        if not self._sign(text):
            raise NotRegularError(f"Line {self._number} needs a {text!r}.")

    def _unknown(self, token: _Token) -> NotRegularError:
        return NotRegularError(
            f"Line {self._number} has {token.text!r}, which can't be said in a regular expression."
        )


def _unquoted(text: str) -> str:
    body = text.removesuffix("i")[1:-1] if text.startswith('"') else ""
    escapes = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), body)


def _escaped(text: str) -> str:
    """The text as an expression, also between the brackets of a class."""
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
    return "".join(f"\\{char}" if char in r"\.+*?()|[]{}^$-" else named.get(char, char) for char in text)
