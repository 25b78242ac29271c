"""Law 8: a marker that is a special token is known by its id, and the same letters stay letters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.laws.messages import cases, comparable, special_tokens
from tests.laws.strategies import FORMATS, every_format, points, split
from tests.laws.vocabulary import Vocabulary, by_character
from unspool import Message, Parser
from unspool.formats import write

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@every_format
@given(data=st.data())
def test_letters_of_a_special_token_stay_letters(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    vocabulary = Vocabulary.of(fmt)
    case = data.draw(cases(fmt, by_id=True), label="case")
    text = write(by_character(fmt), case.message)
    ids = vocabulary.spell(text, data.draw(sizes, label="sizes"))
    parser = Parser(fmt, tools=case.tools, tokenizer=vocabulary)
    groups = split(ids, data.draw(points, label="points"))
    events = [event for group in groups for event in parser.feed_tokens(group)] + parser.finish("stop")

    message = comparable(fmt, Message.from_events(events))
    assert message == comparable(fmt, case.expected)
    if not any(token in text for token in special_tokens(fmt)):
        # Without such letters the text says as much as the ids.
        whole = unspool.parse(fmt, write(fmt, case.message), tools=case.tools)
        assert message == comparable(fmt, whole)
