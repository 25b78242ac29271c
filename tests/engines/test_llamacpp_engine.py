"""The embedded engine with the small default model, on one thread.

Numbers of different batch sizes differ in their last digits, so these tests assert what must hold for any
text: how a generation ends, what is counted, and that text and ids agree.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from unspool.constrained import Constraint, ConstraintError, LLGuidanceConstraint, choice, json_schema, regex
from unspool.constrained.base import Mask
from unspool.constrained.vocabulary import vocabulary_of
from unspool.engines.base import (
    Chunk,
    ConstraintFailedError,
    ContextOverflowError,
    EncodesPrompts,
    Engine,
    EngineError,
    Sampling,
    SamplingError,
)
from unspool.engines.llamacpp import LlamaCppEngine, library
from unspool.engines.llamacpp.context import Context
from unspool.engines.llamacpp.loop import BatchLoop
from unspool.models import resolve

T = TypeVar("T")

GREEDY = Sampling(temperature=0, max_tokens=24)
CONTEXT = 1024


def question(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


PARIS = question("What is the capital of France?")


def run(test: Coroutine[Any, Any, T]) -> T:
    """Runs a test's coroutine; an engine that hangs fails it."""
    return asyncio.run(asyncio.wait_for(test, 120))


async def collect(
    engine: LlamaCppEngine,
    prompt: str | Sequence[int],
    sampling: Sampling,
    constraint: Constraint | None = None,
) -> list[Chunk]:
    return [chunk async for chunk in engine.stream(prompt, sampling, constraint)]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def ids_of(chunks: list[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.token_ids]


def endless(engine: LlamaCppEngine) -> dict[int, float]:
    """A bias against every token that would end the generation."""
    return dict.fromkeys(engine.tokenizer.eog, -100.0)


def check_whole(engine: LlamaCppEngine, chunks: list[Chunk]) -> None:
    """What holds for every generation without stop strings."""
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    last = chunks[-1]
    ids = ids_of(chunks)
    assert last.finish_reason in ("stop", "length")
    assert last.completion_tokens == len(ids) + (last.finish_reason == "stop")
    assert last.cached_tokens < last.prompt_tokens
    assert text_of(chunks) == engine.tokenizer.decode(ids)


@pytest.fixture(scope="module")
def model_path() -> Path:
    return resolve().path


@pytest.fixture(scope="module")
def engine(model_path: Path) -> Iterator[LlamaCppEngine]:
    engine = LlamaCppEngine(model_path, threads=1, context_length=CONTEXT, demo=True)
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.close())


@asynccontextmanager
async def started(path: Path, **options: Any) -> AsyncGenerator[LlamaCppEngine, None]:
    engine = LlamaCppEngine(path, threads=1, **options)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every decoded batch."""
    calls: list[int] = []
    decode = Context.decode

    def counted(context: Context) -> None:
        calls.append(1)
        decode(context)

    monkeypatch.setattr(Context, "decode", counted)
    return calls


class TestModel:
    def test_the_checkpoint_describes_itself(self, engine: LlamaCppEngine) -> None:
        assert isinstance(engine, Engine)
        info = engine.model
        assert info.id == "SmolLM2-135M-Instruct.Q4_1"
        assert info.context_length == CONTEXT
        assert info.chat_template is not None
        assert "<|im_start|>" in info.chat_template
        assert info.special == {
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
        }
        assert info.demo
        assert info.details["architecture"] == "llama"
        assert info.details["train_context"] == 8192

    def test_no_token_of_a_prompt_spans_a_cut(self, engine: LlamaCppEngine) -> None:
        tokenizer = engine.tokenizer
        text = question("a<|im_end|>b")
        cut = text.index("<|im_end|>") + 1
        whole, ids = tokenizer.encode_prompt(text), tokenizer.encode_prompt(text, [cut])
        end = next(token for token, spelling in tokenizer.special.items() if spelling == "<|im_end|>")
        assert (whole.count(end), ids.count(end)) == (2, 1)
        assert tokenizer.decode(ids) == tokenizer.decode(whole) == text
        assert ids == tokenizer.encode(text[:cut]) + tokenizer.encode(text[cut:])
        assert isinstance(tokenizer, EncodesPrompts)

    def test_the_tokenizer_knows_special_tokens_by_id(self, engine: LlamaCppEngine) -> None:
        tokenizer = engine.tokenizer
        (start,) = tokenizer.encode("<|im_start|>")
        assert tokenizer.special[start] == "<|im_start|>"
        assert tokenizer.piece(start) == b"<|im_start|>"
        assert len(tokenizer.encode("<|im_start|>", parse_special=False)) > 1
        assert set(tokenizer.special) < set(range(tokenizer.size))

    @pytest.mark.parametrize("text", ["", "Hello world", " a\n\n\tb ", "Ünï €🙂 日本", "x\0y", "<|im_end|>\n"])
    def test_text_survives_the_tokenizer(self, engine: LlamaCppEngine, text: str) -> None:
        assert engine.tokenizer.decode(engine.tokenizer.encode(text)) == text

    def test_lone_surrogates_become_question_marks(self, engine: LlamaCppEngine) -> None:
        assert engine.tokenizer.decode(engine.tokenizer.encode("a\ud800b")) == "a?b"

    def test_bos_leads_a_prompt_once_where_the_model_wants_it(
        self, engine: LlamaCppEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tokenizer = engine.tokenizer
        assert tokenizer.encode_prompt("Hi") == tokenizer.encode("Hi")
        (bos,) = tokenizer.encode("<|im_start|>")
        monkeypatch.setattr(tokenizer, "bos", bos)
        assert tokenizer.encode_prompt("Hi") == [bos, *tokenizer.encode("Hi")]
        assert tokenizer.encode_prompt("<|im_start|>Hi") == [bos, *tokenizer.encode("Hi")]
        assert tokenizer.encode_prompt("") == [bos]

    def test_loading_reports_progress(self, model_path: Path) -> None:
        seen: list[float] = []

        async def load() -> None:
            async with started(model_path, context_length=64, on_load=seen.append):
                pass

        run(load())
        assert seen == sorted(seen)
        assert seen[-1] == 1.0

    def test_a_damaged_file_is_refused_with_llamas_reason(self, model_path: Path, tmp_path: Path) -> None:
        damaged = tmp_path / "damaged.gguf"
        damaged.write_bytes(model_path.read_bytes()[:5_000_000])
        with pytest.raises(EngineError, match=r"can't load .*damaged.gguf \(.+\); check that the file"):
            run(LlamaCppEngine(damaged).start())

    def test_a_context_without_memory_is_refused(
        self, engine: LlamaCppEngine, model_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(library.load(), "llama_init_from_model", lambda *_: None)
        with pytest.raises(EngineError, match="choose a smaller context length"):
            run(LlamaCppEngine(model_path).start())

    def test_a_model_that_does_not_generate_is_refused(
        self, engine: LlamaCppEngine, model_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(library.load(), "llama_model_has_encoder", lambda _: True)
        with pytest.raises(EngineError, match="choose one that generates"):
            run(LlamaCppEngine(model_path).start())

    def test_an_engine_must_be_started(self, model_path: Path) -> None:
        engine = LlamaCppEngine(model_path)
        with pytest.raises(EngineError, match="not started"):
            _ = engine.model
        with pytest.raises(EngineError, match="not started"):
            run(collect(engine, "Hi", GREEDY))


class TestGeneration:
    def test_greedy_repeats_itself(self, engine: LlamaCppEngine) -> None:
        first = run(collect(engine, PARIS, GREEDY))
        check_whole(engine, first)
        assert first[-1].finish_reason == "stop"
        assert "Paris" in text_of(first)
        assert ids_of(run(collect(engine, PARIS, GREEDY))) == ids_of(first)
        assert ids_of(run(collect(engine, engine.tokenizer.encode(PARIS), GREEDY))) == ids_of(first)

    def test_text_and_prompt_ids_are_streamed_token_by_token(self, engine: LlamaCppEngine) -> None:
        chunks = run(collect(engine, PARIS, GREEDY))
        assert len(chunks) == chunks[-1].completion_tokens
        assert chunks[-1].prompt_tokens == len(engine.tokenizer.encode(PARIS))

    def test_more_requests_than_slots_all_complete(self, engine: LlamaCppEngine) -> None:
        async def many() -> list[list[Chunk]]:
            return await asyncio.gather(
                *(
                    collect(
                        engine,
                        question(f"Write about {number}." + " Please." * 8 * number),
                        Sampling(temperature=0.8, top_p=0.9, max_tokens=2 + 3 * number, seed=number),
                    )
                    for number in range(7)
                )
            )

        for number, chunks in enumerate(run(many())):
            check_whole(engine, chunks)
            assert chunks[-1].completion_tokens <= 2 + 3 * number
            if chunks[-1].finish_reason == "length":
                assert len(ids_of(chunks)) == 2 + 3 * number

    def test_streams_advance_together(self, engine: LlamaCppEngine, decodes: list[int]) -> None:
        sampling = Sampling(temperature=0, max_tokens=16, logit_bias=endless(engine))

        async def both() -> None:
            await asyncio.gather(*(collect(engine, question(f"Count to {n}."), sampling) for n in range(4)))

        run(both())
        assert len(decodes) < 2 * 16

    def test_a_seed_repeats(self, engine: LlamaCppEngine) -> None:
        prompt = question("Tell me a story.")

        def sample(seed: int) -> list[int]:
            return ids_of(run(collect(engine, prompt, Sampling(temperature=1.5, max_tokens=12, seed=seed))))

        sample(1)  # from here on the prompt is cached, and every run computes the same batches
        assert sample(2) == sample(2)
        assert sample(2) != sample(3)

    def test_split_characters_arrive_whole(self, engine: LlamaCppEngine) -> None:
        parrot = engine.tokenizer.encode("🦜")
        assert len(parrot) == len(set(parrot)) > 1
        # Each of its tokens in turn: the bias falls, and the penalty takes away what was used.
        sampling = Sampling(
            temperature=0,
            max_tokens=len(parrot),
            logit_bias={token: 1000.0 - 100 * place for place, token in enumerate(parrot)},
            presence_penalty=1000.0,
        )
        chunks = run(collect(engine, PARIS, sampling))
        assert [chunk.text for chunk in chunks] == [*[""] * (len(parrot) - 1), "🦜"]
        assert ids_of(chunks) == parrot

    def test_special_tokens_are_spelled_out(self, engine: LlamaCppEngine) -> None:
        (start,) = engine.tokenizer.encode("<|im_start|>")
        chunks = run(collect(engine, PARIS, Sampling(temperature=0, max_tokens=2, logit_bias={start: 1000.0})))
        assert text_of(chunks) == "<|im_start|><|im_start|>"
        assert ids_of(chunks) == [start, start]


class TestEndings:
    def test_the_token_limit(self, engine: LlamaCppEngine) -> None:
        chunks = run(collect(engine, PARIS, Sampling(temperature=0, max_tokens=3)))
        assert (chunks[-1].finish_reason, chunks[-1].completion_tokens) == ("length", 3)
        assert text_of(chunks) == "The capital of"

    def test_the_context_limit(self, model_path: Path) -> None:
        async def test() -> None:
            async with started(model_path, context_length=64) as engine:
                prompt = (engine.tokenizer.encode(" and on") * 64)[:59]
                chunks = await collect(engine, prompt, Sampling(temperature=0, logit_bias=endless(engine)))
                assert (chunks[-1].finish_reason, chunks[-1].completion_tokens) == ("length", 5)

        run(test())

    @pytest.mark.parametrize(
        ("stop", "text", "ids"),
        [
            ((" of",), "The capital", "The capital"),  # exactly one token
            (("tal of Fr",), "The capi", "The"),  # from within one token into another
            (("France is", "is"), "The capital of ", "The capital of"),  # over several tokens
            (("The",), "", ""),
        ],
    )
    def test_a_stop_string_ends_the_text_before_it(
        self, engine: LlamaCppEngine, stop: tuple[str, ...], text: str, ids: str
    ) -> None:
        chunks = run(collect(engine, PARIS, Sampling(temperature=0, max_tokens=24, stop=stop)))
        assert text_of(chunks) == text
        assert chunks[-1].finish_reason == "stop"
        assert chunks[-1].stop_sequence in stop
        assert engine.tokenizer.decode(ids_of(chunks)) == ids
        for chunk in chunks:
            if chunk.token_ids:
                assert chunk.text == engine.tokenizer.decode(chunk.token_ids)

    def test_a_prompt_is_counted_before_it_is_answered(self, engine: LlamaCppEngine) -> None:
        chunks = run(collect(engine, PARIS, GREEDY))
        counted = run(engine.count_tokens(PARIS))
        assert {chunk.prompt_tokens for chunk in chunks} == {counted}
        assert chunks[-1].stop_sequence is None

    def test_what_only_began_like_a_stop_string_is_delivered(self, engine: LlamaCppEngine) -> None:
        plain = run(collect(engine, PARIS, GREEDY))
        sampling = Sampling(temperature=0, max_tokens=24, stop=("capital city", "Paris!"))
        held = run(collect(engine, PARIS, sampling))
        assert text_of(held) == text_of(plain)
        assert ids_of(held) == ids_of(plain)
        assert len(held) < len(plain)

    @pytest.mark.parametrize("length", [CONTEXT, CONTEXT + 1])
    def test_a_prompt_that_leaves_no_room_is_refused(self, engine: LlamaCppEngine, length: int) -> None:
        with pytest.raises(ContextOverflowError) as caught:
            run(collect(engine, [5] * length, GREEDY))
        assert (caught.value.prompt_tokens, caught.value.context_length) == (length, CONTEXT)

    @pytest.mark.parametrize(
        ("prompt", "sampling", "problem"),
        [
            ("", GREEDY, "The prompt is empty"),
            ([], GREEDY, "The prompt is empty"),
            ([1, 10**6], GREEDY, "The prompt has the token id 1000000"),
            ([1, -1], GREEDY, "The prompt has the token id -1"),
            ("Hi", Sampling(logit_bias={10**6: 1.0}), "logit_bias has the token id 1000000"),
            ("Hi", Sampling(max_tokens=0), "max_tokens is 0"),
            ("Hi", Sampling(repetition_penalty=0.0), "repetition_penalty is 0"),
        ],
    )
    def test_what_can_not_work_is_refused(
        self, engine: LlamaCppEngine, prompt: str | list[int], sampling: Sampling, problem: str
    ) -> None:
        with pytest.raises(EngineError, match=problem) as caught:
            run(collect(engine, prompt, sampling))
        # Whatever is no fault of the prompt is a setting of the request, and named.
        assert isinstance(caught.value, SamplingError) == (sampling is not GREEDY)

    def test_a_request_that_fails_leaves_the_others_alone(self, engine: LlamaCppEngine) -> None:
        impossible = Sampling(logit_bias=dict.fromkeys(range(engine.tokenizer.size), float("-inf")))

        async def both() -> tuple[list[Chunk] | BaseException, list[Chunk] | BaseException]:
            return await asyncio.gather(
                collect(engine, PARIS, GREEDY), collect(engine, PARIS, impossible), return_exceptions=True
            )

        good, bad = run(both())
        assert isinstance(bad, EngineError)
        assert "No token is possible" in str(bad)
        assert isinstance(good, list)
        check_whole(engine, good)


class TestReuse:
    def test_a_continued_conversation_reuses_what_was_computed(self, engine: LlamaCppEngine) -> None:
        first = question("Name three colours, and say why you like them.")
        answer = run(collect(engine, first, GREEDY))
        assert answer[-1].cached_tokens < 10
        second = engine.tokenizer.encode(first) + ids_of(answer) + engine.tokenizer.encode(question("And why?"))
        again = run(collect(engine, second, GREEDY))
        # Its last token was chosen but never decoded.
        assert again[-1].cached_tokens >= answer[-1].prompt_tokens + len(ids_of(answer)) - 1

    def test_parallel_conversations_share_their_beginning(self, engine: LlamaCppEngine) -> None:
        system = "<|im_start|>system\nYou are a parrot that knows everything about ships.<|im_end|>\n"
        sampling = Sampling(temperature=0, logit_bias=endless(engine))

        async def both() -> tuple[list[Chunk], list[Chunk]]:
            async with aclosing(engine.stream(system + question("Who are you?"), sampling)) as running:
                await anext(running)
                beside = await collect(engine, system + question("What is a mast?"), GREEDY)
            return beside, await collect(engine, system + question("What is a mast?"), GREEDY)

        beside, after = run(both())
        assert beside[-1].cached_tokens >= len(engine.tokenizer.encode(system))
        assert after[-1].cached_tokens == after[-1].prompt_tokens - 1
        check_whole(engine, beside)

    def test_requests_that_outgrow_the_context_together_are_recomputed(
        self, model_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        evicted: list[int] = []
        evict = BatchLoop._evict

        def counted(loop: BatchLoop, request: Any) -> None:
            evicted.append(request.generated)
            evict(loop, request)

        monkeypatch.setattr(BatchLoop, "_evict", counted)

        async def crowd() -> None:
            async with started(model_path, context_length=256, batch_size=64) as engine:
                sampling = Sampling(temperature=0, max_tokens=40, logit_bias=endless(engine))
                prompts = [question(f"{number} {'is a number. ' * 8}") for number in range(4)]
                for chunks in await asyncio.gather(*(collect(engine, p, sampling) for p in prompts)):
                    check_whole(engine, chunks)
                    assert len(ids_of(chunks)) == 40

        run(crowd())
        assert any(evicted)


class TestCancelling:
    def test_a_closed_stream_frees_its_slot(self, model_path: Path, decodes: list[int]) -> None:
        async def test() -> None:
            async with started(model_path, slots=1, context_length=CONTEXT) as engine:
                sampling = Sampling(logit_bias=endless(engine))
                async with aclosing(engine.stream(PARIS, sampling)) as stream:
                    await anext(stream)
                    await anext(stream)
                check_whole(engine, await collect(engine, PARIS, Sampling(temperature=0, max_tokens=3)))

        run(test())
        assert len(decodes) < 200

    def test_a_cancelled_task_frees_its_slot(self, model_path: Path, decodes: list[int]) -> None:
        async def test() -> None:
            async with started(model_path, slots=1, context_length=CONTEXT) as engine:
                sampling = Sampling(logit_bias=endless(engine))
                running = asyncio.create_task(collect(engine, PARIS, sampling))
                waiting = asyncio.create_task(collect(engine, PARIS, sampling))
                while len(decodes) < 4:
                    await asyncio.sleep(0.01)
                waiting.cancel()
                running.cancel()
                results = await asyncio.gather(running, waiting, return_exceptions=True)
                assert [type(result) for result in results] == [asyncio.CancelledError] * 2
                check_whole(engine, await collect(engine, PARIS, Sampling(temperature=0, max_tokens=3)))

        run(test())
        assert len(decodes) < 200

    def test_an_event_loop_that_ended_frees_the_slot(self, model_path: Path, decodes: list[int]) -> None:
        async def test() -> None:
            async with started(model_path, slots=1, context_length=CONTEXT) as engine:
                stream = engine.stream(PARIS, Sampling(logit_bias=endless(engine)))
                other = asyncio.new_event_loop()
                await asyncio.to_thread(lambda: other.run_until_complete(anext(stream)))
                other.close()
                check_whole(engine, await collect(engine, PARIS, Sampling(temperature=0, max_tokens=3)))
                await stream.aclose()

        run(test())
        assert len(decodes) < 200

    def test_closing_the_engine_ends_everything(self, engine: LlamaCppEngine, model_path: Path) -> None:
        threads = threading.active_count()

        async def test() -> None:
            async with started(model_path, slots=1, context_length=CONTEXT) as engine:
                sampling = Sampling(logit_bias=endless(engine))
                tasks = [asyncio.create_task(collect(engine, PARIS, sampling)) for _ in range(3)]
                await asyncio.sleep(0.1)
            for chunks in await asyncio.gather(*tasks):
                assert chunks[-1].finish_reason == "cancelled"
            with pytest.raises(EngineError, match="closed"):
                await collect(engine, PARIS, GREEDY)
            with pytest.raises(EngineError, match="closed"):
                await collect(engine, [1, 2, 3], GREEDY)
            await engine.close()

        run(test())
        assert threading.active_count() == threads


class TestFailure:
    def test_a_failure_in_the_thread_reaches_every_request(
        self, model_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decode = Context.decode

        async def test() -> None:
            async with started(model_path, slots=2, context_length=CONTEXT) as engine:
                seen = 0

                def failing(context: Context) -> None:
                    nonlocal seen
                    seen += 1
                    if seen > 3:
                        raise EngineError("llama.cpp failed to decode with code -3.")
                    decode(context)

                monkeypatch.setattr(Context, "decode", failing)
                results = await asyncio.gather(
                    *(collect(engine, PARIS, Sampling(temperature=0)) for _ in range(5)),
                    return_exceptions=True,
                )
                for result in results:
                    assert isinstance(result, EngineError)
                    assert "must be started again: llama.cpp failed to decode with code -3" in str(result)
                with pytest.raises(EngineError, match="must be started again"):
                    await collect(engine, PARIS, GREEDY)

        run(test())

    def test_llamas_own_failure_is_an_error(self, model_path: Path) -> None:
        async def test() -> None:
            async with started(model_path, slots=1, context_length=CONTEXT) as engine:
                loop = engine._ready().loop
                with pytest.raises(EngineError, match="gave no logits for row 7"):
                    loop._context.logits(7)
                loop._context.add(10**6, 0, 0, True)
                with pytest.raises(EngineError, match="failed to decode with code -1"):
                    loop._context.decode()

        run(test())


def test_the_documented_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    exec(compile(program, "docs/models.md", "exec"), {})
    assert "Paris" in capsys.readouterr().out


class TestConstraints:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["celsius", "fahrenheit", "<|im_end|>"]},
            "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        },
        "required": ["city", "unit", "days"],
        "additionalProperties": False,
    }

    def test_the_tokenizer_tells_its_tokens(self, engine: LlamaCppEngine) -> None:
        tokenizer = engine.tokenizer
        vocabulary = vocabulary_of(tokenizer)
        assert vocabulary.end_tokens == tokenizer.eog
        assert tokenizer.added.keys().isdisjoint(tokenizer.special)
        for text in ('{"city": "Zoë"}', "<|im_end|>", "x <|im_start|>"):
            ids = vocabulary.encode(text.encode())
            assert tokenizer.decode(ids) == text
            assert vocabulary.special.isdisjoint(ids)

    def constraint(self, engine: LlamaCppEngine) -> LLGuidanceConstraint:
        return LLGuidanceConstraint(json_schema(self.SCHEMA, max_string=24, max_items=3), engine.tokenizer)

    def check(self, text: str) -> None:
        value = json.loads(text)
        assert list(value) == ["city", "unit", "days"]
        assert len(value["city"]) <= 24
        assert value["unit"] in self.SCHEMA["properties"]["unit"]["enum"]
        assert 1 <= len(value["days"]) <= 3
        assert all(isinstance(day, int) for day in value["days"])

    @pytest.mark.parametrize("seed", range(3))
    def test_the_default_model_can_only_write_what_the_schema_allows(
        self, engine: LlamaCppEngine, seed: int
    ) -> None:
        prompt = question("How will the weather be in Zurich?")
        chunks = run(collect(engine, prompt, Sampling(seed=seed), self.constraint(engine)))
        assert chunks[-1].finish_reason == "stop"
        assert text_of(chunks) == engine.tokenizer.decode(ids_of(chunks))
        self.check(text_of(chunks))

    def test_the_generation_ends_where_nothing_may_follow(self, engine: LlamaCppEngine) -> None:
        held = LLGuidanceConstraint(choice(["Yes", "No, never"]), engine.tokenizer)
        # Not even the end token is needed, which this bias would keep out.
        chunks = run(collect(engine, PARIS, Sampling(logit_bias=endless(engine)), held))
        assert text_of(chunks) in ("Yes", "No, never")
        assert (chunks[-1].finish_reason, chunks[-1].completion_tokens) == ("stop", len(ids_of(chunks)))

    def test_a_text_that_is_complete_at_the_token_limit_was_not_cut(self, engine: LlamaCppEngine) -> None:
        tokens = len(vocabulary_of(engine.tokenizer).encode(b"Paris, of course!"))
        assert tokens > 1
        for limit, reason in ((tokens, "stop"), (tokens - 1, "length")):
            held = LLGuidanceConstraint(choice(["Paris, of course!"]), engine.tokenizer)
            assert run(collect(engine, PARIS, Sampling(max_tokens=limit), held))[-1].finish_reason == reason

    def test_limits_stops_and_seeds_hold_under_a_constraint(self, engine: LlamaCppEngine) -> None:
        def generate(**sampling: Any) -> list[Chunk]:
            held = LLGuidanceConstraint(regex("[a-z]{200}"), engine.tokenizer)
            return run(collect(engine, PARIS, Sampling(**sampling), held))

        cut = generate(max_tokens=4)
        assert (cut[-1].finish_reason, len(ids_of(cut))) == ("length", 4)
        text = text_of(generate(seed=5, max_tokens=8))
        assert text_of(generate(seed=5, max_tokens=8)) == text
        stopped = generate(seed=5, max_tokens=8, stop=(text[3:5],))
        assert text_of(stopped) == text[: text.index(text[3:5])]
        assert stopped[-1].finish_reason == "stop"

    def test_each_request_has_its_own_constraint(self, engine: LlamaCppEngine) -> None:
        async def generate() -> list[list[Chunk]]:
            held = [LLGuidanceConstraint(regex(f"{letter}{{9}}"), engine.tokenizer) for letter in "abcdef"]
            return await asyncio.gather(
                collect(engine, PARIS, GREEDY), *(collect(engine, PARIS, Sampling(), each) for each in held)
            )

        free, *constrained = run(generate())
        check_whole(engine, free)
        assert [text_of(chunks) for chunks in constrained] == [letter * 9 for letter in "abcdef"]

    def test_a_constraint_that_cannot_go_on_ends_only_its_own_request(self, engine: LlamaCppEngine) -> None:
        class Failing(LLGuidanceConstraint):
            def mask(self, out: Mask) -> bool:
                raise ConstraintError("The grammar can't go on here.")

        async def both() -> tuple[list[Chunk] | BaseException, list[Chunk] | BaseException]:
            held = Failing(regex("a+"), engine.tokenizer)
            return await asyncio.gather(
                collect(engine, PARIS, GREEDY), collect(engine, PARIS, GREEDY, held), return_exceptions=True
            )

        good, bad = run(both())
        assert isinstance(bad, ConstraintFailedError)
        assert "The grammar can't go on here." in str(bad)
        assert isinstance(good, list)
        check_whole(engine, good)
