"""The private channel of a program that has started the command as its child: lines of JSON over a socket pair.

    -> {"id": 1, "do": "kill" | "stop" | "restart" | "pause" | "resume", "broker": 0}
    -> {"id": 2, "do": "inject" | ..., "broker": 0 | null, ...}    what brokers do (`broker.owner_socket`); null: all that run
    <- {"id": 1, "ok": true, ...}  or  {"id": 1, "ok": false, "error": "text", "is_invalid": false}
    <- {"event": "ready", ...}, {"event": "ended", "broker": 0, "exit_code": -9}

Rules: requests are carried out side by side, each is answered when it is done. The end of the channel is the end of its owner.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runtime.tasks import TaskScope

_READ_BYTES = 64 * 1024


class ControlError(Exception):
    """A request that cannot be done; the text says why. `is_invalid`: because the request itself is wrong."""

    def __init__(self, text: str, *, is_invalid: bool = False) -> None:
        super().__init__(text)
        self.is_invalid = is_invalid


Handler = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Carries out a request and returns what the answer has beside id and ok. Raises ControlError."""


class ControlChannel:
    """The supervisor's end. `on_end` is called once when the owner's end is closed."""

    def __init__(self, descriptor: int, handle: Handler, on_end: Callable[[], None], tasks: TaskScope) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._handle = handle
        self._on_end = on_end
        self._tasks = tasks
        self._writing = asyncio.Lock()

    def start(self) -> None:
        self._tasks.spawn(self._read(), name="control requests")

    def tell(self, event: str, **facts: Any) -> None:
        """Send an event."""
        self._tasks.spawn(self._write({"event": event, **facts}), name=f"control event {event}")

    async def _read(self) -> None:
        loop, rest = asyncio.get_running_loop(), b""
        while True:
            try:
                got = await loop.sock_recv(self._socket, _READ_BYTES)
            except OSError:  # reset
                got = b""
            if not got:
                self._on_end()
                return
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                self._tasks.spawn(self._answer(line), name="control request")

    async def _answer(self, line: bytes) -> None:
        request_id: Any = None
        answer: dict[str, Any]
        try:
            request = json.loads(line)
            request_id = request["id"]
            answer = {"ok": True, **await self._handle(request)}
        except ControlError as error:
            answer = {"ok": False, "error": str(error), "is_invalid": error.is_invalid}
        except (ValueError, KeyError, TypeError) as error:
            answer = {"ok": False, "error": f"not a request: {error!r}"}
        await self._write({"id": request_id, **answer})

    async def _write(self, message: Mapping[str, Any]) -> None:
        async with self._writing:
            try:
                await asyncio.get_running_loop().sock_sendall(self._socket, json.dumps(message).encode() + b"\n")
            except OSError:
                return  # the owner has ended, which `_read` sees
