"""Tokens for servers on the network, had by client credentials and kept in memory; nobody is asked to sign in.

The flow is the SDK's. What is added: the secret goes to the authorization server of the operator's file only,
metadata is read from there and from the server itself only, what is asked for is what the operator says, and while
a call waits for its answer, others need not wait for the lock of the flow.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from unspool.mcp.settings import ClientCredentials, ServerConfig

_REASON_CHARACTERS = 100


class TokenError(Exception):
    """A server wants a token that can't be had, or refuses it; the text says why, and has no secret in it."""


def authentication(server: ServerConfig) -> httpx2.Auth:
    """What requests to a server are sent with besides its headers."""
    return _NoTokens() if server.auth is None else _Tokens(server.url, server.auth)


class _NoTokens(httpx2.Auth):
    """For a server whose entry has no credentials: should it want a token, that is said."""

    def __init__(self) -> None:
        self._was_let_in = False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sends the request as it is. Raises :class:`TokenError`."""
        response = yield request
        if response.status_code == 401 and not self._was_let_in:
            raise TokenError(
                "it answered with status 401 and wants a token; nobody is here to sign in with a browser, so have "
                "Authorization in its headers, or client_credentials in its auth"
            )
        self._was_let_in |= response.is_success


class _Tokens(httpx2.Auth):
    """For a server whose tokens are had with credentials."""

    def __init__(self, url: str, credentials: ClientCredentials) -> None:
        self._provider = _provider(url, credentials)
        self._steps_up = credentials.scope is None
        self._issuer = httpx2.URL(credentials.issuer)
        self._origins = {_origin(httpx2.URL(url)), _origin(self._issuer)}

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sends the request with a token, which is had first if need be. Raises :class:`TokenError`."""
        context = self._provider.context
        if context.current_tokens is not None and context.is_token_valid():
            request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            response = yield request
            if not self._wants_another(response):
                return
        flow = self._provider.async_auth_flow(request)
        was_sent = False
        try:
            outgoing = await anext(flow)
            # Sent again, it is sent with the new token, and outside of the lock.
            while outgoing is not request or not was_sent:
                if outgoing is request:
                    was_sent = True
                else:
                    self._check_target(outgoing)
                response = yield outgoing
                if outgoing.method == "POST" and outgoing is not request:
                    await _check_answer(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValueError) as error:
            raise TokenError(_said(error)) from None
        finally:
            await flow.aclose()
        response = yield request
        if response.status_code == 401:
            raise TokenError("it refuses the token that its authorization server gave: status 401")

    def _wants_another(self, response: httpx2.Response) -> bool:
        if response.status_code == 401:
            return True
        challenge = response.headers.get("WWW-Authenticate", "")
        return self._steps_up and response.status_code == 403 and "insufficient_scope" in challenge

    def _check_target(self, outgoing: httpx2.Request) -> None:
        """Refuses what neither the operator nor the operator's authorization server named."""
        url = outgoing.url
        if outgoing.method != "POST" and _origin(url) not in self._origins:
            raise TokenError(
                f"it has {_shown(url)} asked for metadata, which is neither its own origin nor the issuer's"
            )
        if outgoing.method == "POST" and self._issuer.scheme == "https" != url.scheme:
            raise TokenError(f"the secret would be sent to {_shown(url)} without TLS")


class _Asks(OAuthClientProvider):
    """Asks for the scope that the operator says, whatever the server would like."""

    said_scope: str | None = None

    async def _perform_authorization(self) -> httpx2.Request:
        if self.said_scope is not None:
            self.context.client_metadata.scope = self.said_scope
        return await super()._perform_authorization()


class _WithSecret(_Asks, ClientCredentialsOAuthProvider):
    pass


class _WithKey(_Asks, PrivateKeyJWTOAuthProvider):
    pass


class _Memory:
    """Where tokens are kept, and are gone with the session."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


def _provider(url: str, credentials: ClientCredentials) -> OAuthClientProvider:
    provider: _Asks
    client, issuer, scope = credentials.client_id, credentials.issuer, credentials.scope
    if credentials.method == "private_key_jwt":
        signed = SignedJWTParameters(
            issuer=client, subject=client, signing_key=credentials.secret, signing_algorithm=credentials.algorithm
        )
        provider = _WithKey(url, _Memory(), client, signed.create_assertion_provider(), scope=scope, issuer=issuer)
    else:
        provider = _WithSecret(
            url, _Memory(), client, credentials.secret, credentials.method, scope=scope, issuer=issuer
        )
    provider.said_scope = scope
    return provider


async def _check_answer(response: httpx2.Response) -> None:
    """Says what an authorization server refuses, by OAuth's word for it: the rest may quote what was sent."""
    if response.is_success or response.is_redirect:
        return
    try:
        word = json.loads(await response.aread())["error"]
    except (ValueError, LookupError, TypeError, httpx2.StreamError):
        word = None
    said = f", {word[:_REASON_CHARACTERS]}" if isinstance(word, str) and word.isprintable() else ""
    raise TokenError(f"its authorization server gives no token: status {response.status_code}{said}")


def _said(error: Exception) -> str:
    """Why there is no token, without what was sent or answered."""
    if isinstance(error, OAuthFlowError) and "issuer" in str(error):
        return "it names another authorization server than the file does (issuer)"
    return f"no token could be had: {type(error).__name__}"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _shown(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"
