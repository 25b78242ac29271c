"""Many random demands on the small default model, over HTTP: whatever it wants to say, what comes back validates.

``python -m tests.server.constrained_runs`` sends 200 requests with ``tool_choice: required`` over three formats
and 200 with a schema under ``response_format``, with reasoning budgets of 0, 16 and none. Every second one is
streamed. It prints how many validate and each one that does not; a few of them are among the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jsonschema
import openai

from tests.server.serving import client, served
from unspool.constrained.vocabulary import vocabulary_of
from unspool.engines.llamacpp import LlamaCppEngine
from unspool.models import resolve
from unspool.server.service import Settings
from unspool.server.template import CHATML

FORMATS = ("hermes", "qwen3_coder", "llama3_json")
BUDGETS = (0, 16, None)
THINKING = CHATML + "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"
"""A prompt that opens the reasoning. The model is too small to end it, so it gets one with a budget only."""
WORDS = ("city", "unit", "days", "name", "count", "options", "tags", "place", "when", "notes")
SLOTS = 4
_OVER = 4  # tokens of reasoning beyond the budget: three to complete a character, one for a text cut differently


class SharedEngine(LlamaCppEngine):
    """One engine behind several servers in turn: :meth:`close` leaves it to :meth:`end`."""

    async def close(self) -> None:
        """Left open."""

    async def end(self) -> None:
        """Closes it."""
        await super().close()


@contextmanager
def loaded(context_length: int = 8192) -> Iterator[SharedEngine]:
    """The default model, ready."""
    engine = SharedEngine(resolve().path, context_length=context_length, slots=SLOTS, demo=True)
    asyncio.run(engine.start())
    try:
        yield engine
    finally:
        asyncio.run(engine.end())


def random_schema(chance: random.Random, depth: int = 2) -> dict[str, Any]:
    """The schema of an object with a few bounded members, some of them nested."""
    names = chance.sample(WORDS, chance.randint(1, 3))
    return {
        "type": "object",
        "properties": {name: _value(chance, depth) for name in names},
        "required": chance.sample(names, chance.randint(1, len(names))),
        "additionalProperties": False,
    }


def _value(chance: random.Random, depth: int) -> dict[str, Any]:
    kind = chance.choice(
        ("string", "enum", "integer", "boolean", "nullable", *(("array", "object") if depth else ()))
    )
    match kind:
        case "string":
            return {"type": "string", "maxLength": chance.randint(1, 12)}
        case "enum":
            return {"enum": [chance.choice(("red", 'a "b"', "ö", "x y")), chance.randint(0, 9)]}
        case "integer":
            return {"type": "integer", "minimum": 0, "maximum": chance.randint(1, 500)}
        case "nullable":
            return {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": -5, "maximum": 5}]}
        case "array":
            return {"type": "array", "items": _value(chance, depth - 1), "minItems": 1, "maxItems": 2}
        case "object":
            return random_schema(chance, depth - 1)
    return {"type": kind}


@dataclass(frozen=True, slots=True)
class Case:
    """One request and what is checked of its answer."""

    number: int
    label: str
    options: dict[str, Any]
    problem: Callable[[Any], str | None]

    def run(self, api: openai.OpenAI) -> str | None:
        """What is wrong with the answer, ``None`` if it validates."""
        options: dict[str, Any] = {
            "model": "default",
            "messages": [{"role": "user", "content": f"Tell me about place number {self.number}."}],
            "seed": self.number,
            # Room for a model that likes line breaks: between any two parts of a value there may be 64 of them.
            "max_tokens": 3000,
            **self.options,
        }
        try:
            (choice,) = self._answer(api, options).choices
        except openai.OpenAIError as error:
            return f"{self.label}, number {self.number}: {error!r}"
        found = self.problem(choice)
        return None if found is None else f"{self.label}, number {self.number}: {found}\n    {choice}"

    def _answer(self, api: openai.OpenAI, options: dict[str, Any]) -> Any:
        if self.number % 2 == 0:
            return api.chat.completions.create(**options)
        with api.chat.completions.stream(**options) as stream:
            for _ in stream:
                pass
            return stream.current_completion_snapshot


def _invalid(text: str | None, schema: Any) -> str | None:
    try:
        jsonschema.validate(json.loads(text or ""), schema)
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{text!r} does not validate: {str(error).splitlines()[0]}"
    return None


def call_cases(count: int, label: str) -> list[Case]:
    """Requests in which a call to one of a few random tools must come."""
    cases = []
    for number in range(count):
        chance = random.Random(f"{label} {number}")
        schemas = {f"tool_{name}": random_schema(chance) for name in chance.sample(WORDS, chance.randint(1, 3))}
        tools = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in schemas.items()
        ]

        # A small model that may call again goes on until it is cut; what it has then are whole calls.
        parallel = number % 10 == 0
        ends = ("tool_calls", "length") if parallel else ("tool_calls",)

        def problem(choice: Any, schemas: dict[str, Any] = schemas, ends: Sequence[str] = ends) -> str | None:
            if choice.finish_reason not in ends or choice.message.content or not choice.message.tool_calls:
                return "there are not just calls"
            calls = [call.function for call in choice.message.tool_calls]
            found = [_invalid(call.arguments, schemas[call.name]) for call in calls]
            return next((each for each in found if each), None)

        options = {"tools": tools, "tool_choice": "required", "parallel_tool_calls": parallel}
        if parallel:
            options["max_tokens"] = 600
        cases.append(Case(number, label, options, problem))
    return cases


def response_cases(count: int, budget: int | None, engine: LlamaCppEngine) -> list[Case]:
    """Requests whose content is held to a random schema, after at most ``budget`` tokens of reasoning."""
    vocabulary = vocabulary_of(engine.tokenizer)
    openers = [token for token in range(vocabulary.spare) if vocabulary.tokens[token].strip().startswith(b"<")]
    cases = []
    for number in range(count):
        schema = random_schema(random.Random(f"{budget} {number}"))

        def problem(choice: Any, schema: dict[str, Any] = schema) -> str | None:
            reasoning = getattr(choice.message, "reasoning", None)
            used = len(engine.tokenizer.encode(reasoning or ""))
            if budget is not None and used > (budget + _OVER if budget else 0):
                return f"{used} tokens of reasoning"
            return _invalid(choice.message.content, schema) or (
                None if choice.finish_reason == "stop" else choice.finish_reason
            )

        options: dict[str, Any] = {
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        }
        if budget is not None:
            options["extra_body"] = {"thinking_token_budget": budget}
        else:
            # Nothing would end the reasoning of a model of this size, so it is kept from beginning one.
            options["logit_bias"] = {str(token): -100 for token in openers}
        cases.append(Case(number, f"budget {budget}", options, problem))
    return cases


def run(engine: SharedEngine, settings: Settings, cases: Sequence[Case]) -> list[str]:
    """What is wrong with the answers of a server with these settings; several requests run together."""
    with served(engine, settings) as url, client(url) as api, ThreadPoolExecutor(SLOTS) as pool:
        patient = api.with_options(timeout=600)
        return [found for found in pool.map(lambda case: case.run(patient), cases) if found is not None]


def runs(engine: SharedEngine, requests: int) -> Iterator[tuple[str, int, list[str]]]:
    """What was tried, how often, and what went wrong; ``requests`` for calls and as many for content."""
    for form in FORMATS:
        count = -(-requests // len(FORMATS))
        yield f"calls in {form}", count, run(engine, Settings(format=form), call_cases(count, form))
    for budget in BUDGETS:
        count = -(-requests // len(BUDGETS))
        template = None if budget is None else THINKING
        settings = Settings(format="hermes", chat_template=template)
        yield f"content, budget {budget}", count, run(engine, settings, response_cases(count, budget, engine))


def main() -> None:
    """Prints a line for each run, and what did not validate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200, help="of each of the two kinds (default: 200)")
    failed = 0
    with loaded() as engine:
        for what, count, wrong in runs(engine, parser.parse_args().requests):
            failed += len(wrong)
            print(f"{what}: {count - len(wrong)} of {count} validate", *wrong, sep="\n  ", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
