"""What is made once: tokenizers by identity, grammars by text, from several threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from tests.constrained.vocabularies import Letters, choices, takes
from unspool.constrained import LLGuidanceConstraint, json_schema
from unspool.constrained import vocabulary as vocabulary_module
from unspool.constrained.cache import Cache, IdentityCache
from unspool.constrained.vocabulary import Vocabulary

LETTERS = Letters(special=["<|end|>"], end=["<|end|>"])
(END,) = LETTERS.special


class TestCaches:
    def test_a_second_request_with_the_same_schema_compiles_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import llguidance

        calls: list[str] = []

        class Counting:
            """The real matcher class, with its constructor and its validation counted."""

            def __new__(cls, *args: Any, **options: Any) -> Any:
                calls.append("compile")
                return original(*args, **options)

            @staticmethod
            def validate_grammar_with_warnings(*args: Any) -> Any:
                calls.append("validate")
                return original.validate_grammar_with_warnings(*args)

            @staticmethod
            def grammar_from_json_schema(*args: Any, **options: Any) -> str:
                return original.grammar_from_json_schema(*args, **options)

        original = llguidance.LLMatcher
        monkeypatch.setattr(llguidance, "LLMatcher", Counting)
        schema = {"type": "object", "properties": {"only in this test": {"type": "integer"}}}
        tokenizer = Letters()
        built = vocabulary_module._vocabularies.made
        first = LLGuidanceConstraint(json_schema(schema), tokenizer)
        assert sorted(calls) == ["compile", "validate"]
        assert vocabulary_module._vocabularies.made == built + 1
        second = LLGuidanceConstraint(json_schema(dict(schema)), tokenizer)
        assert len(calls) == 2
        assert vocabulary_module._vocabularies.made == built + 1
        first.accept(ord("{"))
        assert choices(second) == choices(LLGuidanceConstraint(json_schema(schema), tokenizer))

    def test_a_cache_is_bounded_and_keeps_what_is_used(self) -> None:
        cache: Cache[int] = Cache(2)
        for key in (1, 2, 1, 3, 1):
            assert cache.get(key, lambda key=key: key * 10) == key * 10  # type: ignore[misc]
        assert (len(cache), cache.made) == (2, 3)
        cache.get(2, lambda: 20)
        assert cache.made == 4
        cache.clear()
        assert len(cache) == 0

    def test_a_failure_is_raised_and_not_kept(self) -> None:
        cache: Cache[int] = Cache(2)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                cache.get("x", lambda: 1 // 0)
        assert cache.get("x", lambda: 5) == 5

    def test_threads_that_need_the_same_thing_wait_for_one_making(self) -> None:
        cache: Cache[object] = Cache(2)
        begun, go_on, found = threading.Event(), threading.Event(), []

        def make() -> object:
            begun.set()
            go_on.wait()
            return object()

        threads = [threading.Thread(target=lambda: found.append(cache.get("x", make))) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        go_on.set()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert len({id(value) for value in found}) == 1
        assert cache.made == 1

    def test_a_tokenizer_that_is_gone_takes_its_entry_along(self) -> None:
        class Owner:
            pass

        cache: IdentityCache[str] = IdentityCache(4)
        owner = Owner()
        assert cache.get(owner, lambda: "a") == cache.get(owner, lambda: "b") == "a"
        del owner
        gc.collect()
        assert len(cache) == 0
        assert cache.made == 1

    def test_an_address_that_is_used_again_is_another_tokenizer(self) -> None:
        class Owner:
            pass

        cache: IdentityCache[str] = IdentityCache(4)
        owner, gone = Owner(), Owner()
        cache._cache.get(id(owner), lambda: (lambda: gone, "of another"))
        assert cache.get(owner, lambda: "own") == "own"

    def test_owners_without_weak_references_are_kept(self) -> None:
        cache: IdentityCache[str] = IdentityCache(1)
        owner = (1, 2)
        assert cache.get(owner, lambda: "a") == cache.get(owner, lambda: "b") == "a"
        cache.clear()
        assert len(cache) == 0

    def test_many_threads_share_one_compiled_grammar(self) -> None:
        vocabulary, failures = Vocabulary(LETTERS), []

        def run() -> None:
            held = LLGuidanceConstraint(json_schema({"type": "array", "items": {"enum": [1, 2]}}), vocabulary)
            if takes(held, [*b"[1, 2, 1]", END]) != 10:
                failures.append(held)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert (vocabulary.grammars.made, vocabulary.natives.made) == (1, 1)
