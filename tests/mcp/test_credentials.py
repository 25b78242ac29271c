"""What the operator's file may say of ``auth``, and what is said of mistakes in it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.mcp.files import loaded, written
from unspool.mcp.checking import check
from unspool.mcp.settings import ClientCredentials, McpConfigError

AUTH = {"type": "client_credentials", "client_id": "me", "issuer": "https://login.test/", "client_secret": "${S}"}


def key() -> str:
    """A private key on the curve of ES256."""
    made = ec.generate_private_key(ec.SECP256R1())
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def said(folder: Path, auth: dict[str, Any], **environment: str) -> ClientCredentials:
    """What is read of an ``auth``."""
    config = loaded(folder, {"s": {"url": "https://h.test/mcp", "auth": auth}}, {"S": "s3cret", **environment})
    assert config.warnings == ()
    (server,) = config.servers
    assert server.auth is not None
    return server.auth


def refusal(folder: Path, auth: Any, headers: dict[str, str] | None = None, **environment: str) -> str:
    """Why an ``auth`` can't be used."""
    entry = {"url": "https://h.test/mcp", "auth": auth, "headers": headers or {}}
    with pytest.raises(McpConfigError) as caught:
        loaded(folder, {"s": entry}, {"S": "s3cret", **environment})
    assert "s3cret" not in str(caught.value)
    return str(caught.value).split("server 's'")[1]


def test_a_secret_may_be_a_variable_or_a_file(tmp_path: Path) -> None:
    plain = ClientCredentials("me", "https://login.test/", "s3cret")
    assert said(tmp_path, AUTH) == plain
    assert said(tmp_path, {**AUTH, "scope": "read"}) == dataclasses.replace(plain, scope="read")
    posted = {**AUTH, "method": "client_secret_post"}
    assert said(tmp_path, posted) == dataclasses.replace(plain, method="client_secret_post")
    written(tmp_path, "s3cret\n", "secret")
    from_file = {name: value for name, value in AUTH.items() if name != "client_secret"}
    assert said(tmp_path, {**from_file, "client_secret_file": "secret"}) == plain
    pem = key()
    signed = {**from_file, "private_key": "${K}", "algorithm": "ES256"}
    expected = dataclasses.replace(plain, secret=pem, method="private_key_jwt", algorithm="ES256")
    assert said(tmp_path, signed, K=pem) == expected


def without(name: str) -> dict[str, Any]:
    return {each: value for each, value in AUTH.items() if each != name}


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        ("token", ".auth: must be an object"),
        ({}, ".auth.type: must be client_credentials, not None: nobody is here to sign in"),
        ({**AUTH, "type": "oauth"}, ".auth.type: must be client_credentials, not 'oauth'"),
        (without("client_id"), ".auth.client_id: is missing"),
        (without("issuer"), ".auth.issuer: is missing; name the authorization server"),
        ({**AUTH, "issuer": "login.test"}, ".auth.issuer: must be an https URL"),
        (
            {**AUTH, "issuer": "http://login.test"},
            ".auth.issuer: must be an https URL (http only on this machine)",
        ),
        ({**AUTH, "issuer": "https://u:p@login.test"}, ".auth.issuer: must be an https URL"),
        (without("client_secret"), ".auth: has none of client_secret, client_secret_file, private_key"),
        ({**AUTH, "private_key": "${S}"}, ".auth: client_secret and private_key say the same"),
        ({**AUTH, "client_secret": "s3cret"}, ".auth.client_secret: a secret is not written into the file"),
        ({**AUTH, "client_secret": "${GONE:-s3cret}"}, ".auth.client_secret: a secret is not written into the"),
        ({**AUTH, "client_secret": "${GONE}"}, ".auth.client_secret: GONE is not set"),
        ({**AUTH, "client_secret": "${EMPTY}"}, ".auth.client_secret: is empty"),
        ({**without("client_secret"), "client_secret_file": "gone"}, ".auth.client_secret_file: "),
        ({**AUTH, "method": "private_key_jwt"}, ".auth.method: must be one of client_secret_basic, client_se"),
        (
            {**without("client_secret"), "private_key": "${S}"},
            ".auth.private_key: is no private key in PEM that signs",
        ),
        ({**without("client_secret"), "private_key": "${K}"}, "that signs with RS256 (algorithm)"),
        (
            {**without("client_secret"), "private_key": "${K}", "algorithm": "HS256"},
            ".auth.algorithm: must be one of",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, auth: Any, why: str) -> None:
    assert why in refusal(tmp_path, auth, EMPTY="", K=key())


def test_a_secret_that_others_could_change_is_none(tmp_path: Path) -> None:
    written(tmp_path, "s3cret", "secret").chmod(0o666)
    auth = {**without("client_secret"), "client_secret_file": "secret"}
    assert ".auth.client_secret_file: others could change it" in refusal(tmp_path, auth)


def test_there_is_one_authorization(tmp_path: Path) -> None:
    assert ".auth: headers has Authorization as well" in refusal(tmp_path, AUTH, {"authorization": "x"})


def test_keys_that_are_not_known_are_warned_of(tmp_path: Path) -> None:
    servers = {"s": {"url": "https://h.test/mcp", "auth": {**AUTH, "scopes": "read"}}}
    (warning,) = loaded(tmp_path, servers, {"S": "s3cret"}).warnings
    assert ".auth.scopes is not known and does nothing; is scope meant?" in warning


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"s": {"url": "https://h.test/mcp", "auth": AUTH}}, {"S": "s3cret"})
    (one,) = check(config)
    assert one.auth == "tokens of https://login.test/ for me (client_secret_basic)"
    assert "s3cret" not in json.dumps(dataclasses.asdict(one)) + repr(config)
