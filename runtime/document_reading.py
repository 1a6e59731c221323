"""The reading of one document: a file, or a URL of http and https. Every function blocks: a thread of `runtime.os_documents`.

Loaded with the first document: Python's HTTP client has many modules, and most brokers read no documents.
"""

from __future__ import annotations

import errno
import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from runtime.documents import DocumentRequest
from runtime.tls.context import client_context_of

CHUNK_BYTES = 64 * 1024
HEADERS = {"Accept": "application/json", "Cache-Control": "no-cache", "User-Agent": "barnabas"}


def read_document(request: DocumentRequest, now_ms: Callable[[], int]) -> bytes:
    """Return the content. Raises OSError."""
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
        urllib.request.HTTPSHandler(context=_context(request)),
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


def _context(request: DocumentRequest) -> ssl.SSLContext:
    if request.tls is not None:
        return client_context_of(request.tls, checks_host=request.checks_host)
    return ssl.create_default_context()


def _bounded(request: DocumentRequest, content: bytes) -> bytes:
    if len(content) > request.max_bytes:
        raise OSError(errno.EFBIG, f"longer than {request.max_bytes} bytes: {request.url}")
    return content
