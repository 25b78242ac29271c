"""Law 2: what the writer writes, the parser reads back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.laws.messages import canonical, cases, passes_json
from tests.laws.strategies import FORMATS, every_format, is_bare, without_ids
from unspool import Message, ToolCall
from unspool.formats import write


@every_format
@given(data=st.data())
def test_a_written_message_is_read_back(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    case = data.draw(cases(fmt))
    text = write(fmt, case.message)
    read = without_ids(unspool.parse(fmt, text, tools=case.tools))
    if passes_json(fmt):
        assert read == case.expected, text
    else:
        assert canonical(read) == canonical(case.expected), text
