"""The supervisor's end of the private socket over which a broker hears which faults to inject, and what else its owner wants.

Rules: the lines of JSON are those of `broker.owner_socket`, one request at a time; the broker answers when it has done it. A
broker that nobody controls has no such socket.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from barnabas.supervisor.control import ControlError

_READ_BYTES = 4096


class BrokerRequests:
    """To one process. The socket is closed by who has it from the fork."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._asking = asyncio.Lock()

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the broker's answer, when it has done it. Raises ControlError."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            try:
                await loop.sock_sendall(self._socket, json.dumps(request).encode() + b"\n")
                answer = b""
                while not answer.endswith(b"\n"):
                    got = await loop.sock_recv(self._socket, _READ_BYTES)
                    if not got:
                        raise ControlError("the broker has ended")
                    answer += got
            except OSError as error:
                raise ControlError(f"the broker does not answer: {error.strerror}") from error
        told: dict[str, Any] = json.loads(answer)
        if not told["ok"]:
            raise ControlError(told["error"], is_invalid=told["is_invalid"])
        return told
