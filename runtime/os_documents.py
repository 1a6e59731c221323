"""The real adapter of `runtime.documents`: files, and HTTP by the standard library, in a thread.

Rules: no proxies, and redirections only of reads, to http or https. Whatever a server sends ends in an OSError, and nothing
of its body is in the error.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from runtime.clock import Clock
from runtime.documents import DocumentRequest
from runtime.os_threads import OsThreads

CHUNK_BYTES = 64 * 1024
THREADS = 2
HEADERS = {"Accept": "application/json", "Cache-Control": "no-cache", "User-Agent": "barnabas"}


class OsDocuments:
    """`runtime.documents.Documents`. Its threads start when they are needed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads: OsThreads | None = None

    async def read(self, request: DocumentRequest) -> bytes:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = OsThreads(loop, THREADS, "document")
        future: asyncio.Future[bytes] = loop.create_future()

        def done(content: bytes | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(content or b"")

        self._threads.start(lambda: _read(request, self._clock.monotonic_ms), done)
        return await future

    def close(self) -> None:
        """Drop requests that have not begun; those that have are not waited for."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None


def _read(request: DocumentRequest, now_ms: Callable[[], int]) -> bytes:
    parts = urllib.parse.urlsplit(request.url)
    if parts.scheme == "file":
        with open(urllib.parse.unquote(parts.path), "rb") as file:
            return _bounded(request, file.read(request.max_bytes + 1))
    if parts.scheme not in ("http", "https"):
        raise OSError(errno.EINVAL, f"no URL of a file, http or https: {request.url}")
    try:
        return _fetched(request, now_ms)
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(errno.EPROTO, f"{os.strerror(errno.EPROTO)}: {type(error).__name__}: {request.url}") from None
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(errno.EPROTO, f"HTTP status {error.code}: {request.url}") from None
    except urllib.error.URLError as error:
        raise OSError(errno.EHOSTUNREACH, f"{error.reason}: {request.url}") from None


def _fetched(request: DocumentRequest, now_ms: Callable[[], int]) -> bytes:
    deadline_ms = now_ms() + request.timeout_ms
    asked = urllib.request.Request(request.url, data=request.form, headers={**HEADERS, **request.headers})  # noqa: S310 - checked
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=request.trusted_path)),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ]
    if request.form is None:
        handlers.append(urllib.request.HTTPRedirectHandler())
    opener = urllib.request.OpenerDirector()
    for handler in handlers:
        opener.add_handler(handler)
    content = b""
    with opener.open(asked, timeout=request.timeout_ms / 1000) as response:
        while chunk := response.read1(CHUNK_BYTES):
            content = _bounded(request, content + chunk)
            if now_ms() > deadline_ms:
                raise TimeoutError(errno.ETIMEDOUT, f"{os.strerror(errno.ETIMEDOUT)}: {request.url}")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
    return content


def _bounded(request: DocumentRequest, content: bytes) -> bytes:
    if len(content) > request.max_bytes:
        raise OSError(errno.EFBIG, f"longer than {request.max_bytes} bytes: {request.url}")
    return content
