"""What a checkpoint says about its output: chat template, ``response_template``, special tokens.

From a model's directory, one of its files, a GGUF file, a tokenizer object or a template's text. Reading files is
kept here, so that everything else in this package works on values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from unspool.formats.gguf import BadGgufError, read_tokenizer
from unspool.parsing.tokens import Detokenizer

_T = TypeVar("_T")

_CONFIGS = ("tokenizer_config.json", "processor_config.json", "chat_template.json")
_TEMPLATE = "chat_template.jinja"
_MORE_TEMPLATES = "additional_chat_templates"
_GGUF_TEMPLATE = "tokenizer.chat_template"
_ADDED_KINDS = (3, 4)  # control tokens, and those that whoever made the model added
_TOKEN_FIELDS = ("bos_token", "eos_token", "pad_token", "unk_token")


class CheckpointError(ValueError):
    """A file of the checkpoint is missing or can't be read; the text names it and says what to give instead."""


@dataclass(frozen=True)
class Checkpoint:
    """The parts of a checkpoint that say how its model writes.

    ``templates`` are chat templates by name, ``default`` and ``tool_use`` as a rule. ``special`` are
    ``bos_token`` and the like by name. ``read_vocabulary`` gives the texts of all added tokens when it is
    called, as it may have to read a large file.
    """

    templates: Mapping[str, str] = field(default_factory=dict)
    response_template: Mapping[str, Any] | None = None
    special: Mapping[str, str] = field(default_factory=dict)
    read_vocabulary: Callable[[], frozenset[str]] = frozenset

    @property
    def template(self) -> str | None:
        """The template that is used with tools: the one named so, the default one, or the only one."""
        for name in ("tool_use", "default"):
            if name in self.templates:
                return self.templates[name]
        return next(iter(self.templates.values()), None)


def read_checkpoint(source: Any) -> Checkpoint:
    """The checkpoint of a template's text, a path, a mapping (``tokenizer_config.json`` as read) or a tokenizer.

    Raises :class:`CheckpointError`; ``TypeError`` for anything else.
    """
    if isinstance(source, str) and ("{%" in source or "{{" in source):
        return Checkpoint({"default": source})
    if isinstance(source, str | os.PathLike):
        return _from_path(Path(source))
    if isinstance(source, Mapping):
        return _from_configs([source], "the mapping")
    if hasattr(source, "chat_template") or _added_tokens(source) is not None:
        return _from_tokenizer(source)
    raise TypeError(
        "give a chat template's text, a model's directory or one of its files, or a tokenizer, "
        f"not {type(source).__name__}"
    )


def _from_path(path: Path) -> Checkpoint:
    try:
        path.stat()
    except (OSError, ValueError):
        raise CheckpointError(f"{path}: no such file or directory, and no text of a Jinja template") from None
    if path.is_dir():
        return _from_directory(path)
    if path.suffix == ".gguf":
        return _from_gguf(path)
    if path.suffix == ".json":
        # Its neighbours belong to the same checkpoint, but what was named comes first.
        found = _from_configs([_json(path)], str(path), _vocabulary_files(path.parent))
        return found if found.templates else replace(found, templates=_template_files(path.parent))
    return Checkpoint({"default": _text(path)})


def _from_directory(folder: Path) -> Checkpoint:
    configs = [_json(folder / name) for name in _CONFIGS if (folder / name).is_file()]
    found = _from_configs(configs, str(folder), _vocabulary_files(folder))
    templates = {**found.templates, **_template_files(folder)}
    if not configs and not templates:
        raise CheckpointError(f"{folder}: no {_CONFIGS[0]} and no {_TEMPLATE} in this directory")
    return replace(found, templates=templates)


def _template_files(folder: Path) -> dict[str, str]:
    """The templates of a directory that are files of their own, by name."""
    files = {"default": folder / _TEMPLATE} if (folder / _TEMPLATE).is_file() else {}
    more = sorted((folder / _MORE_TEMPLATES).glob("*.jinja"))
    return {name: _text(path) for name, path in [*files.items(), *((path.stem, path) for path in more)]}


def _from_gguf(path: Path) -> Checkpoint:
    try:
        entries = read_tokenizer(path)
    except BadGgufError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    tokens = _listed(path, entries, "tokenizer.ggml.tokens", str, "texts")
    kinds = _listed(path, entries, "tokenizer.ggml.token_type", int, "whole numbers")
    added = frozenset(token for token, kind in zip(tokens, kinds, strict=False) if kind in _ADDED_KINDS)
    templates = {
        key.removeprefix(_GGUF_TEMPLATE).removeprefix(".") or "default": text
        for key, text in entries.items()
        if key.startswith(_GGUF_TEMPLATE) and isinstance(text, str)
    }
    special = {
        f"{name}_token": tokens[number]
        for name in ("bos", "eos")
        if isinstance(number := entries.get(f"tokenizer.ggml.{name}_token_id"), int) and 0 <= number < len(tokens)
    }
    return Checkpoint(templates, special=special, read_vocabulary=lambda: added)


def _listed(path: Path, entries: Mapping[str, Any], key: str, kind: type[_T], kinds: str) -> list[_T]:
    """The list that a GGUF file has under a key; empty without one."""
    value = entries.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise CheckpointError(f"{path}: {key} must be a list of {kinds}; the file is damaged, give another")
    return value


def _from_configs(
    configs: Sequence[Mapping[str, Any]], where: str, further: Callable[[], frozenset[str]] = frozenset
) -> Checkpoint:
    """The checkpoint that the configuration files say; the first one that has a field decides it."""
    merged: dict[str, Any] = {}
    for config in reversed(configs):
        merged.update({name: value for name, value in config.items() if value is not None})
    response = merged.get("response_template")
    if response is not None and not isinstance(response, Mapping):
        raise CheckpointError(f"{where}: response_template must be an object, not {type(response).__name__}")
    special = {name: text for name in _TOKEN_FIELDS if (text := _token_text(merged.get(name))) is not None}
    added = merged.get("added_tokens_decoder")
    tokens = _texts(added.values()) if isinstance(added, Mapping) else frozenset()
    return Checkpoint(
        _templates(merged.get("chat_template"), where), response, special, (lambda: tokens) if tokens else further
    )


def _templates(value: Any, where: str) -> dict[str, str]:
    """The named templates of a ``chat_template`` field: a text, an object, or a list of name and template."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, Mapping):
        value = [{"name": name, "template": template} for name, template in value.items()]
    named: dict[str, str] = {}
    for i, entry in enumerate(value if isinstance(value, list) else [value]):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        template = entry.get("template") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not isinstance(template, str):
            raise CheckpointError(f"{where}: chat_template[{i}] must have a name and a template, both texts")
        named[name] = template
    return named


def _from_tokenizer(tokenizer: Any) -> Checkpoint:
    kwargs = getattr(tokenizer, "init_kwargs", None)
    kwargs = kwargs if isinstance(kwargs, Mapping) else {}
    response = getattr(tokenizer, "response_template", None) or kwargs.get("response_template")
    special = {name: text for name in _TOKEN_FIELDS if isinstance(text := getattr(tokenizer, name, None), str)}
    tokens = _added_tokens(tokenizer) or frozenset()
    templates = _templates(getattr(tokenizer, "chat_template", None), "the tokenizer")
    return Checkpoint(templates, response if isinstance(response, Mapping) else None, special, lambda: tokens)


def _added_tokens(tokenizer: Any) -> frozenset[str] | None:
    """The texts of a tokenizer's added tokens; ``None`` if it has no table of them that is known here."""
    for name in ("get_added_vocab", "get_added_tokens_decoder"):
        read = getattr(tokenizer, name, None)
        if callable(read):
            table = read()
            return frozenset(table) if name == "get_added_vocab" else _texts(table.values())
    table = getattr(tokenizer, "added_tokens_decoder", None)
    if isinstance(table, Mapping):
        return _texts(table.values())
    try:
        return frozenset(Detokenizer(tokenizer).special.values())
    except TypeError:
        return None


def _vocabulary_files(folder: Path) -> Callable[[], frozenset[str]]:
    def read() -> frozenset[str]:
        if (folder / "added_tokens.json").is_file():
            return frozenset(_json(folder / "added_tokens.json"))
        if (folder / "tokenizer.json").is_file():
            added = _json(folder / "tokenizer.json").get("added_tokens")
            return _texts(added) if isinstance(added, list) else frozenset()
        return frozenset()

    return read


def _texts(tokens: Any) -> frozenset[str]:
    return frozenset(text for token in tokens if (text := _token_text(token)) is not None)


def _token_text(token: Any) -> str | None:
    """A token's text: itself, the ``content`` of its entry in a file, or of its object."""
    if isinstance(token, Mapping):
        token = token.get("content")
    text = getattr(token, "content", token)
    return text if isinstance(text, str) else None


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        at = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise CheckpointError(f"{path}{at}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: must hold a JSON object, not {type(value).__name__}")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
