"""Approvals: what a client was asked, and that its answer counts once, for exactly that call.

What runs is what the server asked about, never what the client sends back: where the response is stored, the call
is kept under the id of the request; where nothing may be stored, the id holds a code over the response, the tool
with its definition and the arguments, which only this process can make.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unspool.mcp.tools import Catalogue, McpTool
from unspool.server.storage import Store
from unspool.server.toolloop import Granted
from unspool.surfaces.encoding import encode
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.mcp_plan import exposed_name
from unspool.surfaces.responses_items import Item

MAX_AGE = 3600
"""Seconds in which a request for approval that was not stored can be answered."""

_ID = re.compile(r"mcpr_[0-9a-f]{32}(\.[0-9a-f]+\.[0-9a-f]+\.[0-9a-f]{64})?")
"""The ids that are made here, each in its only spelling: a nonce, and what vouches for what is not stored."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the client was asked."""

    server: str
    name: str
    arguments: str
    digest: str


class Approvals:
    """The requests for approval of one server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret = secrets.token_bytes(32)
        # Answered ones that were not stored, with the second in which they were made.
        self._answered: dict[str, int] = {}

    async def ask(self, response_id: str, tool: McpTool, arguments: str, *, stored: bool) -> str:
        """The unguessable id of a new request; ``stored``: its response will be, too."""
        nonce = secrets.token_hex(16)
        if not stored:
            token = response_id.removeprefix("resp_")
            head = f"{nonce}.{int(time.time()):x}.{token}"
            return f"mcpr_{head}.{self._code(head, tool.server, tool.name, arguments, tool.digest)}"
        record = {
            "response": response_id,
            "server": tool.server,
            "name": tool.name,
            "arguments": arguments,
            "digest": tool.digest,
        }
        await self._store.put(f"mcpr_{nonce}", encode(record))
        return f"mcpr_{nonce}"

    async def granted(
        self, items: Sequence[Item], before: Sequence[Item], catalogue: Catalogue | None
    ) -> list[Granted]:
        """The calls that the answers among ``items`` allow; ``before`` are the items that these go on from.

        Each answer counts once; one that answers nothing is a 400 that names it.
        """
        everything = [*before, *items]
        requests = {item["id"]: item for item in everything if item["type"] == "mcp_approval_request"}
        # Clients that keep a conversation themselves send old answers again, with what came of them.
        ran = {item.get("approval_request_id") for item in everything if item["type"] == "mcp_call"}
        answers = [
            (f"input[{i}].approval_request_id", item)
            for i, item in enumerate(items)
            if item["type"] == "mcp_approval_response" and item["approval_request_id"] not in ran
        ]
        _check_each_once(answers)
        calls: list[Granted] = []
        for param, item in answers:
            name = item["approval_request_id"]
            request = requests.get(name)
            asked = None if request is None else await self._taken(name, request, catalogue)
            if item["approve"]:
                if asked is None:
                    raise _no_such_request(name, param)
                calls.append(_grant(name, asked, catalogue))
        return calls

    async def _taken(self, name: str, request: Item, catalogue: Catalogue | None) -> _Asked | None:
        """What was asked under an id, the first time; ``None`` if nothing was."""
        form = _ID.fullmatch(name)
        if form is None:
            # The store has other records, too.
            return None
        if form[1]:
            return self._taken_by_code(name, request, catalogue)
        (entries,) = await self._store.get([name])
        if not entries or not await self._store.delete(name):
            return None
        record: Mapping[str, Any] = json.loads(entries[0])
        return _Asked(record["server"], record["name"], record["arguments"], record["digest"])

    def _taken_by_code(self, name: str, request: Item, catalogue: Catalogue | None) -> _Asked | None:
        head, _, code = name.removeprefix("mcpr_").rpartition(".")
        server, tool_name, arguments = request["server_label"], request["name"], request["arguments"]
        tool = _tool(catalogue, server, tool_name)
        if tool is None or not hmac.compare_digest(
            code, self._code(head, server, tool_name, arguments, tool.digest)
        ):
            return None
        now, made = int(time.time()), int(head.split(".")[1], 16)
        self._answered = {other: when for other, when in self._answered.items() if now - when <= MAX_AGE}
        if name in self._answered or now - made > MAX_AGE:
            return None
        self._answered[name] = made
        return _Asked(server, tool_name, arguments, tool.digest)

    def _code(self, *parts: str) -> str:
        return hmac.new(self._secret, encode(parts), hashlib.sha256).hexdigest()


def _check_each_once(answers: Sequence[tuple[str, Item]]) -> None:
    """Raises :class:`InvalidRequestError` for a second answer to the same question: it may be another one."""
    names: set[str] = set()
    for param, item in answers:
        name = item["approval_request_id"]
        if name in names:
            raise InvalidRequestError(f"`{param}`: {name!r} is answered twice; send one answer.", param)
        names.add(name)


def _no_such_request(name: str, param: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"`{param}`: {name!r} can't be answered. This server did not ask it in this conversation, its tool "
        "has changed since, or it was answered before.",
        param,
        code="approval_not_found",
    )


def _grant(approval: str, asked: _Asked, catalogue: Catalogue | None) -> Granted:
    tool = _tool(catalogue, asked.server, asked.name)
    name = exposed_name(catalogue, asked.server, asked.name)
    refusal = None
    if tool is None:
        refusal = f"The tool {name!r} is not there any more."
    elif tool.digest != asked.digest:
        refusal = f"The tool {name!r} is not the one any more that the user has allowed."
    elif tool.policy == "deny":
        refusal = f"The tool {name!r} may not be called here."
    return Granted(approval, name, tool, asked.arguments, refusal)


def _tool(catalogue: Catalogue | None, server: str, name: str) -> McpTool | None:
    if catalogue is None:
        return None
    return next((tool for tool in catalogue.of(server) if tool.name == name), None)
