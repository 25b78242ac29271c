"""What a text is held to, before any tokenizer is known: regular expressions, choices, Lark and EBNF.

JSON Schema is in :mod:`unspool.constrained.schema`. A :class:`Grammar` is data; what compiles it is
:class:`~unspool.constrained.guidance.LLGuidanceConstraint`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from unspool.constrained.base import ConstraintError, GrammarError

Kind: TypeAlias = Literal["json_schema", "regex", "choice", "ebnf", "lark"]


@dataclass(frozen=True, slots=True)
class Source:
    """What a grammar was made of, for backends and servers that have other notations.

    ``text`` is the schema as JSON, the regular expression, the texts of a choice as a JSON list, or the grammar.
    ``strict``: the schema was demanded.
    """

    kind: Kind
    text: str
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar in the notation of the backend that it is for, llguidance unless a backend made it.

    ``warnings`` say what of a JSON Schema it does not enforce; then :meth:`problems` checks a finished value
    against the first of ``schemas`` (JSON texts, the strictest first) that can be used.
    """

    text: str
    warnings: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    source: Source | None = None

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The grammars that it is made of, as llguidance has them, and in the first of which it starts."""
        if self.text.startswith("{"):
            parts: list[dict[str, Any]] = json.loads(self.text)["grammars"]
            return parts
        return [{"lark_grammar": self.text}]

    def problems(self, text: str) -> list[str]:
        """What is wrong with a finished text that the grammar could not prevent: one sentence for each place.

        Only a grammar with ``warnings`` has anything to check, as long as the generation was not cut.
        """
        if not self.schemas:
            return []
        from unspool.constrained.validation import problems

        return problems(text, [json.loads(schema) for schema in self.schemas])


def guidance() -> Any:
    """llguidance's matcher class. Raises :class:`ConstraintError` if it isn't installed."""
    try:
        from llguidance import LLMatcher
    except ImportError as error:
        raise ConstraintError("Grammars need llguidance: pip install 'unspool[constrained]'.") from error
    return LLMatcher


def regex(pattern: str) -> Grammar:
    """Text that matches a regular expression as a whole, in the syntax of Rust's ``regex``.

    There is no look-around and there are no back-references. Raises :class:`GrammarError` if it can't be read.
    """
    what = "regular expression"
    return _checked(guidance().grammar_from_regex(_encodable(pattern, what)), what, Source("regex", pattern))


def choice(options: Iterable[str]) -> Grammar:
    """One of these texts. Raises :class:`GrammarError` if there is none."""
    texts = list(dict.fromkeys(options))
    if not texts or not all(texts):
        raise GrammarError("A choice needs at least one text, and none of them may be empty.")
    grammar = lark("start: " + " | ".join(quoted(_encodable(text, "choice")) for text in texts))
    return replace(grammar, source=Source("choice", json.dumps(texts)))


def lark(text: str) -> Grammar:
    """A grammar in llguidance's dialect of Lark, whose first rule is ``start``.

    Tokens are named by id, as in ``<[151657]>``. Raises :class:`GrammarError` with the line that is wrong.
    """
    what = "Lark grammar"
    return _checked(guidance().grammar_from_lark(_encodable(text, what)), what, Source("lark", text))


def ebnf(text: str) -> Grammar:
    """A grammar in llama.cpp's GBNF, the EBNF of vLLM and SGLang, whose first rule is ``root``.

    Raises :class:`GrammarError` if it can't be read.
    """
    guidance()
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        translated = gbnf_to_lark(_encodable(text, "EBNF grammar"))
    except GrammarError:
        raise
    except Exception as error:  # its reader lets any kind of error through
        raise GrammarError(f"The EBNF grammar can't be read: {error}") from error
    return replace(lark(translated), source=Source("ebnf", text))


def quoted(text: str) -> str:
    """A text as a string of Lark, whose lexer takes no DEL as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _encodable(text: str, what: str) -> str:
    """The text, if it can be written as UTF-8. Raises :class:`GrammarError`."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise GrammarError(
            f"The {what} can't be used: {text[error.start]!a} at index {error.start} is a lone surrogate."
        ) from error
    return text


def validated(text: str) -> tuple[bool, list[str]]:
    """Whether llguidance refuses a grammar, and what it says about it."""
    validate = guidance().validate_grammar_with_warnings
    try:
        failed, messages = validate(text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which is no Exception and has no public class
            raise
        return True, [f"llguidance failed: {error}"]
    return failed, messages


def _checked(text: str, what: str, source: Source) -> Grammar:
    failed, messages = validated(text)
    if failed:
        raise GrammarError(f"The {what} can't be used: {messages[0].strip()}")
    return Grammar(text, source=source)
