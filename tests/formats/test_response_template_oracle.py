"""The same text through transformers' own reader of response templates: the same message, or a listed difference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.formats.response_templates import STYLES, TOOLS, Json
from unspool.formats.response_template import from_response_template

pytest.importorskip("regex")
from transformers.utils.chat_parsing import ResponseParser  # noqa: E402

FORMATS = {name: from_response_template(style.template, name=name) for name, style in STYLES.items()}
Said = tuple[str | None, str | None, list[tuple[str, Any]]]


def ours(name: str, raw: str, prompt: str, size: int | None = None) -> Said:
    """What unspool makes of an output, given in pieces of ``size`` characters."""
    parser = unspool.Parser(FORMATS[name], tools=TOOLS, prompt=prompt)
    step = size or max(len(raw), 1)
    events = [event for at in range(0, len(raw), step) for event in parser.feed(raw[at : at + step])]
    message = unspool.Message.from_events(events + parser.finish())
    return message.reasoning, message.content, [(c.name, json.loads(c.arguments)) for c in message.tool_calls]


def theirs(template: Json, raw: str, prompt: str, size: int | None = None) -> Said:
    """What transformers makes of it."""
    parser = ResponseParser(template, prefix=prompt, tools=TOOLS)
    step = size or max(len(raw), 1)
    for at in range(0, len(raw), step):
        parser.feed(raw[at : at + step])
    message, _ = parser.finalize()
    reasoning = next((message[key] for key in ("thinking", "reasoning", "reasoning_content") if key in message), None)
    functions = [call.get("function", call) for call in _flat(message.get("tool_calls", []))]
    return reasoning, message.get("content"), [(call["name"], call["arguments"]) for call in functions]


def _flat(calls: Any) -> list[Json]:
    return [item for call in calls for item in (_flat(call) if isinstance(call, list) else [call])]


WORDS = st.lists(st.sampled_from(("I", "see", "é", "日本", "a < b", "x > y", "1.", "🙂")), min_size=1, max_size=5)
TEXTS = WORDS.map(" ".join)
LINES = st.lists(TEXTS, min_size=1, max_size=3).map("\n".join)
CALLS = st.one_of(
    st.tuples(
        st.just("get_weather"), st.fixed_dictionaries({"city": WORDS.map("".join)}, optional={"days": st.integers(-9, 99)})
    ),
    st.tuples(st.just("get_time"), st.just({})),
    st.tuples(
        st.just("save"),
        st.fixed_dictionaries({"text": TEXTS, "sure": st.booleans(), "data": st.just({"a": [1, {"b": "c"}]})}),
    ),
)


@pytest.mark.parametrize("name", STYLES)
@given(data=st.data())
def test_what_a_model_writes_is_read_alike(name: str, data: st.DataObject) -> None:
    style = STYLES[name]
    thinks = LINES if style.prompt.endswith("<think>\n") else st.none() | LINES
    reasoning = data.draw(thinks, label="reasoning") if style.reasoning else None
    content = data.draw(st.none() | LINES, label="content")
    has_calls = bool(style.call or style.calls)
    calls = data.draw(st.lists(CALLS, max_size=3), label="calls") if has_calls else []
    raw = style.write(reasoning, content, calls)
    expected = (reasoning, content, calls)
    assert theirs(style.template, raw, style.prompt) == expected, "transformers, whole"
    assert theirs(style.template, raw, style.prompt, 3) == expected, "transformers, in pieces"
    assert ours(name, raw, style.prompt) == expected, "unspool, whole"
    assert ours(name, raw, style.prompt, 3) == expected, "unspool, in pieces"
