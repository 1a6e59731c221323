"""A listener in front of a broker that lets everything through and writes down what was said.

Brokers of a cluster meet each other at the tap when it is what they advertise to each other; so the tap of broker 2 sees
what the controller and the followers ask broker 2. It runs on a thread of its own, so that a test can block.
"""

from __future__ import annotations

import asyncio
import pkgutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import protocol.messages
from protocol.header import RequestHeader, decode_request_header, decode_response
from protocol.schema import Request, Response
from tests.oracle.ports import lasting_port

MAX_FRAME_BYTES = 100 * 1024 * 1024


@dataclass
class Exchange:
    """A request and its answer. `source` is the client id of who asks."""

    at_ms: int
    source: str | None
    target: int
    connection: int
    version: int
    request: Request
    response: Response | None = None
    answered_ms: int | None = None

    @property
    def api_name(self) -> str:
        return self.request.api_name


def request_types() -> dict[int, type[Request]]:
    """Every request class by its key."""
    found = {}
    for module in pkgutil.iter_modules(protocol.messages.__path__):
        for value in vars(import_module(f"protocol.messages.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Request) and value.api_key >= 0:
                found[value.api_key] = value
    return found


@dataclass
class Tap:
    """In front of `target_port`, which is asked for at each connection, on `port`."""

    broker_id: int
    target_port: Callable[[], int]
    port: int = field(default_factory=lasting_port)
    is_cut: bool = False
    """Whether connections are dropped and refused: the broker is cut off from the others."""


class Taps:
    """All taps of a cluster, and what they heard, in order of arrival."""

    def __init__(self) -> None:
        self.heard: list[Exchange] = []
        self.taps: dict[int, Tap] = {}
        self._types = request_types()
        self._started = time.monotonic()
        self._connections = 0
        self._open: dict[int, list[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="taps", daemon=True)
        self._servers: list[asyncio.Server] = []

    def add(self, broker_id: int, target_port: Callable[[], int]) -> Tap:
        """One that listens as soon as they run."""
        tap = self.taps[broker_id] = Tap(broker_id, target_port)
        return tap

    def open(self, broker_id: int, target_port: Callable[[], int]) -> Tap:
        """One more while they run."""
        tap = self.add(broker_id, target_port)
        self._run(self._listen(tap))
        return tap

    def __enter__(self) -> Self:
        self._thread.start()
        for tap in self.taps.values():
            self._run(self._listen(tap))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def now_ms(self) -> int:
        return int((time.monotonic() - self._started) * 1000)

    def cut(self, broker_id: int) -> None:
        """Drop what is connected to the broker and refuse more, until `join`."""
        self.taps[broker_id].is_cut = True
        self._run(self._drop(broker_id))

    def join(self, broker_id: int) -> None:
        self.taps[broker_id].is_cut = False

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self, tap: Tap) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(tap, reader, writer)

        self._servers.append(await asyncio.start_server(serve, "127.0.0.1", tap.port))

    async def _drop(self, broker_id: int) -> None:
        for writer in self._open.get(broker_id, []):
            writer.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for broker_id in self.taps:
            await self._drop(broker_id)
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self, tap: Tap, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if tap.is_cut:
                raise ConnectionRefusedError("cut")
            upstream, downstream = await asyncio.open_connection("127.0.0.1", tap.target_port())
        except OSError:
            writer.close()
            return
        self._connections += 1
        waiting: dict[int, Exchange] = {}
        writers = self._open.setdefault(tap.broker_id, [])
        writers += [writer, downstream]
        number = self._connections
        requests = self._relay(reader, downstream, lambda frame: self._on_request(tap, number, waiting, frame))
        answers = self._relay(upstream, writer, lambda frame: self._on_response(waiting, frame))
        try:
            await asyncio.gather(requests, answers)
        finally:
            for one in (writer, downstream):
                one.close()
                writers.remove(one)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[bytes], None]
    ) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(head, "big"))
                heard(frame)
                writer.write(head + frame)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def _on_request(self, tap: Tap, number: int, waiting: dict[int, Exchange], frame: bytes) -> None:
        header, position = decode_request_header(frame)
        exchange = self._exchange(tap, number, header, frame, position)
        waiting[header.correlation_id] = exchange
        self.heard.append(exchange)

    def _exchange(self, tap: Tap, number: int, header: RequestHeader, frame: bytes, position: int) -> Exchange:
        request = self._types[header.api_key].decode(frame, header.api_version, position)
        return Exchange(self.now_ms(), header.client_id, tap.broker_id, number, header.api_version, request)

    def _on_response(self, waiting: dict[int, Exchange], frame: bytes) -> None:
        exchange = waiting.pop(int.from_bytes(frame[:4], "big"), None)
        if exchange is not None:
            _, exchange.response = decode_response(frame, exchange.request.response_type, exchange.version)
            exchange.answered_ms = self.now_ms()
