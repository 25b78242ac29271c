"""The working memory of one model: its batch, its key-value cells and its logits.

All sequences share one pool of cells ("unified"), so one long request may use what several short ones would,
and a prefix is shared between sequences by reference, without computing or storing it again.
Everything here runs in the engine thread.
"""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from unspool.engines.base import EngineError
from unspool.engines.llamacpp import library
from unspool.engines.llamacpp.model import Model


class Context:
    """A llama.cpp context. ``cells`` is how many tokens all sequences together can hold."""

    def __init__(self, model: Model, *, cells: int, sequences: int, batch_size: int, threads: int) -> None:
        self._lib = lib = model.lib
        params = lib.llama_context_default_params()
        params.n_ctx = cells
        params.n_batch = params.n_ubatch = batch_size
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = True
        library.load_errors()
        self._handle: int | None = lib.llama_init_from_model(model.handle, params)
        if not self._handle:
            reason = library.load_errors() or "out of memory"
            raise EngineError(
                f"llama.cpp can't make room for a context of {cells} tokens ({reason}); "
                "choose a smaller context length."
            )
        self.cells: int = lib.llama_n_ctx(self._handle)
        self.batch_size = batch_size
        self._memory: int = lib.llama_get_memory(self._handle)
        self._row_type = ctypes.c_float * model.tokenizer.size
        self._batch = lib.llama_batch_init(batch_size, 0, 1)
        for row in range(batch_size):
            self._batch.n_seq_id[row] = 1
        self._warm_up(model.tokenizer.bos or 0)

    def add(self, token: int, position: int, sequence: int, wants_logits: bool) -> int:
        """Puts one token into the next batch and returns its row there."""
        batch = self._batch
        row: int = batch.n_tokens
        batch.token[row] = token
        batch.pos[row] = position
        batch.seq_id[row][0] = sequence
        batch.logits[row] = wants_logits
        batch.n_tokens = row + 1
        return row

    def decode(self) -> None:
        """Computes the batch and empties it."""
        code = self._lib.llama_decode(self._handle, self._batch)
        self._batch.n_tokens = 0
        if code != 0:
            reason = library.load_errors() or "no reason given"
            raise EngineError(f"llama.cpp failed to decode with code {code} ({reason}).")

    def logits(self, row: int) -> npt.NDArray[np.float32]:
        """The raw, writable logits of a row that wanted them; valid until the next :meth:`decode`."""
        address = self._lib.llama_get_logits_ith(self._handle, row)
        if not address:
            raise EngineError(f"llama.cpp gave no logits for row {row}.")
        return np.ctypeslib.as_array(self._row_type.from_address(address))

    def truncate(self, sequence: int, length: int) -> bool:
        """Forgets a sequence from position ``length`` on; false if its memory can't be cut there."""
        return bool(self._lib.llama_memory_seq_rm(self._memory, sequence, length, -1))

    def share(self, source: int, target: int, length: int) -> None:
        """Gives ``target``, which must be empty, the first ``length`` positions of ``source``."""
        self._lib.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def close(self) -> None:
        """Frees the context."""
        if self._handle:
            self._lib.llama_batch_free(self._batch)
            self._lib.llama_free(self._handle)
            self._handle = None

    def _warm_up(self, token: int) -> None:
        """Decodes one token and forgets it: the first request must not wait for the weights to be read."""
        self.add(token, 0, 0, True)
        try:
            self.decode()
        except EngineError:
            self.close()
            raise
        self._lib.llama_memory_clear(self._memory, True)
