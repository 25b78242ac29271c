"""The OpenAPI document against the server, by schemathesis: what it makes of the document is answered as it says.

Cross-field rules (tools that a choice names, two demands on one content, models that there are) can't be said in a
schema, so a request that fits may be refused; then the error must say which field it is.
"""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.constrained.vocabularies import Letters
from tests.server.serving import ScriptedEngine
from unspool.engines.base import Chunk
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.app import create_app
from unspool.server.service import Settings

CALL = '<think>\nHm.\n</think>\n\nSo:\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


class Held(ScriptedEngine):
    """For what demands are refused: they are compiled, and the script is played all the same."""

    constrains = True
    tokenizer: Any = Letters([chr(code) for code in range(32, 127)], ["<|im_end|>"], ["<|im_end|>"])


def kept_open(app: ASGIApp) -> ASGIApp:
    """The application without its end, since schemathesis starts and ends it for each request."""

    async def lasting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await app(scope, receive, send)

    return lasting


REPLAYED = create_app(ReplayEngine([Recording("r", CALL)], chunking="whole"))
CONSTRAINED = create_app(Held(Chunk("ok", finish_reason="stop")), Settings(format="hermes"))
replayed = schemathesis.openapi.from_asgi("/openapi.json", kept_open(REPLAYED))
constrained = schemathesis.openapi.from_asgi("/openapi.json", kept_open(CONSTRAINED))
repeatable = settings(
    max_examples=15, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


def check(case: schemathesis.Case[Any]) -> None:
    """Every check of schemathesis but that whatever fits is accepted, and ours in place of that."""
    response = case.call_and_validate(excluded_checks=[positive_data_acceptance])
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    if response.status_code == 400 and positive and case.operation.body:
        error = response.json()["error"]
        assert error.get("param") or "`" in error["message"], error


@replayed.parametrize()
@repeatable
def test_what_is_described_holds(case: schemathesis.Case[Any]) -> None:
    check(case)


@constrained.include(path_regex="^/v1/(chat/completions|messages|responses)$").parametrize()
@repeatable
def test_what_is_described_holds_where_demands_are_held(case: schemathesis.Case[Any]) -> None:
    check(case)
