"""Request headers of one connection. A client sends the same client id again and again: it is decoded once.

Rules: pure. `protocol.header` decodes any header; what is kept here gives the same result whenever the client id's bytes are
those of the request before and no tagged field follows.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from broker.network.routes import Route
from protocol.header import decode_request_header

if TYPE_CHECKING:
    from runtime.disk.filesystem import Buffer

# Size, API key, version, correlation id, the client id's length: the start of all requests but ControlledShutdown v0.
START = struct.Struct(">ihhih")
SIZE = struct.Struct(">i")
_CLIENT_ID_POSITION = START.size - SIZE.size  # in a frame, which begins behind its length


class HeaderReader:
    """Owned by a connection."""

    __slots__ = ("_client_id", "_client_id_raw")

    def __init__(self) -> None:
        self._client_id_raw = b""
        self._client_id: str | None = None

    def read(self, route: Route, frame: Buffer, client_id_bytes: int) -> tuple[str | None, int]:
        """Return (client id, position of the message). Raises DecodeError."""
        end = _CLIENT_ID_POSITION + client_id_bytes
        raw = self._client_id_raw
        if raw and frame[_CLIENT_ID_POSITION:end] == raw and end < len(frame):
            if not route.is_flexible:
                return self._client_id, end
            if frame[end] == 0:
                return self._client_id, end + 1
        header, position = decode_request_header(frame)
        if client_id_bytes > 0 and header.client_id is not None:
            self._client_id = header.client_id
            self._client_id_raw = bytes(frame[_CLIENT_ID_POSITION:end])
        return header.client_id, position
