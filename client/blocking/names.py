"""The addresses of a host.

Rules: the system's resolver cannot be interrupted, so it runs on a thread of its own, which ends when it does.
"""

from __future__ import annotations

import queue
import socket
import threading
from typing import Any, NamedTuple


class SocketAddress(NamedTuple):
    """Where a socket connects to."""

    family: socket.AddressFamily
    address: Any


def resolved(host: str, port: int, timeout_s: float) -> list[SocketAddress]:
    """Return all addresses of a host, in the order of the system. Raises OSError."""
    try:
        return _looked_up(host, port, socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        pass  # it is a name
    found: queue.SimpleQueue[list[SocketAddress] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(_looked_up(host, port, 0))
        except (OSError, UnicodeError) as error:
            found.put(error)

    threading.Thread(target=look_up, daemon=True).start()
    try:
        answer = found.get(timeout=max(timeout_s, 0))
    except queue.Empty:
        raise TimeoutError(f"the name {host} is not resolved within {round(timeout_s, 2):g} s") from None
    if isinstance(answer, Exception):
        reason = getattr(answer, "strerror", None) or answer
        raise ConnectionError(f"the name {host} does not resolve ({reason})") from answer
    return answer


def _looked_up(host: str, port: int, flags: int) -> list[SocketAddress]:
    return [
        SocketAddress(each[0], each[4]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    ]
