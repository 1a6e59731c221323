"""The private socket over which the process that has started this broker asks for faults.

    {"id": 1, "do": "inject", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "delay_ms": 0, "times": 1}
    {"id": 2, "do": "clear_faults"}

Each line is answered by `{"id": 1, "ok": true}` once the fault is in force, or by `{"id": 1, "ok": false, "error": "text"}`,
and then there is none.

Rules: one end of a socket pair, which only the two processes have. It is read until the other end is closed.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from broker.network.faults.fault_table import FaultTable

_READ_BYTES = 64 * 1024


class FaultSocket:
    """`descriptor` is this broker's end, which is closed with the object."""

    def __init__(self, descriptor: int, faults: FaultTable, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._faults = faults
        self._loop = loop
        self._begun = b""
        loop.add_reader(self._socket, self._on_readable)

    def close(self) -> None:
        """Read nothing any more. Closing twice is no error."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _on_readable(self) -> None:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            self.close()
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._socket.send(json.dumps(self._answer(json.loads(line))).encode() + b"\n")

    def _answer(self, asked: dict[str, object]) -> dict[str, object]:
        number, task = asked.pop("id", None), asked.pop("do", None)
        try:
            match task:
                case "inject":
                    self._faults.inject(asked)
                case "clear_faults":
                    self._faults.clear()
                case _:
                    raise ValueError(f"nothing is done by {task!r}")
        except ValueError as error:
            return {"id": number, "ok": False, "error": str(error)}
        return {"id": number, "ok": True}
