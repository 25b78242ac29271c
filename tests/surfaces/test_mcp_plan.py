from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.surfaces.server_strategies import TOOL
from unspool.mcp.tools import Catalogue, McpTool, Policy, ServerState
from unspool.surfaces import messages
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields
from unspool.surfaces.mcp_plan import McpPlan, Offer, exposed_name, make_plan, read_entry


def tool(name: str, policy: Policy = "allow", *, server: str = "time", read_only: bool = False) -> McpTool:
    return replace(TOOL, server=server, name=name, exposed=f"{server}__{name}", policy=policy, read_only=read_only)


def server(state: Any = "ready", *, error: str | None = None, offered: bool = True) -> ServerState:
    return ServerState("time", "stdio", state, error, offered)


def offer(*tools: McpTool, servers: tuple[ServerState, ...] = (server(),), always: bool = True) -> Offer:
    return Offer(Catalogue(tools, servers), always)


def plan_of(
    given: Offer | None,
    *entries: Mapping[str, Any],
    taken: tuple[str, ...] = (),
    otherwise: Policy = "allow",
    **options: Any,
) -> Any:
    fields = [Fields({"type": "mcp", **entry}, f"tools[{i}]") for i, entry in enumerate(entries)]
    return make_plan([read_entry(each, otherwise=otherwise) for each in fields], given, taken, **options)


def policies(plan: McpPlan) -> dict[str, Policy]:
    return {name: planned.policy for name, planned in plan.tools.items()}


NOW, SET, WIPE = tool("now", read_only=True), tool("set", "ask"), tool("wipe", "deny")
TIME = {"server_label": "time"}


def test_allowed_tools_are_offered_to_requests_that_name_no_server() -> None:
    """BUG-131: what is not expressly allowed is not offered."""
    assert policies(plan_of(offer(NOW, SET, WIPE))) == {"time__now": "allow"}


@pytest.mark.parametrize("given", [None, offer(), offer(SET), offer(NOW, always=False)])
def test_without_tools_there_is_no_plan(given: Offer | None) -> None:
    assert plan_of(given) is None


def test_a_server_may_be_offered_only_where_it_is_asked_for() -> None:
    given = offer(NOW, servers=(server(offered=False),))
    assert plan_of(given) is None
    assert policies(plan_of(given, TIME)) == {"time__now": "allow"}


def test_a_named_server_has_tools_that_ask_too_but_none_that_are_denied() -> None:
    assert policies(plan_of(offer(NOW, SET, WIPE), TIME)) == {"time__now": "allow", "time__set": "ask"}


@pytest.mark.parametrize(
    ("approval", "now", "put"),
    [
        (None, "ask", "ask"),
        ("never", "allow", "ask"),
        ("always", "ask", "ask"),
        ({"never": {"tool_names": ["now", "set"]}}, "allow", "ask"),
        ({"never": {"read_only": True}}, "allow", "ask"),
        ({"never": {"read_only": False}}, "ask", "ask"),
        ({"always": {"tool_names": ["now"]}, "never": {"tool_names": ["now"]}}, "ask", "ask"),
        ({"always": {}}, "ask", "ask"),
    ],
)
def test_of_operator_and_request_the_stricter_decides(approval: Any, now: Policy, put: Policy) -> None:
    entry = {**TIME, "require_approval": approval}
    assert policies(plan_of(offer(NOW, SET), entry, otherwise="ask")) == {"time__now": now, "time__set": put}


@pytest.mark.parametrize("allowed", [["now", "wipe"], {"tool_names": ["now"]}, {"read_only": True}])
def test_allowed_tools_only_take_away(allowed: Any) -> None:
    plan = plan_of(offer(NOW, SET, WIPE), {**TIME, "allowed_tools": allowed})
    assert policies(plan) == {"time__now": "allow"}
    assert [found.name for found in plan.named[0].tools] == ["now"]


def test_a_tool_of_the_request_wins_over_one_of_its_name() -> None:
    assert plan_of(offer(NOW), taken=("time__now",)) is None


def test_a_server_that_is_not_ready_is_refused_or_reported() -> None:
    given = offer(NOW, servers=(server("failed", error="it ended at once"),))
    with pytest.raises(InvalidRequestError, match="not ready \\(failed: it ended at once\\)") as caught:
        plan_of(given, TIME)
    assert (caught.value.status, caught.value.param) == (424, "tools[0].server_label")
    plan = plan_of(given, TIME, on_failure="report")
    assert plan.tools == {}
    assert plan.named[0].error == "The MCP server 'time' is not ready (failed: it ended at once)."
    assert plan_of(given) is None


@pytest.mark.parametrize(
    ("entry", "param", "message"),
    [
        ({}, "tools[0].server_label", "required"),
        (
            {"server_label": "tme"},
            "tools[0].server_label",
            "no MCP server 'tme' here \\(there is: time\\)",
        ),
        ({**TIME, "server_url": "http://x"}, "tools[0].server_url", "that a request brings are off"),
        ({**TIME, "connector_id": "connector_gmail"}, "tools[0].connector_id", "that a request brings are off"),
        ({**TIME, "allowed_tools": "now"}, "tools[0].allowed_tools", "a list of tool names"),
        ({**TIME, "allowed_tools": [1]}, "tools[0].allowed_tools", "a list of strings"),
        ({**TIME, "require_approval": "sometimes"}, "tools[0].require_approval", "always, never"),
        (
            {**TIME, "require_approval": {"never": {"read_only": "yes"}}},
            "tools[0].require_approval.never.read_only",
            "true or false",
        ),
    ],
)
def test_what_is_wrong_is_named(entry: Any, param: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        plan_of(offer(NOW), entry)
    assert caught.value.param == param


def test_a_server_is_named_once() -> None:
    with pytest.raises(InvalidRequestError, match="named twice"):
        plan_of(offer(NOW), TIME, TIME)


def test_a_server_without_mcp_says_how_it_gets_some() -> None:
    with pytest.raises(InvalidRequestError, match="--mcp-config") as caught:
        plan_of(None, TIME)
    assert caught.value.param == "tools[0]"


def test_secrets_are_neither_kept_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    entry = {**TIME, "type": "mcp", "headers": {"x-key": "s3cret"}, "authorization": "s3cret"}
    read = read_entry(Fields(entry, "tools[0]"), otherwise="ask")
    assert "s3cret" not in repr(read)
    assert "s3cret" not in caplog.text
    assert "headers and authorization left out" in caplog.text


def test_a_tool_that_is_gone_keeps_the_name_of_its_server_and_its_own() -> None:
    renamed = replace(NOW, exposed="t__now_1234abcd")
    catalogue = Catalogue((renamed,), (server(),))
    assert exposed_name(catalogue, "time", "now") == "t__now_1234abcd"
    assert exposed_name(catalogue, "time", "gone") == "time__gone"
    assert exposed_name(None, "", "typo") == "typo"


@pytest.mark.parametrize("label", [["time"], {}, 5, True])
def test_a_label_that_is_no_text_is_named(label: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_entry(Fields({"type": "mcp", "server_label": label}, "tools[0]"), offer(NOW), otherwise="ask")
    assert caught.value.param == "tools[0].server_label"
    with pytest.raises(InvalidRequestError) as caught:
        messages.decode({**MESSAGE, "mcp_servers": [{"name": label}]}, offer(NOW))
    assert caught.value.param == "mcp_servers[0].name"


MESSAGE: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
ZONES = tool("zones")


@pytest.mark.parametrize(
    ("configuration", "toolset", "there"),
    [
        ({}, {}, {"time__now", "time__zones"}),
        ({"enabled": False}, {}, set()),
        ({"allowed_tools": ["now"]}, {}, {"time__now"}),
        ({"allowed_tools": ["now", "gone"]}, {"configs": {"now": {"enabled": False}}}, set()),
        (
            {"allowed_tools": ["now"]},
            {"default_config": {"enabled": False}, "configs": {"zones": {"enabled": True}}},
            set(),
        ),
        ({}, {"default_config": {"enabled": False}, "configs": {"zones": {"enabled": True}}}, {"time__zones"}),
    ],
)
def test_a_toolset_takes_nothing_back_that_the_list_of_servers_says(
    configuration: dict[str, Any], toolset: dict[str, Any], there: set[str]
) -> None:
    body = {
        **MESSAGE,
        "mcp_servers": [{"name": "time", "tool_configuration": configuration}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "time", **toolset}],
    }
    plan = messages.decode(body, offer(NOW, ZONES)).mcp
    assert plan is not None
    assert set(plan.tools) == there
