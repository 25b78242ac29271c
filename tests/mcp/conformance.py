"""Our side of the conformance suite for MCP clients: ``python -m tests.mcp.conformance URL``.

The suite starts this once for each scenario, with the scenario's name and what it gives the client in the
environment. It does what an operator and a model would do: a file with the server, its tools listed and called.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.mcp.running import running

_BROWSER = "a person signs in with a browser"
SCENARIOS: dict[str, str | None] = {
    "initialize": None,
    "tools_call": None,
    "sse-retry": None,
    "auth/client-credentials-basic": None,
    "auth/client-credentials-jwt": None,
    "elicitation-sep1034-client-defaults": "a person is asked",
    "auth/cross-app-access-complete-flow": "a person has signed in with the company's identity provider",
    **dict.fromkeys(
        (
            "auth/metadata-default",
            "auth/metadata-var1",
            "auth/metadata-var2",
            "auth/metadata-var3",
            "auth/basic-cimd",
            "auth/scope-from-www-authenticate",
            "auth/scope-from-scopes-supported",
            "auth/scope-omitted-when-undefined",
            "auth/scope-step-up",
            "auth/scope-retry-limit",
            "auth/token-endpoint-auth-basic",
            "auth/token-endpoint-auth-post",
            "auth/token-endpoint-auth-none",
            "auth/pre-registration",
            "auth/2025-03-26-oauth-metadata-backcompat",
            "auth/2025-03-26-oauth-endpoint-fallback",
            "auth/resource-mismatch",
            "auth/offline-access-scope",
            "auth/offline-access-not-supported",
        ),
        _BROWSER,
    ),
}
"""The suite's scenarios, each with why it doesn't apply, if so."""
CALLS = {"tools_call": ("add_numbers", {"a": 5, "b": 3}), "sse-retry": ("test_reconnection", {})}
"""What is called in the scenarios that are of calls."""


def entry(scenario: str, url: str, context: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The server as an operator would write it down, and the variables that go with it."""
    said: dict[str, Any] = {"url": url, "tools": {"*": "allow"}}
    if not scenario.startswith("auth/client-credentials"):
        return said, {}
    auth = {"type": "client_credentials", "client_id": context["client_id"], "issuer": issuer(url)}
    if scenario.endswith("jwt"):
        auth |= {"private_key": "${SECRET}", "algorithm": context["signing_algorithm"]}
        return {**said, "auth": auth}, {"SECRET": context["private_key_pem"]}
    return {**said, "auth": {**auth, "client_secret": "${SECRET}"}}, {"SECRET": context["client_secret"]}


def issuer(url: str) -> str:
    """The authorization server of a server, which an operator would know; the suite doesn't say it beforehand."""
    parts = urlsplit(url)
    where = parts._replace(path=f"/.well-known/oauth-protected-resource{parts.path}").geturl()
    with urllib.request.urlopen(where, timeout=10) as answer:
        return str(json.load(answer)["authorization_servers"][0])


def table() -> str:
    """The scenarios for the page on the operator's file."""
    rows = ["| | scenarios |", "|---|---|"]
    for reason in dict.fromkeys(SCENARIOS.values()):
        names = ", ".join(f"`{name}`" for name, said in SCENARIOS.items() if said == reason)
        rows.append(f"| {'passes' if reason is None else f'does not apply: {reason}'} | {names} |")
    return "\n".join(rows)


async def run(scenario: str, url: str, context: dict[str, Any]) -> str | None:
    """What went wrong, if anything did."""
    said, variables = entry(scenario, url, context)
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), {"s": said}, **variables) as manager:
            catalogue = manager.catalogue()
            if catalogue.servers[0].state != "ready":
                return catalogue.servers[0].error
            if scenario in CALLS:
                name, arguments = CALLS[scenario]
                tool = next(each for each in catalogue.tools if each.name == name)
                result = await manager.call(tool, json.dumps(arguments), request_id=scenario)
                return result.text if result.is_error else None
    return None


if __name__ == "__main__":
    sys.exit(
        asyncio.run(
            run(
                os.environ["MCP_CONFORMANCE_SCENARIO"],
                sys.argv[-1],
                json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
            )
        )
    )
