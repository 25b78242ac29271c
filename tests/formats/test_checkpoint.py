"""What a checkpoint ships, from wherever it comes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from unspool.formats.checkpoint import CheckpointError, read_checkpoint

TEMPLATE = "{{ messages }}"


def write(folder: Path, **files: Any) -> Path:
    """Writes files (``__`` stands for a dot) as text, or as JSON if they are something else."""
    for name, value in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def test_a_text_with_jinja_in_it_is_a_template() -> None:
    for text in (TEMPLATE, "{% if x %}"):
        found = read_checkpoint(text)
        assert (found.template, found.response_template, found.special) == (text, None, {})
        assert found.read_vocabulary() == frozenset()


def test_a_directory_is_read_as_a_checkpoint(tmp_path: Path) -> None:
    write(
        tmp_path,
        tokenizer_config__json={
            "chat_template": "old",
            "eos_token": {"content": "</s>"},
            "bos_token": "<s>",
            "pad_token": None,
            "response_template": {"fields": {}},
            "added_tokens_decoder": {"7": {"content": "<call>", "special": True}, "8": {}},
        },
        processor_config__json={"chat_template": "older", "eos_token": "other"},
        chat_template__jinja="\ufeffnew",
    )
    (tmp_path / "additional_chat_templates").mkdir()
    write(tmp_path / "additional_chat_templates", rag__jinja="rag")
    found = read_checkpoint(tmp_path)
    assert found.templates == {"default": "new", "rag": "rag"}
    assert found.template == "new"
    assert found.response_template == {"fields": {}}
    assert found.special == {"eos_token": "</s>", "bos_token": "<s>"}
    assert found.read_vocabulary() == {"<call>"}


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        (None, None),
        ("one", "one"),
        ({"default": "d", "tool_use": "t"}, "t"),
        ([{"name": "default", "template": "d"}, {"name": "rag", "template": "r"}], "d"),
        ([{"name": "rag", "template": "r"}], "r"),
    ],
)
def test_the_template_for_tools_is_chosen_among_named_ones(value: Any, chosen: str | None) -> None:
    assert read_checkpoint({"chat_template": value}).template == chosen


@pytest.mark.parametrize("value", [3, ["text"], [{"name": "x"}], {"default": 3}])
def test_templates_of_another_shape_are_an_error(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"chat_template\[0\] must have a name and a template"):
        read_checkpoint({"chat_template": value})


def test_a_response_template_must_be_an_object() -> None:
    with pytest.raises(CheckpointError, match="response_template must be an object, not str"):
        read_checkpoint({"response_template": "x"})


@pytest.mark.parametrize("as_text", [True, False])
def test_one_file_stands_for_itself(tmp_path: Path, as_text: bool) -> None:
    write(tmp_path, tokenizer_config__json={"chat_template": "config"}, chat_template__jinja="jinja")
    for name, template in [("tokenizer_config.json", "config"), ("chat_template.jinja", "jinja")]:
        path = tmp_path / name
        assert read_checkpoint(str(path) if as_text else path).template == template


def test_a_configuration_without_a_template_has_those_beside_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        tokenizer_config__json={"eos_token": "</s>"},
        config__json={"chat_template": {"rag": "own"}},
        chat_template__jinja="jinja",
    )
    (tmp_path / "additional_chat_templates").mkdir()
    write(tmp_path / "additional_chat_templates", rag__jinja="rag")
    found = read_checkpoint(tmp_path / "tokenizer_config.json")
    assert (found.templates, found.special) == ({"default": "jinja", "rag": "rag"}, {"eos_token": "</s>"})
    assert read_checkpoint(tmp_path / "config.json").templates == {"rag": "own"}


def test_the_vocabulary_is_read_from_whichever_file_has_it(tmp_path: Path) -> None:
    config = write(tmp_path, tokenizer_config__json={"chat_template": TEMPLATE}) / "tokenizer_config.json"
    assert read_checkpoint(config).read_vocabulary() == frozenset()
    write(tmp_path, tokenizer__json={"added_tokens": "none"})
    assert read_checkpoint(config).read_vocabulary() == frozenset()
    write(tmp_path, tokenizer__json={"added_tokens": [{"content": "<a>"}, {"content": 3}]})
    assert read_checkpoint(config).read_vocabulary() == {"<a>"}
    write(tmp_path, added_tokens__json={"<b>": 7})
    assert read_checkpoint(tmp_path).read_vocabulary() == {"<b>"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"tokenizer_config.json:1:2: not JSON"),
        ("[" * 100_000, "tokenizer_config.json: not JSON"),
        ("[]", "tokenizer_config.json: must hold a JSON object, not list"),
    ],
)
def test_broken_json_is_named(tmp_path: Path, content: str, message: str) -> None:
    write(tmp_path, tokenizer_config__json=content)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(tmp_path)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no tokenizer_config\.json and no chat_template\.jinja"):
        read_checkpoint(tmp_path)
    for text in ("plain words", "x" * 5000, "\0"):
        with pytest.raises(CheckpointError, match="no such file or directory, and no text of a Jinja"):
            read_checkpoint(text)
    (tmp_path / "chat_template.jinja").write_bytes(b"ab\xff")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: byte 2 is not UTF-8 text"):
        read_checkpoint(tmp_path)
    with pytest.raises(TypeError, match="not int"):
        read_checkpoint(3)


def test_a_file_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, chat_template__jinja=TEMPLATE)

    def refuse(*args: Any, **kwargs: Any) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: Permission denied"):
        read_checkpoint(tmp_path / "chat_template.jinja")


def test_tokenizers_of_several_makes_are_read() -> None:
    token = SimpleNamespace(content="<call>", special=True)
    transformers = SimpleNamespace(
        chat_template={"default": "d"},
        init_kwargs={"response_template": {"fields": {}}},
        eos_token="</s>",
        get_added_vocab=lambda: {"<call>": 7},
    )
    found = read_checkpoint(transformers)
    assert (found.template, found.response_template, found.special) == ("d", {"fields": {}}, {"eos_token": "</s>"})
    assert found.read_vocabulary() == {"<call>"}
    for tokenizer in (
        SimpleNamespace(get_added_tokens_decoder=lambda: {7: token}),
        SimpleNamespace(added_tokens_decoder={7: token}),
        SimpleNamespace(special={7: "<call>"}),
    ):
        assert read_checkpoint(tokenizer).read_vocabulary() == {"<call>"}
    bare = read_checkpoint(SimpleNamespace(chat_template="x", init_kwargs=3, response_template="odd"))
    assert (bare.template, bare.response_template, bare.read_vocabulary()) == ("x", None, frozenset())


def test_tokenizers_that_are_installed_are_read() -> None:
    mistral = read_checkpoint(MistralTokenizer.v3(is_tekken=True))
    assert "[TOOL_CALLS]" in mistral.read_vocabulary()
    backend = Tokenizer(WordLevel({"a": 0}))
    backend.add_tokens([AddedToken("<call>", special=False)])
    assert read_checkpoint(backend).read_vocabulary() == {"<call>"}
    fast: Any = PreTrainedTokenizerFast
    wrapped = fast(tokenizer_object=backend, eos_token="</s>", chat_template=TEMPLATE)
    found = read_checkpoint(wrapped)
    assert (found.template, found.special["eos_token"]) == (TEMPLATE, "</s>")
    assert {"<call>", "</s>"} <= found.read_vocabulary()
