"""Documents come from files and over HTTP, within their limits; whatever a server sends, it is an OSError or a document."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runtime.clock import SystemClock
from runtime.documents import DocumentRequest
from runtime.os_documents import OsDocuments
from tests.tls_certificates import issued, material


class _Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, str, dict[str, str], bytes]]
    has_ended: threading.Event

    def log_message(self, *_what: object) -> None:
        """Keep the output of tests clean."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, dict(self.headers), body))
        match self.path:
            case "/long":
                self._send(200, b"x" * 1000)
            case "/silent":
                self.has_ended.wait()
            case "/moved":
                self._send(302, b"", Location="/document")
            case "/to-a-file":
                self._send(302, b"", Location="file:///etc/hostname")
            case "/refused":
                self._send(403, b"the body")
            case "/rubbish":
                self.wfile.write(b"rubbish\r\n\r\n")
            case "/short":
                self._send(200, b"half", length=100)
            case _:
                self._send(200, b"document")

    do_GET = do_POST = _answer

    def _send(self, status: int, body: bytes, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body) if length is None else length)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def server(context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[Any]]]:
    seen: list[Any] = []
    has_ended = threading.Event()
    handler = type("Handler", (_Handler,), {"seen": seen, "has_ended": has_ended})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        if context is not None:
            http.socket = context.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'s' if context else ''}://127.0.0.1:{http.server_address[1]}", seen
        finally:
            has_ended.set()
            http.shutdown()
            thread.join()


def read(url: str, *, max_bytes: int = 100, timeout_ms: int = 60_000, **more: Any) -> bytes:
    async def run() -> bytes:
        documents = OsDocuments(SystemClock())
        try:
            return await documents.read(DocumentRequest(url, max_bytes, timeout_ms, **more))
        finally:
            documents.close()

    return asyncio.run(run())


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_bytes(b"x" * 100)
    url = path.as_uri()
    assert "%20" in url and read(url) == b"x" * 100
    with pytest.raises(OSError, match="longer than 99 bytes"):
        read(url, max_bytes=99)
    with pytest.raises(FileNotFoundError):
        read((tmp_path / "missing").as_uri())


def test_a_document_over_http() -> None:
    with server() as (base, seen):
        assert read(f"{base}/document") == read(f"{base}/moved") == b"document"
        form, headers = b"a=1", {"Authorization": "Basic x"}
        assert read(f"{base}/form", form=form, headers=headers) == b"document"
    command, path, sent, body = seen[-1]
    assert (command, path, body, sent["Authorization"]) == ("POST", "/form", b"a=1", "Basic x")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/long", "longer than 100 bytes"),
        ("/refused", "HTTP status 403"),
        ("/rubbish", "BadStatusLine"),
        ("/short", "IncompleteRead"),
        ("/to-a-file", "not allowed|HTTP status 302"),
    ],
)
def test_what_a_server_may_do_wrong(path: str, reason: str) -> None:
    with server() as (base, _), pytest.raises(OSError, match=reason) as caught:
        read(f"{base}{path}")
    assert "the body" not in str(caught.value)


def test_a_server_that_does_not_respond() -> None:
    with server() as (base, seen):
        with pytest.raises(OSError, match="timed out"):
            read(f"{base}/silent", timeout_ms=100)
        assert len(seen) <= 1


def test_a_form_is_not_redirected() -> None:
    with server() as (base, seen):
        with pytest.raises(OSError, match="HTTP status 302"):
            read(f"{base}/moved", form=b"secret=1")
        assert len(seen) == 1


def test_https_verifies_the_server(tmp_path: Path) -> None:
    for name, host, authority_name in (
        ("good", "127.0.0.1", "one"),
        ("other-host", "127.0.0.9", "one"),
        ("other", "127.0.0.1", "two"),
    ):
        (tmp_path / name).write_text(issued(name, host, by=authority_name).both)
    for name, checks_host, is_trusted in (
        ("good", True, True),
        ("other-host", True, False),
        ("other-host", False, True),
        ("other", False, False),
    ):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / name)
        with server(context) as (base, seen):
            if is_trusted:
                assert read(f"{base}/document", tls=material(None, by="one"), checks_host=checks_host) == b"document"
            else:
                with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                    read(f"{base}/document", tls=material(None, by="one"), checks_host=checks_host)
                assert seen == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "", "x", "http://127.0.0.1:1/x", "http://127.0.0.1:99999/x"])
def test_urls_that_cannot_be_read(url: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - any of the system's
        read(url)


def test_requests_show_no_secrets() -> None:
    request = DocumentRequest("http://x", 1, 1, form=b"secret", headers={"Authorization": "secret"})
    assert "secret" not in repr(request)
