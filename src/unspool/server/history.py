"""What a response goes on from, and how it is kept for the next one.

A stored response holds its own input and output and the ids of the responses before it, so that a long chain is
read at once and nothing is stored twice. A conversation is a record that grows by what each response adds. An
item's id contains its response's, which is how a reference to it is found without an index.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unspool.server.storage import Store, StoreError
from unspool.surfaces.encoding import encode
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.responses import Before, ResponsesRequest
from unspool.surfaces.responses_items import Item

log = logging.getLogger(__name__)

_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})(?:_t\d+)?_i?\d+")
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
}


@dataclass(frozen=True, slots=True)
class History:
    """What comes before a request: its items, the ids of its responses, and where in a conversation it began.

    ``conversation`` is ``None`` or has the ``id`` and how many ``entries`` of its record were read.
    """

    items: tuple[Item, ...] = ()
    responses: tuple[str, ...] = ()
    conversation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A response as it is kept."""

    response: Mapping[str, Any]
    input: Sequence[Item]
    history: Sequence[str]
    conversation: Mapping[str, Any] | None

    @classmethod
    def read(cls, entries: Sequence[bytes]) -> Stored | None:
        """What :meth:`written` wrote; ``None`` if there is nothing."""
        if not entries:
            return None
        body = json.loads(entries[0])
        return cls(body["response"], body["input"], body["history"], body["conversation"])

    def written(self) -> bytes:
        """The response as JSON."""
        return encode(
            {
                "response": self.response,
                "input": self.input,
                "history": self.history,
                "conversation": self.conversation,
            }
        )

    @property
    def items(self) -> list[Item]:
        """What this response adds to a conversation."""
        return [*self.input, *self.response["output"]]


def not_found(what: str, name: str, param: str | None = None, code: str = "not_found") -> InvalidRequestError:
    """The error for an id that the store doesn't have."""
    return InvalidRequestError(
        f"There is no {what} {name!r}: it was never stored, was deleted, or was not used for too long.",
        param,
        code=code,
        status=404,
    )


def is_id(name: str, kind: str) -> bool:
    """Whether a client's word can be the id of a ``resp`` or ``conv``; no store is asked for what it can't be."""
    return re.fullmatch(rf"{kind}_[A-Za-z0-9]+", name) is not None


async def stored(store: Store, response_id: str, param: str | None = None, code: str = "not_found") -> Stored:
    """A stored response; an unknown id is a 404, which may name the field and have a code of its own."""
    (entries,) = await store.get([response_id]) if is_id(response_id, "resp") else ([],)
    found = Stored.read(entries)
    if found is None:
        raise not_found("response", response_id, param, code)
    return found


async def history_of(store: Store, asked: Before) -> History:
    """What a request goes on from; what is not stored is a 404 that names the field."""
    if asked.previous is not None:
        return await _after(store, asked.previous)
    if asked.conversation_id is not None:
        return await _conversation(store, asked.conversation_id, None, "conversation")
    return History()


async def _after(store: Store, previous: str) -> History:
    param, code = "previous_response_id", "previous_response_not_found"
    last = await stored(store, previous, param, code)
    chain = [Stored.read(entries) for entries in await store.get(last.history)]
    whole: list[Stored] = []
    for name, found in zip(last.history, chain, strict=True):
        if found is None:
            raise not_found("response", name, param, code)
        whole.append(found)
    whole.append(last)
    before = History()
    if (began := whole[0].conversation) is not None:
        before = await _conversation(store, began["id"], began["entries"], param)
    items = [item for found in whole for item in found.items]
    return History((*before.items, *items), (*last.history, previous))


async def _conversation(store: Store, name: str, entries: int | None, param: str) -> History:
    (found,) = await store.get([name]) if is_id(name, "conv") else ([],)
    if not found:
        raise not_found("conversation", name, param)
    items = [item for entry in found[1:entries] for item in json.loads(entry)]
    return History(tuple(items), conversation={"id": name, "entries": entries or len(found)})


async def resolved(
    store: Store, items: Sequence[Item], path: str, history: History | None = None
) -> tuple[Item, ...]:
    """The items of the list at ``path`` with what their references mean; one that means nothing is a 400.

    A reference may be to an item of any stored response, or of the ``history``.
    """
    wanted = {item["id"] for item in items if item["type"] == "item_reference"}
    if not wanted:
        return tuple(items)
    tokens = {found[1] for name in wanted if (found := _ITEM_ID.fullmatch(name))}
    records = map(Stored.read, await store.get([f"resp_{token}" for token in sorted(tokens)]))
    known = {item["id"]: item for found in records if found for item in found.items}
    known.update((item["id"], item) for item in (history.items if history else ()) if "id" in item)
    for i, item in enumerate(items):
        if item["type"] == "item_reference" and item["id"] not in known:
            raise InvalidRequestError(
                f"`{path}[{i}]` refers to the item {item['id']!r}, which is not stored. Send the item itself.",
                f"{path}[{i}].id",
            )
    return tuple(known[item["id"]] if item["type"] == "item_reference" else item for item in items)


def identified(items: Iterable[Item], token: str) -> list[Item]:
    """The items as they are listed: each with an id, made with ``token``, and a status."""
    return [
        {"id": f"{_PREFIXES[item['type']]}_{token}_i{number}", "status": "completed", **item}
        for number, item in enumerate(items)
    ]


async def keep(store: Store, asked: ResponsesRequest, found: Stored) -> None:
    """Stores a response, and adds it to its conversation. A store that fails is a line in the log."""
    try:
        if asked.store:
            await store.put(found.response["id"], found.written())
        if asked.conversation_id is not None and found.response["status"] != "failed":
            await store.append(asked.conversation_id, encode(found.items))
    except StoreError as error:
        # The answer is there; that it can't be gone on from shows when somebody tries.
        log.error("The response %s is not stored: %s", found.response["id"], error)
