"""One loaded GGUF file: its weights' handle, its metadata and its tokenizer.

The tokenizer is llama.cpp's own, so no second vocabulary file is needed. A token's bytes are read once and
kept; special tokens are spelled out, because the parser must see them.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from unspool.engines.base import EngineError
from unspool.engines.llamacpp import library

_ATTR_UNKNOWN, _ATTR_CONTROL, _ATTR_USER_DEFINED = 1, 8, 16


class Tokenizer:
    """Text to token ids and back, for one model.

    ``special`` maps the id of every control token to its text; added tokens that are ordinary text, such as
    Gemma's runs of newlines, are not among them but in ``added``. ``eog`` are the ids that end a
    generation. ``bos`` is the id a prompt must start with, or ``None`` when the model wants none.
    """

    def __init__(self, lib: ctypes.CDLL, vocab: int) -> None:
        self._lib = lib
        self._vocab: int | None = vocab
        # Encoding runs in other threads than the one that frees the model.
        self._lock = threading.Lock()
        self.size: int = lib.llama_vocab_n_tokens(vocab)
        self._pieces: list[bytes | None] = [None] * self.size
        ids = range(self.size)
        self.special = self._named(_ATTR_UNKNOWN | _ATTR_CONTROL)
        self.added = self._named(_ATTR_USER_DEFINED)
        self.eog = frozenset(token for token in ids if lib.llama_vocab_is_eog(vocab, token))
        self.bos = self._token("bos") if lib.llama_vocab_get_add_bos(vocab) else None

    def piece(self, token: int) -> bytes:
        """The bytes of one token, special ones spelled out. An id outside the vocabulary is an IndexError."""
        known = self._pieces[token]
        if known is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some tokens; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.piece, ids)).decode("utf-8", "replace")

    def encode(self, text: str, parse_special: bool = True) -> list[int]:
        """The ids of a text. Spelled-out special tokens become their ids if ``parse_special`` is true."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        ids = (ctypes.c_int32 * room)()
        with self._lock:
            count = self._lib.llama_tokenize(self._open_vocab(), data, len(data), ids, room, False, parse_special)
        if count < 0:
            raise EngineError("The model's tokenizer can't encode this prompt.")
        return ids[:count]

    def encode_prompt(self, text: str, cuts: Sequence[int] = ()) -> list[int]:
        """The ids of a rendered prompt, led by the BOS token if the model wants one and the text has none.

        No token spans one of the ``cuts``, which are positions in the text.
        """
        bounds = [*cuts, len(text)]
        ids = self.encode(text[: bounds[0]])
        for start, end in pairwise(bounds):
            ids += self._encode_more(text[start:end])
        if self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        return ids

    def _encode_more(self, text: str) -> list[int]:
        """The ids of a text that goes on from another: without the space that some models put before a text."""
        if self._puts_space:
            lead = self.encode("\n")
            ids = self.encode("\n" + text)
            if ids[: len(lead)] == lead:
                return ids[len(lead) :]
        return self.encode(text)

    @cached_property
    def _puts_space(self) -> bool:
        return self.decode(self.encode("a")).startswith(" ")

    def special_texts(self) -> dict[str, str]:
        """The texts of ``bos_token``, ``eos_token`` and ``pad_token``, as far as the model has them."""
        found = {f"{name}_token": self._token(name) for name in ("bos", "eos", "pad")}
        return {name: self.decode([token]) for name, token in found.items() if token is not None}

    def close(self) -> None:
        """Ends encoding; pieces already read stay readable."""
        with self._lock:
            self._vocab = None

    def _named(self, attributes: int) -> Mapping[int, str]:
        """The tokens that have one of these attributes: id to text."""
        attribute, vocab = self._lib.llama_vocab_get_attr, self._open_vocab()
        ids = [token for token in range(self.size) if attribute(vocab, token) & attributes]
        return MappingProxyType({token: self.piece(token).decode("utf-8", "replace") for token in ids})

    def _token(self, name: str) -> int | None:
        token: int = getattr(self._lib, f"llama_vocab_{name}")(self._open_vocab())
        return token if token >= 0 else None

    def _read_piece(self, token: int) -> bytes:
        room = 256
        while True:
            buffer = ctypes.create_string_buffer(room)
            with self._lock:
                length = self._lib.llama_token_to_piece(self._open_vocab(), token, buffer, room, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            room = -length

    def _open_vocab(self) -> int:
        if self._vocab is None:
            raise EngineError("The engine is closed; start a new one.")
        return self._vocab


class Model:
    """A loaded model. ``train_context`` is the context length, in tokens, it was trained for.

    ``gpu_layers`` -1 puts as many layers as possible on a GPU, 0 none. ``on_progress`` is called with the
    loaded fraction from 0 to 1, in the loading thread.
    """

    def __init__(
        self, path: Path, *, gpu_layers: int = -1, on_progress: Callable[[float], None] | None = None
    ) -> None:
        self.path = path
        self.lib = library.load()

        def report(fraction: float, _: int | None) -> bool:
            if on_progress is not None:
                on_progress(fraction)
            return True

        params = self.lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.progress_callback = library.LoadProgress(report)
        library.load_errors()
        self.handle: int | None = self.lib.llama_model_load_from_file(bytes(path), params)
        if not self.handle:
            reason = library.load_errors() or "no reason given"
            raise EngineError(
                f"llama.cpp can't load {path} ({reason}); check that the file is a complete GGUF text model "
                "of an architecture this version of llama.cpp knows."
            )
        if not self._generates():
            self.lib.llama_model_free(self.handle)
            raise EngineError(f"{path} is not a model that continues text; choose one that generates.")
        self.tokenizer = Tokenizer(self.lib, self.lib.llama_model_get_vocab(self.handle))
        self.train_context: int = self.lib.llama_model_n_ctx_train(self.handle)

    @property
    def chat_template(self) -> str | None:
        """The checkpoint's own Jinja source."""
        source: bytes | None = self.lib.llama_model_chat_template(self.handle, None)
        return source.decode("utf-8", "replace") if source is not None else None

    @property
    def keeps_positions(self) -> bool:
        """Whether any part of a cached sequence can be kept or copied; a recurrent state can't be cut."""
        recurrent = self.lib.llama_model_is_recurrent(self.handle)
        return not (recurrent or self.lib.llama_model_is_hybrid(self.handle))

    def metadata(self, key: str) -> str | None:
        """One value of the GGUF header as text; arrays are not available."""
        buffer = ctypes.create_string_buffer(1024)
        length = self.lib.llama_model_meta_val_str(self.handle, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if length >= 0 else None

    def details(self) -> dict[str, str | int]:
        """What people want to know about the file: name, architecture, quantisation, sizes."""
        description = ctypes.create_string_buffer(256)
        self.lib.llama_model_desc(self.handle, description, len(description))
        found = {
            "name": self.metadata("general.name"),
            "architecture": self.metadata("general.architecture"),
            "description": description.value.decode("utf-8", "replace"),
            "parameters": int(self.lib.llama_model_n_params(self.handle)),
            "bytes": int(self.lib.llama_model_size(self.handle)),
            "train_context": self.train_context,
        }
        return {key: value for key, value in found.items() if value is not None}

    def close(self) -> None:
        """Frees the weights. The contexts made from them must be closed before."""
        if self.handle:
            self.tokenizer.close()
            self.lib.llama_model_free(self.handle)
            self.handle = None

    def _generates(self) -> bool:
        """Whether this is a causal decoder; embedding models and encoder-decoders are not."""
        causal = self.metadata(f"{self.metadata('general.architecture')}.attention.causal")
        return (
            self.lib.llama_model_has_decoder(self.handle)
            and not self.lib.llama_model_has_encoder(self.handle)
            and causal != "false"
        )
