"""Conversations as stored lists, as the official client sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.server.serving import ScriptedEngine, client, replaying, served
from tests.server.test_responses import PLAIN, streamed, whole
from unspool.engines.base import Chunk
from unspool.engines.replay import Recording


@pytest.fixture
def api() -> Iterator[openai.OpenAI]:
    with replaying(Recording("text", "Hello!")) as connected:
        yield connected


def test_a_conversation_grows_by_each_response() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=PLAIN)
    with served(engine) as url:
        api = client(url)
        items: Any = [{"type": "message", "role": "developer", "content": "Be brief."}]
        conversation = api.conversations.create(items=items, metadata={"topic": "demo"})
        first = whole(api, "scripted", conversation=conversation.id, input="1")
        streamed(api, "scripted", conversation=conversation.id, input="2")
        assert first.conversation.id == conversation.id
        whole(api, "scripted", previous_response_id=first.id, input="3")
        found = api.conversations.items.list(conversation.id, order="asc")
        assert [item.type for item in found] == ["message"] * 5
        api.conversations.items.create(
            conversation.id, items=[{"type": "message", "role": "user", "content": "x"}]
        )
        assert len(list(api.conversations.items.list(conversation.id))) == 6
        assert api.conversations.retrieve(conversation.id) == conversation
        assert api.conversations.delete(conversation.id).deleted
        with pytest.raises(openai.NotFoundError, match=conversation.id) as caught:
            whole(api, "scripted", conversation=conversation.id)
        assert caught.value.param == "conversation"
        for gone in (api.conversations.retrieve, api.conversations.delete, api.conversations.items.list):
            with pytest.raises(openai.NotFoundError):
                gone(conversation.id)
        with pytest.raises(openai.NotFoundError):
            whole(api, "scripted", previous_response_id=first.id)
    assert engine.prompts == [
        "<system>Be brief.<user>1",
        "<system>Be brief.<user>1<assistant>ok<user>2",
        "<system>Be brief.<user>1<assistant>ok<user>3",
    ]


def test_conversations_say_what_is_wrong(api: openai.OpenAI) -> None:
    url = f"{api.base_url}conversations"
    conversation = api.conversations.create().id
    message = {"role": "user", "content": "x"}
    for path, body, param in (
        ("", {"items": [{}]}, "items[0].role"),
        ("", {"items": [message] * 21}, "items"),
        ("", {"metadata": {"a": 1}}, "metadata"),
        (f"/{conversation}/items", {"items": []}, "items"),
    ):
        answer = httpx.post(url + path, json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    for name in (f"conv_{'0' * 32}", "resp_x"):
        assert httpx.post(f"{url}/{name}/items", json={"items": [message]}).status_code == 404


def test_a_conversation_takes_the_items_that_are_referred_to(api: openai.OpenAI) -> None:
    said = whole(api, "text").output[0]
    refer: Any = [{"type": "item_reference", "id": said.id}]
    conversation = api.conversations.create(items=refer)
    api.conversations.items.create(conversation.id, items=refer)
    found = list(api.conversations.items.list(conversation.id))
    assert [(item.type, item.id) for item in found] == [("message", said.id)] * 2
    with pytest.raises(openai.BadRequestError, match="not stored") as caught:
        api.conversations.create(items=[{"type": "item_reference", "id": "msg_1"}])
    assert caught.value.param == "items[0].id"
