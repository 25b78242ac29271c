"""What the operator's file says of a server's ``auth``: who asks for tokens, and with which secret.

A secret is never in the file itself, only named there: a variable, or a file beside it.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from unspool.mcp.entries import Entry, filled
from unspool.mcp.settings import AuthMethod, ClientCredentials, McpConfigError
from unspool.mcp.variables import read_trusted

_VARIABLE = re.compile(r"\$\{[^{}]*\}")
SECRETS = ("client_secret", "client_secret_file", "private_key", "private_key_file")
_METHODS: dict[str, tuple[AuthMethod, ...]] = {
    "client_secret": ("client_secret_basic", "client_secret_post"),
    "private_key": ("private_key_jwt",),
}
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


def read_credentials(entry: Entry, folder: Path) -> tuple[ClientCredentials | None, list[str]]:
    """The credentials of an entry, if it has any, with warnings. Raises :class:`McpConfigError`."""
    auth = entry.inner("auth")
    if auth is None:
        return None, []
    if any(name.lower() == "authorization" for name in entry.said.get("headers") or ()):
        raise McpConfigError(f"{auth.place}: headers has Authorization as well; leave one out")
    if (kind := auth.text("type")) != "client_credentials":
        raise McpConfigError(
            f"{auth.at('type')}: must be client_credentials, not {kind!r}: nobody is here to sign in with a "
            "browser; write that, or have a token in headers"
        )
    key = auth.one_of(*SECRETS)
    if key is None:
        raise McpConfigError(f"{auth.place}: has none of {', '.join(SECRETS)}")
    secret = _secret(auth, key, folder)
    method = auth.choice("method", methods := _METHODS[key.removesuffix("_file")]) or methods[0]
    algorithm = auth.choice("algorithm", _ALGORITHMS if method == "private_key_jwt" else ())
    credentials = filled(
        ClientCredentials,
        {
            "client_id": _needed(auth, "client_id"),
            "issuer": _issuer(auth),
            "secret": secret,
            "method": method,
            "algorithm": algorithm,
            "scope": auth.text("scope"),
        },
    )
    if method == "private_key_jwt":
        _check_key(credentials, auth.at(key))
    return credentials, auth.left_over()


def _needed(auth: Entry, key: str) -> str:
    value = auth.text(key)
    if not value:
        raise McpConfigError(f"{auth.at(key)}: is missing")
    return value


def _secret(auth: Entry, key: str, folder: Path) -> str:
    if key.endswith("_file"):
        secret = read_trusted(folder / Path(_needed(auth, key)).expanduser(), auth.at(key)).strip()
    else:
        written = auth.said[key]
        if not (isinstance(written, str) and _VARIABLE.fullmatch(written) and ":-" not in written):
            raise McpConfigError(
                f"{auth.at(key)}: a secret is not written into the file; write ${{NAME}} and set NAME in the "
                f"environment, or name a file in {key}_file"
            )
        secret = auth.text(key) or ""
    if not secret:
        raise McpConfigError(f"{auth.at(key)}: is empty")
    return secret


def _issuer(auth: Entry) -> str:
    issuer = auth.text("issuer")
    place = auth.at("issuer")
    if not issuer:
        raise McpConfigError(
            f"{place}: is missing; name the authorization server that the secret belongs to (the issuer of its "
            "metadata), or the server could have the secret sent anywhere"
        )
    try:
        parts = urlsplit(issuer)
        usable = bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.hostname))
        )
    except ValueError:
        usable = False
    if not usable or not issuer.isprintable() or "@" in issuer:
        raise McpConfigError(f"{place}: must be an https URL (http only on this machine)")
    return issuer


def _is_here(host: str | None) -> bool:
    """Whether a host is this machine, so that what is sent to it is seen by nobody on the way."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _check_key(credentials: ClientCredentials, place: str) -> None:
    try:
        import jwt
    except ImportError as error:
        raise McpConfigError(f"{place}: signing needs {error.name}: pip install 'unspool[mcp]'") from error
    try:
        jwt.encode({}, credentials.secret, credentials.algorithm)
    except (ValueError, TypeError, jwt.PyJWTError):
        # The error may quote the key.
        raise McpConfigError(
            f"{place}: is no private key in PEM that signs with {credentials.algorithm} (algorithm)"
        ) from None
