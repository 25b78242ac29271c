"""Tokens by client credentials: who gets the secret, who doesn't, and what becomes of calls."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.mcp.running import running
from tests.mcp.test_credentials import key
from tests.mcp.test_transports import JSON, answered, plain
from unspool.mcp.manager import Manager
from unspool.mcp.settings import ClientCredentials, ServerConfig
from unspool.mcp.tokens import TokenError, authentication

SECRET = "s3cr3t/+ value"


@dataclass(frozen=True)
class Request:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def form(self) -> dict[str, str]:
        """What a form says."""
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


@dataclass
class Site:
    """A server of one origin; it answers as it is told, and keeps what came."""

    answer: Callable[[Request], Awaitable[bytes]]
    url: str = ""
    seen: list[Request] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(method, path, headers, body)
        self.seen.append(request)
        writer.write(await self.answer(request))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def at_its_url(site: Site) -> AsyncIterator[Site]:
    """The site, while it is served."""
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield site
    finally:
        server.close()
        await server.wait_closed()


def given(said: Any, status: str = "200 OK") -> bytes:
    """An answer in JSON."""
    return answered(json.dumps(said).encode(), JSON, status=status)


NOT_FOUND = answered(b"", status="404 Not Found")
Calls: TypeAlias = Callable[[dict[str, Any]], Awaitable[bytes]]


async def at_once(message: dict[str, Any]) -> bytes:
    """What the server answers to whom it lets in."""
    return plain(message)


class World:
    """A server that wants tokens, the authorization server that gives them, and somebody else."""

    def __init__(self, calls: Calls = at_once) -> None:
        self.valid: set[str] = set()
        self.given = 0
        self.calls = calls
        self.server = Site(self._served)
        self.login = Site(self._logged_in)
        self.stranger = Site(self._strange)
        self.named = self.login
        """Whom the server names as its authorization server."""
        self.metadata_at = self.server
        self.refusal: bytes | None = None
        """What the authorization server answers instead of a token."""
        self.redirects = False

    async def _served(self, request: Request) -> bytes:
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            return given({"resource": f"{self.server.url}/mcp", "authorization_servers": [self.named.url]})
        if request.path == "/.well-known/oauth-authorization-server":
            return given(metadata(self.server.url))
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            where = f"{self.metadata_at.url}/.well-known/oauth-protected-resource"
            challenge = f'WWW-Authenticate: Bearer scope="everything", resource_metadata="{where}"'
            return answered(b"", challenge, status="401 Unauthorized")
        if request.method != "POST":
            return answered(b"", status="405 No")
        return await self.calls(json.loads(request.body))

    async def _logged_in(self, request: Request) -> bytes:
        if request.path == "/.well-known/oauth-authorization-server":
            return given(metadata(self.login.url))
        if request.path != "/token":
            return NOT_FOUND
        if self.redirects:
            return answered(b"", f"Location: {self.stranger.url}/token", status="307 Temporary Redirect")
        if self.refusal is not None:
            return self.refusal
        self.given += 1
        self.valid.add(f"token-{self.given}")
        return given({"access_token": f"token-{self.given}", "token_type": "Bearer", "expires_in": 3600})

    async def _strange(self, request: Request) -> bytes:
        return given(metadata(self.stranger.url) | {"resource": f"{self.server.url}/mcp"})

    def token_requests(self) -> list[Request]:
        """What came to the token endpoint."""
        return [request for request in self.login.seen if request.path == "/token"]


def metadata(url: str) -> dict[str, Any]:
    """What an authorization server says of itself."""
    return {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "response_types_supported": ["code"],
    }


def in_world(
    world: World, folder: Path, use: Callable[[Manager], Awaitable[None]], secret: str = SECRET, **more: Any
) -> None:
    """Uses a manager on the server of that world."""

    async def run() -> None:
        async with at_its_url(world.server), at_its_url(world.login), at_its_url(world.stranger):
            auth = {"type": "client_credentials", "client_id": "me", "issuer": world.login.url}
            auth |= more or {"client_secret": "${SECRET}"}
            entry = {
                "url": f"{world.server.url}/mcp",
                "headers": {"X-Operator": "private"},
                "tools": {"*": "allow"},
                "connect_timeout_s": 5,
                "auth": auth,
            }
            async with running(folder, {"s": entry}, SECRET=secret) as manager:
                await use(manager)

    asyncio.run(run())


async def works(manager: Manager) -> None:
    """A call that succeeds."""
    result = await manager.call_by_name("s__work", "{}", request_id="r")
    assert (result.text, result.is_error) == ("fine", False)


def test_the_secret_is_sent_to_the_issuer_and_the_token_to_the_server(tmp_path: Path) -> None:
    world = World()

    async def use(manager: Manager) -> None:
        await works(manager)
        await works(manager)

    in_world(world, tmp_path, use)
    (request,) = world.token_requests()
    basic = base64.b64encode(b"me:s3cr3t%2F%2B%20value").decode()
    assert request.headers["authorization"] == f"Basic {basic}"
    assert request.form()["grant_type"] == "client_credentials"
    assert request.form()["resource"] == f"{world.server.url}/mcp"
    assert all("x-operator" not in each.headers for each in world.login.seen)
    calls = [each for each in world.server.seen if b"tools/call" in each.body]
    assert [each.headers["authorization"] for each in calls] == ["Bearer token-1"] * 2
    assert all(each.headers["x-operator"] == "private" for each in calls)
    assert world.stranger.seen == []


@pytest.mark.parametrize(("scope", "asked"), [({"scope": "read"}, "read"), ({}, "everything")])
def test_the_scope_is_the_operators_or_else_what_the_server_wants(
    tmp_path: Path, scope: dict[str, str], asked: str
) -> None:
    world = World()
    in_world(world, tmp_path, works, client_secret="${SECRET}", **scope)
    assert world.token_requests()[0].form()["scope"] == asked


def test_a_secret_may_be_in_the_form(tmp_path: Path) -> None:
    world = World()
    in_world(world, tmp_path, works, client_secret="${SECRET}", method="client_secret_post")
    form = world.token_requests()[0].form()
    assert (form["client_id"], form["client_secret"]) == ("me", SECRET)


def test_a_key_signs_for_the_issuer_only(tmp_path: Path) -> None:
    world, pem = World(), key()
    in_world(world, tmp_path, works, pem, private_key="${SECRET}", algorithm="ES256")
    form = world.token_requests()[0].form()
    public = load_pem_private_key(pem.encode(), None).public_key()
    claims = jwt.decode(form["client_assertion"], public, ["ES256"], audience=world.login.url)  # type: ignore[arg-type]
    assert (claims["iss"], claims["sub"]) == ("me", "me")


async def restarts(manager: Manager, why: str) -> None:
    (state,) = manager.catalogue().servers
    assert state.state == "restarting"
    assert why in str(state.error)


def test_another_authorization_server_gets_nothing(tmp_path: Path) -> None:
    world = World()
    world.named = world.stranger
    in_world(world, tmp_path, lambda manager: restarts(manager, "is neither its own origin nor the issuer's"))
    assert world.stranger.seen == []
    assert world.token_requests() == []


def test_a_server_that_would_be_its_own_authorization_server_gets_nothing(tmp_path: Path) -> None:
    world = World()
    world.named = world.server
    why = "it names another authorization server than the file does (issuer)"
    in_world(world, tmp_path, lambda manager: restarts(manager, why))
    assert all(
        SECRET not in str(request) and b"client_credentials" not in request.body for request in world.server.seen
    )
    assert world.token_requests() == []


def test_metadata_is_not_read_from_elsewhere(tmp_path: Path) -> None:
    world = World()
    world.metadata_at = world.stranger
    in_world(world, tmp_path, lambda manager: restarts(manager, "is neither its own origin nor the issuer's"))
    assert world.stranger.seen == []


def test_a_redirect_takes_the_secret_nowhere(tmp_path: Path) -> None:
    world = World()
    world.redirects = True
    in_world(world, tmp_path, lambda manager: restarts(manager, "no token could be had: OAuthTokenError"))
    assert len(world.token_requests()) == 1
    assert world.stranger.seen == []


def test_a_refusal_is_told_by_its_word_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.refusal = given({"error": "invalid_client", "error_description": SECRET}, "401 Unauthorized")
    said = "its authorization server gives no token: status 401, invalid_client"
    with caplog.at_level(logging.DEBUG, "unspool"):
        in_world(world, tmp_path, lambda manager: restarts(manager, said))
    assert "invalid_client" in caplog.text
    assert SECRET not in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_token_that_is_not_valid_any_more_is_replaced(tmp_path: Path) -> None:
    world = World()

    async def use(manager: Manager) -> None:
        await works(manager)
        world.valid.clear()
        await works(manager)

    in_world(world, tmp_path, use)
    assert world.given == 2


def test_a_call_says_that_no_token_can_be_had_any_more(tmp_path: Path) -> None:
    world = World()

    async def use(manager: Manager) -> None:
        await works(manager)
        world.valid.clear()
        world.refusal = given({"error": "unauthorized_client"}, "400 Bad Request")
        result = await manager.call_by_name("s__work", "{}", request_id="r")
        assert result.is_error
        assert "its authorization server gives no token: status 400, unauthorized_client" in result.text
        world.refusal = None
        await works(manager)

    in_world(world, tmp_path, use)


def test_a_token_that_is_refused_is_not_asked_for_again_and_again(tmp_path: Path) -> None:
    world = World()

    async def use(manager: Manager) -> None:
        await restarts(manager, "it refuses the token that its authorization server gave")
        assert world.given == 1

    world.valid = NothingIsIn()
    in_world(world, tmp_path, use)


class NothingIsIn(set[str]):
    """A set that forgets."""

    def add(self, element: str, /) -> None:
        pass


def test_a_call_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    together = asyncio.Event()
    waiting: list[int] = []

    async def calls(message: dict[str, Any]) -> bytes:
        if message["method"] == "tools/call":
            waiting.append(message["id"])
            if len(waiting) == 3:
                together.set()
            await together.wait()
        return plain(message)

    async def use(manager: Manager) -> None:
        await asyncio.gather(works(manager), works(manager), works(manager))

    in_world(World(calls), tmp_path, use)
    assert len(waiting) == 3


def test_a_secret_does_not_leave_tls(tmp_path: Path) -> None:
    async def flow() -> None:
        credentials = ClientCredentials("me", "https://login.test", SECRET)
        server = ServerConfig("s", "http", url="https://h.test/mcp", auth=credentials)
        steps = authentication(server).async_auth_flow(request := httpx2.Request("POST", server.url))
        assert await anext(steps) is request
        metadata_at = await steps.asend(httpx2.Response(401, request=request))
        named = {"resource": server.url, "authorization_servers": ["https://login.test"]}
        login = await steps.asend(httpx2.Response(200, json=named, request=metadata_at))
        assert login.url.host == "login.test"
        said = metadata("https://login.test") | {"token_endpoint": "http://login.test/token"}
        with pytest.raises(TokenError, match=r"would be sent to http://login\.test without TLS"):
            await steps.asend(httpx2.Response(200, json=said, request=login))

    asyncio.run(flow())
