"""The embedded engine: any GGUF file, in this process, on llama.cpp.

This is the asyncio side. It checks and tokenizes prompts, hands requests to the engine thread and passes
their chunks on; :mod:`unspool.engines.llamacpp.loop` does the work.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.engines.base import Chunk, ContextOverflowError, EngineError, ModelInfo, Sampling, SamplingError
from unspool.engines.llamacpp.context import Context
from unspool.engines.llamacpp.loop import BatchLoop, Request
from unspool.engines.llamacpp.model import Model, Tokenizer
from unspool.engines.llamacpp.output import Output
from unspool.engines.llamacpp.sampler import Sampler
from unspool.engines.llamacpp.slots import Slots

if TYPE_CHECKING:
    from unspool.constrained import Constraint

_DEFAULT_CONTEXT = 16384
_MAX_DEFAULT_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Model
    info: ModelInfo
    loop: BatchLoop


class LlamaCppEngine:
    """Serves one GGUF file to several requests at once.

    ``model_id`` is the name clients see (default: the file's). ``slots`` is how many requests run together;
    more wait. ``context_length`` is the most tokens one request may have, prompt and output together, and
    all running requests share that many (default: what the model was trained for, at most 16384).
    ``threads`` is the number of CPU threads (default: physical cores, at most 8). ``batch_size`` is the most
    tokens per step; more than the default gains little on a CPU and delays cancelling. ``gpu_layers`` -1 puts
    as many layers as possible on a GPU, if the installed library can use one. ``on_load`` is called with the
    loaded fraction, 0 to 1, from the loading thread. ``demo`` marks the small default model.

    Sampling with a seed repeats exactly only for the same batch: other requests running beside one change the
    last digits of its logits.
    """

    constrains = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        model_id: str | None = None,
        slots: int = 4,
        context_length: int | None = None,
        threads: int | None = None,
        batch_size: int = 256,
        gpu_layers: int = -1,
        on_load: Callable[[float], None] | None = None,
        demo: bool = False,
    ) -> None:
        self._path = Path(path)
        self._model_id = model_id or re.sub(r"-\d{5}-of-\d{5}$", "", self._path.stem)
        self._slots = slots
        self._context_length = context_length
        self._threads = threads or default_threads()
        self._batch_size = max(batch_size, slots)
        self._gpu_layers = gpu_layers
        self._on_load = on_load
        self._demo = demo
        self._loaded: _Loaded | None = None

    @property
    def model(self) -> ModelInfo:
        """The loaded model. Raises :class:`EngineError` before :meth:`start`."""
        return self._ready().info

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer. Raises :class:`EngineError` before :meth:`start`."""
        return self._ready().model.tokenizer

    async def start(self) -> None:
        """Loads the model and starts the engine thread."""
        self._loaded = await asyncio.to_thread(self._load)
        # A process that ends without close() must not do so in the middle of a computation.
        atexit.register(self._stop)

    async def close(self) -> None:
        """Ends running requests as cancelled and frees the model."""
        atexit.unregister(self._stop)
        await asyncio.to_thread(self._stop)

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """Generates until a stop; closing the iterator aborts within one token.

        Text is tokenized with its special tokens, led by BOS where the model wants it; ids are used as they
        are. Text and ids of a chunk belong together, except that a stop string may cut a token: the part
        before it comes last, as text without ids. An end token is counted, but is in neither. Where ``constraint``
        is complete the generation ends without one.
        """
        loaded = self._ready()
        tokenizer = loaded.model.tokenizer
        if isinstance(prompt, str):
            tokens = await asyncio.to_thread(tokenizer.encode_prompt, prompt)
        else:
            tokens = list(prompt)
        context_length = loaded.info.context_length
        _check(tokens, sampling, tokenizer.size, context_length)
        request = Request(
            tokens,
            min(len(tokens) + (sampling.max_tokens or context_length), context_length),
            Sampler(sampling, tokens, tokenizer.size, constraint),
            Output(sampling.stop),
        )
        loaded.loop.submit(request)
        try:
            while True:
                item = await request.inbox.get()
                if isinstance(item, EngineError):
                    raise item
                yield item
                if item.finish_reason is not None:
                    return
        finally:
            request.cancelled = True

    async def count_tokens(self, prompt: str) -> int:
        """How many tokens a prompt has, with BOS where the model wants it."""
        return len(await asyncio.to_thread(self.tokenizer.encode_prompt, prompt))

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise EngineError("The engine is not started; await start() first.")
        return self._loaded

    def _load(self) -> _Loaded:
        model = Model(self._path, gpu_layers=self._gpu_layers, on_progress=self._on_load)
        length = self._context_length or min(model.train_context, _DEFAULT_CONTEXT)
        try:
            context = Context(
                model,
                cells=length,
                sequences=self._slots,
                batch_size=self._batch_size,
                threads=self._threads,
            )
        except EngineError:
            model.close()
            raise
        info = ModelInfo(
            id=self._model_id,
            created=int(self._path.stat().st_mtime),
            context_length=length,
            chat_template=model.chat_template,
            special=model.tokenizer.special_texts(),
            demo=self._demo,
            details=model.details(),
        )
        loop = BatchLoop(context, model.tokenizer, Slots(context, self._slots, model.keeps_positions))
        loop.start()
        return _Loaded(model, info, loop)

    def _stop(self) -> None:
        if self._loaded is not None:
            self._loaded.loop.close()
            self._loaded.model.close()


def default_threads() -> int:
    """How many CPU threads to use: the physical cores this process may use, at most 8.

    Two threads on one core, or more than a container's quota, make llama.cpp slower: its threads wait for the
    slowest at every layer.
    """
    if hasattr(os, "sched_getaffinity"):
        usable = sorted(os.sched_getaffinity(0))
    else:
        usable = list(range(os.cpu_count() or 1))
    cores = {_siblings(cpu) for cpu in usable}
    return max(1, min(len(cores), _cpu_quota(), _MAX_DEFAULT_THREADS))


def _siblings(cpu: int) -> str:
    """What names the physical core of a logical one."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return str(cpu)


def _cpu_quota() -> int:
    """How many cores this container may use, rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return _MAX_DEFAULT_THREADS


def _check(tokens: Sequence[int], sampling: Sampling, vocab_size: int, context_length: int) -> None:
    """Refuses what would fail in the engine thread, in words for the caller."""
    if not tokens:
        raise EngineError("The prompt is empty; send at least one token.")
    if len(tokens) >= context_length:
        raise ContextOverflowError(len(tokens), context_length)
    if sampling.max_tokens is not None and sampling.max_tokens < 1:
        raise SamplingError("max_tokens", f"max_tokens is {sampling.max_tokens}; it must be at least 1.")
    if sampling.repetition_penalty <= 0:
        raise SamplingError(
            "repetition_penalty", f"repetition_penalty is {sampling.repetition_penalty}; it must be above 0."
        )
    known = f"but ids of this model go from 0 to {vocab_size - 1}."
    if (wrong := _unknown(tokens, vocab_size)) is not None:
        raise EngineError(f"The prompt has the token id {wrong}, {known}")
    if (wrong := _unknown(sampling.logit_bias, vocab_size)) is not None:
        raise SamplingError(f"logit_bias.{wrong}", f"logit_bias has the token id {wrong}, {known}")


def _unknown(ids: Iterable[int], vocab_size: int) -> int | None:
    """The first token id that the vocabulary does not have."""
    return next((token for token in ids if not 0 <= token < vocab_size), None)
