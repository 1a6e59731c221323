"""The interface to small documents that others serve, by HTTP or as files: keys, tokens.

Rules: a document is read whole, off the event loop, and has a largest size and a largest time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from runtime.tls.context import TlsMaterial


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """`url` begins with file:, http: or https:. With `form` it is posted as the body of a form. `headers` may have secrets.
    `tls` is used for https, in place of the operating system's authorities; names in certificates count if `checks_host`."""

    url: str
    max_bytes: int
    timeout_ms: int
    form: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: TlsMaterial | None = None
    checks_host: bool = True


class Documents(Protocol):
    async def read(self, request: DocumentRequest) -> bytes:
        """Read a document. Raises OSError."""


class NoDocuments:
    """There are none."""

    async def read(self, request: DocumentRequest) -> bytes:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), request.url)
