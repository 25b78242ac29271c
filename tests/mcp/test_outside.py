from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from tests.mcp.running import served
from unspool.mcp import outside
from unspool.mcp.manager import Manager
from unspool.mcp.outside import Origin, OutsideError, checked, is_public, public_addresses, read_origin
from unspool.mcp.pinned import PinnedTransport
from unspool.mcp.settings import McpConfig, ServerConfig
from unspool.mcp.tools import ToolResult

ORIGINS = (read_origin("https://mcp.example.com"), read_origin("https://*.example.org:8443"))


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://mcp.example.com", Origin("mcp.example.com")),
        ("https://MCP.example.com:443/", Origin("mcp.example.com")),
        ("https://*.example.com:8443", Origin("example.com", 8443, True)),
    ],
)
def test_an_origin_is_a_host_and_a_port(text: str, origin: Origin) -> None:
    assert read_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("example.com", "http://example.com", "https://", "https://*", "https://*.*.com", "https://a*.com"),
        *("https://example.com/mcp", "https://example.com?a", "https://user@example.com", "https://a:b", ""),
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(OutsideError):
        read_origin(text)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://mcp.example.com/mcp?key=1", ("mcp.example.com", 443)),
        ("https://MCP.EXAMPLE.COM./mcp", ("mcp.example.com", 443)),
        ("https://a.b.example.org:8443/", ("a.b.example.org", 8443)),
    ],
)
def test_a_url_at_an_allowed_origin_is_taken(url: str, found: tuple[str, int]) -> None:
    assert checked(url, ORIGINS) == found


@pytest.mark.parametrize(
    "url",
    [
        "http://mcp.example.com/",
        "https://mcp.example.com:444/",
        "https://mcp.example.com.evil.org/",
        "https://evil-mcp.example.com/",
        "https://example.org:8443/",
        "https://evilexample.org:8443/",
        "https://mcp.example.com@evil.org/",
        "https://user:key@mcp.example.com/",
        "https://evil.org#@mcp.example.com/",
        "https://evil.org\\@mcp.example.com/",
        "https://[::1]/",
        "https://169.254.169.254/latest",
        "https://mcp.example.com:99999/",
        "https://mcp.exampl\u0435.com/",
        # Whoever reads these after us would find another host, port or none.
        *("https://mcp.example.com:0/", "https://mcp.example.com../", "https://.example.org:8443/"),
        *("https://a..example.org:8443/", f"https://{'a' * 64}.example.org:8443/"),
        f"https://{'a.' * 130}example.org:8443/",
        *("https://mcp.example.com\n/", "\thttps://mcp.example.com/", "https://mcp.example.com/\ud800"),
        "file:///etc/passwd",
        "mcp.example.com",
    ],
)
def test_any_other_url_is_not(url: str) -> None:
    with pytest.raises(OutsideError) as caught:
        checked(url, ORIGINS)
    assert "key" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "2001:470:1:1:0:5efe:8.8.8.8"],
)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
        *("64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:7f00:1::1", "::ffff:0:127.0.0.1"),
        *("64:ff9b:1:7f00:0:100:808:808", "fec0::1", "feff::1"),
        # Some versions of Python take these for public: protocol assignments with a cloud's metadata among them,
        # relays, documentation, routers' segments.
        *("192.0.0.192", "192.88.99.1", "3fff::1", "5f00::1"),
        *("2001:470:1:1:0:5efe:10.0.0.1", "2001:470:1:1:200:5efe:127.0.0.1"),
        *("nonsense", "", "0x7f000001", "2130706433"),
    ],
)
def test_other_addresses_are_not(address: str) -> None:
    assert not is_public(address)


def resolving(*addresses: str) -> object:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def test_one_address_that_is_not_public_is_enough() -> None:
    good = asyncio.run(public_addresses("mcp.example.com", 443, resolving("8.8.8.8", "8.8.8.8", "8.8.4.4")))  # type: ignore[arg-type]
    assert good == ("8.8.8.8", "8.8.4.4")
    for addresses in (("8.8.8.8", "127.0.0.1"), ("::1",), ()):
        with pytest.raises(OutsideError, match="not public"):
            asyncio.run(public_addresses("mcp.example.com", 443, resolving(*addresses)))  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
def test_spellings_of_this_machine_are_seen_through(host: str) -> None:
    with pytest.raises(OutsideError, match=r"not public|nowhere"):
        asyncio.run(public_addresses(host, 443))


def test_a_name_that_leads_nowhere_is_said() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(OutsideError, match="leads nowhere"):
        asyncio.run(public_addresses("mcp.example.com", 443, resolve))


def test_what_can_not_be_a_name_leads_nowhere() -> None:
    """Python's resolver raises ``UnicodeError`` for it."""
    with pytest.raises(OutsideError, match="leads nowhere"):
        asyncio.run(public_addresses(f"{'a' * 64}.example.com", 443))


def test_a_name_server_that_does_not_answer_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(outside, "_RESOLVE_S", 0.01)
    with pytest.raises(OutsideError, match="leads nowhere"):
        asyncio.run(public_addresses("mcp.example.com", 443, resolve))


class Inner(httpx2.AsyncBaseTransport):
    """What would be sent, and where."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str, object]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append((request.url.host, request.headers["host"], request.extensions.get("sni_hostname")))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def fetched(
    inner: Inner,
    url: str = "https://mcp.example.com/mcp",
    *addresses: str,
    own: str = "https://mcp.example.com/mcp",
) -> httpx2.Response:
    async def fetch() -> httpx2.Response:
        transport = PinnedTransport(own, addresses or ("8.8.8.8",), inner)
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            return await client.get(url)

    return asyncio.run(fetch())


def test_the_checked_address_is_reached_under_the_name_of_the_host() -> None:
    inner = Inner(httpx2.Response(200))
    assert fetched(inner).status_code == 200
    assert inner.sent == [("8.8.8.8", "mcp.example.com", "mcp.example.com")]


@pytest.mark.parametrize("host", ["mcp.example.com.", "xn--strae-oqa.example.com"])
def test_the_certificate_is_held_against_the_name_that_was_looked_up(host: str) -> None:
    """Not against what a codec makes of it, which is another name, nor with a dot that no certificate has."""
    inner, url = Inner(httpx2.Response(200)), f"https://{host}/mcp"
    assert fetched(inner, url, own=url).status_code == 200
    ((_, _, name),) = inner.sent
    assert name == host.rstrip(".")


def test_the_next_address_is_tried() -> None:
    inner = Inner(httpx2.ConnectError("no"), httpx2.Response(200))
    assert fetched(inner, "https://mcp.example.com/mcp", "8.8.8.8", "2606:4700::1111").status_code == 200
    assert [host for host, *_ in inner.sent] == ["8.8.8.8", "2606:4700::1111"]
    with pytest.raises(httpx2.ConnectError):
        fetched(Inner(httpx2.ConnectError("no")))


@pytest.mark.parametrize(
    "url", ["https://evil.org/mcp", "http://mcp.example.com/mcp", "https://mcp.example.com:444/"]
)
def test_no_other_origin_is_reached(url: str) -> None:
    inner = Inner(httpx2.Response(200))
    with pytest.raises(httpx2.UnsupportedProtocol, match="own origin"):
        fetched(inner, url)
    assert inner.sent == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    inner = Inner(httpx2.Response(status, headers={"location": "/other"}))
    with pytest.raises(httpx2.UnsupportedProtocol, match="redirect"):
        fetched(inner)
    assert len(inner.sent) == 1


def test_a_real_server_is_called_at_the_address_that_it_is_pinned_to(tmp_path: Path) -> None:
    async def use(url: str) -> ToolResult:
        port = url.split(":")[2].split("/")[0]
        server = ServerConfig("pinned", "http", url=f"http://localhost:{port}/mcp", addresses=("127.0.0.1",))
        manager = Manager(McpConfig(tmp_path, (server,)))
        try:
            await manager.start()
            return await manager.call_by_name("pinned__add", '{"a": 1, "b": 2}', request_id="req_1")
        finally:
            await manager.close()

    with served("http") as url:
        result = asyncio.run(use(url))
    assert not result.is_error
    assert "3" in result.text
