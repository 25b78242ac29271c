"""The embedded engine on llama.cpp; needs the ``local`` extra."""

from unspool.engines.base import EngineError

try:
    from unspool.engines.llamacpp.engine import LlamaCppEngine, default_threads
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "numpy":
        raise
    raise EngineError('The embedded engine is not installed; run: pip install "unspool[local]"') from error

__all__ = ["LlamaCppEngine", "default_threads"]
