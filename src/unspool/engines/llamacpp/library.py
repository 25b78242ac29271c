"""llama.cpp's C API, called with ctypes from the prebuilt library inside the xllamacpp wheel.

The wheel's extension module exports every ``llama_*`` function, so no compiler and no further binding is
needed. What C does not check is checked here before anything runs: structs are passed by value and change
between builds, so the wheel must be the pinned version and its default parameters must read back as expected
through the declared fields. ctypes releases the interpreter lock during every call.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import logging
import os
from collections import deque
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_uint8, c_uint32, c_void_p
from typing import Any

from unspool.engines.base import EngineError

PINNED_VERSION = "2026.10.11549"
"""The xllamacpp release whose struct layouts are declared below."""

_INSTALL = f'run: pip install "xllamacpp=={PINNED_VERSION}"'
_logger = logging.getLogger("unspool.llamacpp")
_error_lines: deque[str] = deque(maxlen=4)

LoadProgress = ctypes.CFUNCTYPE(c_bool, c_float, c_void_p)
"""Called with the loaded fraction (0 to 1); returning false aborts the load."""

_LogCallback = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
_LOG_LEVEL_ERROR = 4


class ModelParams(ctypes.Structure):
    """``llama_model_params``, with room behind it for fields this build may write and we never read."""

    _fields_ = (
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int),
        ("load_mode", c_int),
        ("lazy_mode", c_int),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", LoadProgress),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
        ("_room", c_uint8 * 128),
    )


class ContextParams(ctypes.Structure):
    """``llama_context_params``, with room behind it for fields this build may write and we never read."""

    _fields_ = (
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int),
        ("rope_scaling_type", c_int),
        ("pooling_type", c_int),
        ("attention_type", c_int),
        ("flash_attn_type", c_int),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int),
        ("type_v", c_int),
        ("moe_cache_size", ctypes.c_size_t),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("_room", c_uint8 * 256),
    )


class Batch(ctypes.Structure):
    """``llama_batch``: parallel arrays, one entry per token to decode."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", c_void_p),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    )


# What the pinned build's defaults hold wherever they are not zero. Several neighbouring fields differ, so a
# field that was added, removed or moved shows.
_MODEL_DEFAULTS: dict[str, float] = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "use_extra_bufts": True,
}
_CONTEXT_DEFAULTS: dict[str, float] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max_per_seq": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "yarn_attn_factor": -1.0,
    "yarn_beta_fast": -1.0,
    "yarn_beta_slow": -1.0,
    "defrag_thold": -1.0,
    "type_k": 1,
    "type_v": 1,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
}

_SIGNATURES: dict[str, tuple[Any, ...]] = {  # name: (result, arguments...)
    "llama_backend_init": (None,),
    "llama_log_set": (None, _LogCallback, c_void_p),
    "llama_model_default_params": (ModelParams,),
    "llama_context_default_params": (ContextParams,),
    "llama_model_load_from_file": (c_void_p, c_char_p, ModelParams),
    "llama_model_free": (None, c_void_p),
    "llama_model_get_vocab": (c_void_p, c_void_p),
    "llama_model_n_ctx_train": (c_int32, c_void_p),
    "llama_model_n_params": (ctypes.c_uint64, c_void_p),
    "llama_model_size": (ctypes.c_uint64, c_void_p),
    "llama_model_is_recurrent": (c_bool, c_void_p),
    "llama_model_is_hybrid": (c_bool, c_void_p),
    "llama_model_has_decoder": (c_bool, c_void_p),
    "llama_model_has_encoder": (c_bool, c_void_p),
    "llama_model_chat_template": (c_char_p, c_void_p, c_char_p),
    "llama_model_desc": (c_int32, c_void_p, c_char_p, ctypes.c_size_t),
    "llama_model_meta_val_str": (c_int32, c_void_p, c_char_p, c_char_p, ctypes.c_size_t),
    "llama_init_from_model": (c_void_p, c_void_p, ContextParams),
    "llama_free": (None, c_void_p),
    "llama_n_ctx": (c_uint32, c_void_p),
    "llama_get_memory": (c_void_p, c_void_p),
    "llama_memory_clear": (None, c_void_p, c_bool),
    "llama_memory_seq_rm": (c_bool, c_void_p, c_int32, c_int32, c_int32),
    "llama_memory_seq_cp": (None, c_void_p, c_int32, c_int32, c_int32, c_int32),
    "llama_batch_init": (Batch, c_int32, c_int32, c_int32),
    "llama_batch_free": (None, Batch),
    "llama_decode": (c_int32, c_void_p, Batch),
    "llama_get_logits_ith": (c_void_p, c_void_p, c_int32),
    "llama_vocab_n_tokens": (c_int32, c_void_p),
    "llama_vocab_bos": (c_int32, c_void_p),
    "llama_vocab_eos": (c_int32, c_void_p),
    "llama_vocab_pad": (c_int32, c_void_p),
    "llama_vocab_get_add_bos": (c_bool, c_void_p),
    "llama_vocab_is_eog": (c_bool, c_void_p, c_int32),
    "llama_vocab_get_attr": (c_int, c_void_p, c_int32),
    "llama_tokenize": (c_int32, c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    "llama_token_to_piece": (c_int32, c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool),
}


@functools.cache
def load() -> ctypes.CDLL:
    """The library with every used function declared, loaded once per process.

    Raises :class:`EngineError` when the wheel is missing, is another version, exports nothing on this
    platform, or has structs laid out in another way than declared here.
    """
    # Idle OpenMP workers spin by default: on a shared machine that cost a factor of five (measured with two
    # threads). libgomp reads this once, when it is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    try:
        lib = ctypes.CDLL(_library_path())
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise EngineError(
            "The embedded engine can't use the installed xllamacpp on this platform "
            f"({error}); serve a remote engine, or use Linux or macOS (on Windows: WSL)."
        ) from error
    check_layout(lib.llama_model_default_params(), lib.llama_context_default_params())
    lib.llama_log_set(_log_callback, None)
    lib.llama_backend_init()
    return lib


def check_layout(model: ModelParams, context: ContextParams) -> None:
    """Raises :class:`EngineError` unless the library's default parameters are those of the pinned build."""
    for params, defaults in ((model, _MODEL_DEFAULTS), (context, _CONTEXT_DEFAULTS)):
        for name, *_ in params._fields_:
            # An unset callback is an object that is false; an unset pointer is None.
            if name != "_room" and (getattr(params, name) or 0) != defaults.get(name, 0):
                raise EngineError(
                    f"The installed llama.cpp library lays out {type(params).__name__} in an unknown way "
                    f"(its default {name} is not {defaults.get(name, 0)}); {_INSTALL}"
                )


def load_errors() -> str:
    """The last error lines llama.cpp wrote, joined, and forgotten: the reason behind a null pointer."""
    text = "; ".join(_error_lines)
    _error_lines.clear()
    return text


def _library_path() -> str:
    """Where the wheel's shared library is."""
    try:
        wheel = importlib.metadata.distribution("xllamacpp")
    except importlib.metadata.PackageNotFoundError as error:
        raise EngineError('The embedded engine is not installed; run: pip install "unspool[local]"') from error
    # A local version label (+cu128, +vulkan) names the same source built for another device.
    if wheel.version.partition("+")[0] != PINNED_VERSION:
        raise EngineError(
            f"xllamacpp {wheel.version} is installed, but the embedded engine knows the memory layout of "
            f"{PINNED_VERSION} only; {_INSTALL}"
        )
    for file in wheel.files or ():
        if len(file.parts) == 2 and file.name.startswith("xllamacpp.") and file.suffix in {".so", ".pyd"}:
            return str(wheel.locate_file(file))
    raise EngineError(f"The installed xllamacpp has no library file; {_INSTALL} --force-reinstall")


def _log(level: int, text: bytes, _: int | None) -> None:
    line = text.decode("utf-8", "replace").strip()
    if not line:
        return
    if level == _LOG_LEVEL_ERROR:
        _error_lines.append(line)
    _logger.debug(line)


_log_callback = _LogCallback(_log)  # llama.cpp keeps only the address
