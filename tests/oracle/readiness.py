"""Whether a broker serves, asked with bytes written by hand so that no codec under test takes part."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_METADATA_V1_NO_TOPICS = bytes.fromhex("0000000e 0003 0001 00000002 ffff 00000000")


def listed_brokers(host: str, port: int, timeout_s: float = 2.0) -> int:
    """How many brokers Metadata lists; 0 when nobody listens or the answer is an error."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            answer = _ask(connection, _API_VERSIONS_V0)
            if struct.unpack_from(">ih", answer) != (1, 0):
                return 0
            answer = _ask(connection, _METADATA_V1_NO_TOPICS)
            correlation_id, brokers = struct.unpack_from(">ii", answer)
            return brokers if correlation_id == 2 else 0
    except (OSError, struct.error, EOFError):
        return 0


def _ask(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise EOFError("closed")
        data += chunk
    return data
