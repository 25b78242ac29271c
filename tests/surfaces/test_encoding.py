"""JSON for the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.surfaces.encoding import PIECES, Pieces, encode

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@given(ANY_TEXT)
def test_a_piece_is_the_text_each_time(text: str) -> None:
    assert PIECES[text] == PIECES[text] == encode(text)
    assert json.loads(PIECES[text]) == text


def test_only_some_short_texts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pieces, "MOST", 10)
    pieces = Pieces()
    for number in range(1000):
        assert pieces[str(number)] == b'"%d"' % number
        assert len(pieces) <= 10
    long = "x" * (Pieces.LONGEST + 1)
    assert pieces[long] == encode(long)
    assert long not in pieces
