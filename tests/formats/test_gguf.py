"""The metadata of GGUF files, of which the tests make small ones."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.formats.checkpoint import CheckpointError, read_checkpoint
from unspool.formats.gguf import BadGgufError, read_tokenizer

KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>"
TOKENS = ["a", "<s>", "</s>", "[TOOL_CALLS]", "[ARGS]"]


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: Any) -> bytes:
    """One entry: a text, a whole number, a list of texts or of whole numbers, or bytes as they are."""
    match value:
        case bytes():
            return text(key) + value
        case str():
            return text(key) + struct.pack("<I", 8) + text(value)
        case int():
            return text(key) + struct.pack("<II", 4, value)
        case [str(), *_]:
            return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        case list():
            return text(key) + struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    raise TypeError(value)


def gguf(folder: Path, version: int = 3, **entries: Any) -> Path:
    """A GGUF file with these entries; ``__`` in a key stands for a dot."""
    path = folder / "model.gguf"
    body = b"".join(entry(key.replace("__", "."), value) for key, value in entries.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, len(entries)) + body + b"tensors")
    return path


def test_only_the_tokenizers_entries_are_kept(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"general__alignment": 32, "general__on": struct.pack("<I?", 7, True)}
    path = gguf(tmp_path, general__name="x", tokenizer__ggml__tokens=TOKENS, **numbers, tokenizer__size=5)
    assert read_tokenizer(path) == {"tokenizer.ggml.tokens": TOKENS, "tokenizer.size": 5}


def test_a_gguf_file_is_a_checkpoint(tmp_path: Path) -> None:
    path = gguf(
        tmp_path,
        tokenizer__ggml__tokens=TOKENS,
        tokenizer__ggml__token_type=[1, 3, 3, 3, 4],
        tokenizer__ggml__bos_token_id=1,
        tokenizer__ggml__eos_token_id=99,
        tokenizer__chat_template="{{ plain }}",
        tokenizer__chat_template__tool_use=KIMI,
        tokenizer__chat_templates=["tool_use"],
    )
    found = read_checkpoint(path)
    assert found.templates == {"default": "{{ plain }}", "tool_use": KIMI}
    assert found.special == {"bos_token": "<s>"}
    assert found.read_vocabulary() == {"<s>", "</s>", "[TOOL_CALLS]", "[ARGS]"}
    assert unspool.detect(path).format.name == "kimi_k2"


def test_without_a_template_the_tokens_decide(tmp_path: Path) -> None:
    path = gguf(tmp_path, tokenizer__ggml__tokens=TOKENS, tokenizer__ggml__token_type=[1, 3, 3, 3, 4])
    found = unspool.detect(path)
    assert (found.format.name, found.where) == ("mistral", "vocabulary")
    with pytest.raises(unspool.UndetectedFormatError, match="neither"):
        unspool.detect(gguf(tmp_path))


@pytest.mark.parametrize("number", [-1, -5, 5])
def test_a_number_of_no_token_is_none(tmp_path: Path, number: int) -> None:
    # As a signed number, which is how some tools write that there is none.
    numbers: dict[str, Any] = {"tokenizer__ggml__eos_token_id": struct.pack("<Ii", 5, number)}
    assert read_checkpoint(gguf(tmp_path, tokenizer__ggml__tokens=TOKENS, **numbers)).special == {}


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("tokens", 3, "a list of texts"),
        ("tokens", "abc", "a list of texts"),
        ("tokens", [1, 2], "a list of texts"),
        ("token_type", 3, "a list of whole numbers"),
        ("token_type", ["a"], "a list of whole numbers"),
    ],
)
def test_entries_of_another_kind_are_named(tmp_path: Path, key: str, value: Any, wanted: str) -> None:
    path = gguf(tmp_path, **{f"tokenizer__ggml__{key}": value})
    with pytest.raises(CheckpointError, match=rf"model\.gguf: tokenizer\.ggml\.{key} must be {wanted}"):
        read_checkpoint(path)


@pytest.mark.parametrize("version", [1, 4])
def test_other_versions_are_an_error(tmp_path: Path, version: int) -> None:
    with pytest.raises(BadGgufError, match=f"version {version} is not known"):
        read_tokenizer(gguf(tmp_path, version=version))


def test_broken_files_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gguf(tmp_path, tokenizer__ggml__tokens=TOKENS).read_bytes().removesuffix(b"tensors")
    path = tmp_path / "cut.gguf"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(BadGgufError, match="ends inside its metadata"):
            read_tokenizer(path)
    path.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(CheckpointError, match=r"cut\.gguf: not a GGUF file"):
        read_checkpoint(path)
    for kind in (13, 99):
        with pytest.raises(BadGgufError, match=f"unknown type {kind}"):
            read_tokenizer(gguf(tmp_path, x=struct.pack("<I", kind)))
    # A length that no file has.
    with pytest.raises(BadGgufError, match="ends inside"):
        read_tokenizer(gguf(tmp_path, x=struct.pack("<IIQ", 9, 12, 1 << 60)))
    folder = tmp_path / "folder"
    folder.mkdir()

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match="Permission denied"):
        read_checkpoint(path)
