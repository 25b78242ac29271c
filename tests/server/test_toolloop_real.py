"""The loop with a real MCP server, from the official clients of both makers."""

from __future__ import annotations

from pathlib import Path

import anthropic

from tests.mcp.files import loaded
from tests.mcp.serving import program
from tests.server.serving import HELLO, client, served
from tests.server.toolrunner import call, scripted
from unspool.mcp.manager import Manager

ADD = call("tools__add", '{"a": 1, "b": 2}')
TOOLS = program("tools", "stdio", tools={"add": "allow", "*": "ask"})


def test_every_api_runs_the_tools_of_a_real_server(tmp_path: Path) -> None:
    engine = scripted(*(ADD, "It is 3.") * 3, call("tools__echo", '{"text": "hi"}'), "Done.")
    server = {"type": "mcp", "server_label": "tools", "require_approval": "never"}
    with served(engine, runner=Manager(loaded(tmp_path, {"tools": TOOLS}))) as url, client(url) as api:
        response = api.responses.create(model="default", input="Hello", tools=[server])  # type: ignore[list-item]
        completion = api.chat.completions.create(model="default", messages=HELLO)
        with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=20) as other:
            message = other.beta.messages.create(model="default", max_tokens=100, messages=HELLO)
        asking = api.responses.create(model="default", input="Hello", tools=[server])  # type: ignore[list-item]
        agreed = {"type": "mcp_approval_response", "approval_request_id": asking.output[-1].id, "approve": True}
        done = api.responses.create(model="default", previous_response_id=asking.id, input=[agreed])  # type: ignore[list-item]
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert response.output[1].output == "3"  # type: ignore[union-attr]
    assert completion.choices[0].message.content == "It is 3."
    assert [block.type for block in message.content] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert asking.output[-1].type == "mcp_approval_request"
    assert [item.type for item in done.output] == ["mcp_call", "message"]
    assert done.output[0].output == "hi"  # type: ignore[union-attr]
    assert done.output_text == "Done."
