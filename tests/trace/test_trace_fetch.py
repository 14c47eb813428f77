"""Fetching from a server on loopback: checked, cached, and nothing left of what went wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pagedsim.errors import InputError, SpecError
from pagedsim.trace import fetch, load

DATA = b"num_prefill_tokens,num_decode_tokens\n" + b"3,4\n" * 5000
SHA = hashlib.sha256(DATA).hexdigest()


class Server(ThreadingHTTPServer):
    requests = 0
    cut = False


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests += 1
        if self.path != "/lengths.csv":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA[:1000] if self.server.cut else DATA)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAGEDSIM_CACHE", str(tmp_path / "cache"))
    for key in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(key, raising=False)
    return tmp_path / "cache"


def sources(
    server: Server, path: str = "/lengths.csv", sha256: str = SHA
) -> dict[str, fetch.Public]:
    url = f"http://127.0.0.1:{server.server_port}{path}"
    return {"lengths": fetch.Public(url, sha256, "lengths", "none")}


def test_once_and_then_from_the_cache(server: Server, cache: Path) -> None:
    known = sources(server)
    assert fetch.cached("lengths", known) is None
    path = fetch.fetch("lengths", known)
    assert path.read_bytes() == DATA
    assert fetch.fetch("lengths", known) == path == fetch.cached("lengths", known)
    assert server.requests == 1
    assert len(load(path)) == 5000
    assert list(cache.iterdir()) == [path]


def test_an_interrupted_download_leaves_nothing_and_starts_anew(
    server: Server, cache: Path
) -> None:
    known = sources(server)
    server.cut = True
    with pytest.raises(InputError, match=r"lengths: the download failed|sha256 of what"):
        fetch.fetch("lengths", known)
    assert list(cache.iterdir()) == []
    server.cut = False
    told: list[tuple[int, int]] = []
    found = fetch.fetch("lengths", known, progress=lambda *at: told.append(at))
    assert found.read_bytes() == DATA
    assert told[-1] == (len(DATA), len(DATA))
    assert sorted(told) == told


def test_wrong_checksum(server: Server, cache: Path) -> None:
    with pytest.raises(InputError, match=f"sha256 of what .* is not {'0' * 64}; nothing was kept"):
        fetch.fetch("lengths", sources(server, sha256="0" * 64))
    assert list(cache.iterdir()) == []


def test_not_there(server: Server, cache: Path) -> None:
    with pytest.raises(InputError, match="the download failed: 404"):
        fetch.fetch("lengths", sources(server, "/other.csv"))
    assert list(cache.iterdir()) == []


def test_no_server(cache: Path) -> None:
    known = {"lengths": fetch.Public("http://127.0.0.1:9/x.csv", SHA, "", "")}
    with pytest.raises(InputError, match="the download failed"):
        fetch.fetch("lengths", known)


def test_a_spoilt_file_is_fetched_again(server: Server, cache: Path) -> None:
    known = sources(server)
    path = fetch.fetch("lengths", known)
    path.write_bytes(b"spoilt")
    assert fetch.cached("lengths", known) is None
    assert fetch.fetch("lengths", known).read_bytes() == DATA
    assert server.requests == 2


def test_names(cache: Path) -> None:
    with pytest.raises(
        SpecError, match=r"no public trace of that name; there are: azure-2023-conv"
    ):
        fetch.fetch("nothing")
    with pytest.raises(InputError, match="not fetched yet; run: pagedsim trace fetch"):
        load("mooncake-conversation")
    assert all(len(source.sha256) == 64 for source in fetch.SOURCES.values())
    assert all(source.url.startswith("https://") for source in fetch.SOURCES.values())
    assert fetch.folder() == cache


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGEDSIM_CACHE", raising=False)
    assert "pagedsim" in str(fetch.folder())


def test_fetched_names_load(cache: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(fetch, "SOURCES", sources(server))
    fetch.fetch("lengths", fetch.SOURCES)
    monkeypatch.setattr(fetch.cached, "__defaults__", (fetch.SOURCES,))
    assert len(load("lengths")) == 5000
