"""A connection without sockets: what a client sends, cut as the test likes, and what comes back."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from broker.network.connections.acceptor import AcceptLimits, Acceptor
from broker.network.connections.connection import RequestConnection
from broker.network.connections.connection_shared import ConnectionLimits, ConnectionShared, ReceiveBuffer
from broker.network.dispatch import Dispatch, RequestObserver
from broker.network.gate import Gate
from broker.network.memory_budget import MemoryBudget
from broker.network.quotas.connection_rates import ConnectionRates
from broker.network.responses.response_memory import ResponseMemory
from broker.network.routes import DispatchTable, Handler
from broker.network.sasl.authentication import ListenersAuthentication
from broker.observability.audit import AuditLog
from broker.services import Services
from metadata.features import NO_LEVELS, CurrentLevels, FeatureLevels
from protocol.header import decode_response, encode_request
from protocol.schema import Request, Response
from runtime.disk.filesystem import Buffer
from runtime.network.transport import Address
from runtime.slices import SerialQueue
from runtime.tasks import TaskScope
from runtime.timer import Timer
from tests.doubles.clock import ManualClock, Turns


class FakeStream:
    """The `Connection` of one client."""

    takes_ranges = False

    def __init__(self, peer_host: str = "10.1.1.1", peer_port: int = 5555) -> None:
        self.peer = Address(peer_host, peer_port)
        self.local = Address("10.0.0.1", 9092)
        self.writes: list[bytes] = []
        self.is_reading = True
        self.is_closed = False
        self.is_aborted = False
        self.unsent = 0

    def write(self, chunks: Sequence[Buffer]) -> None:
        if not self.is_closed:
            self.writes.append(b"".join(bytes(chunk) for chunk in chunks))

    def unsent_bytes(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class Broker:
    """The parts of a broker that connections need."""

    def __init__(
        self,
        handlers: Iterable[Handler[Any]],
        *,
        budget_bytes: int = 1 << 20,
        response_bytes: int = 32 << 20,
        limits: ConnectionLimits | None = None,
        accept: AcceptLimits | None = None,
        receive_bytes: int = 64 * 1024,
        observer: RequestObserver | None = None,
        gate: Gate | None = None,
        is_open: bool = True,
        early_keys: frozenset[int] = frozenset(),
        brokers_listener: str | None = None,
        rates: ConnectionRates | None = None,
        authentication: Callable[[Broker], ListenersAuthentication] | None = None,
        levels: FeatureLevels = NO_LEVELS,
    ) -> None:
        self.clock = ManualClock(1_000)
        self.turns = Turns(self.clock)
        self.timer = Timer(self.clock, self.turns.call_later)
        self.acceptor = Acceptor(
            self.timer, accept, early_keys=early_keys, brokers_listener=brokers_listener, rates=rates
        )
        self.budget = MemoryBudget(budget_bytes)
        self.plain_budget = MemoryBudget(budget_bytes)
        self.response_memory = ResponseMemory(MemoryBudget(response_bytes), self.timer)
        self.tasks = TaskScope("requests")
        self.audit, self.levels = AuditLog(), CurrentLevels(levels, epoch=0)
        table = self.table = DispatchTable(handlers, self.levels)
        self.shared = ConnectionShared(
            dispatch=Dispatch(table, self.tasks, observer, gate),
            services=cast(
                Services,
                SimpleNamespace(
                    table=table,
                    audit=self.audit,
                    features=self.levels,
                    serial_queue=SerialQueue(self.clock, self.turns.call_soon),
                ),
            ),
            budget=self.budget,
            plain_budget=self.plain_budget,
            response_memory=self.response_memory,
            timer=self.timer,
            call_soon=self.turns.call_soon,
            limits=limits or ConnectionLimits(),
            receive_buffer=ReceiveBuffer(receive_bytes),
            authentication=None if authentication is None else authentication(self),
        )
        self.acceptor.serve(self.shared)
        if is_open:
            self.acceptor.open()

    def connect(self, host: str = "10.1.1.1", listener: str = "PLAINTEXT") -> Peer:
        return Peer(self, host, listener)


class Peer:
    """A client of the `Broker`."""

    def __init__(self, broker: Broker, host: str, listener: str) -> None:
        self._broker = broker
        self.stream = FakeStream(host)
        self.handler: RequestConnection = broker.acceptor.factory(listener, "PLAINTEXT")()
        self._unsent = bytearray()
        self._expected: deque[tuple[int, type[Response], int]] = deque()
        self._correlation_id = 100
        self.handler.connected(self.stream)

    def send(self, request: Request, version: int, client_id: str | None = "tester") -> None:
        self.expect(request, version)
        self.send_bytes(self.frame(request, version, client_id))

    def frame(self, request: Request, version: int, client_id: str | None = "tester") -> bytes:
        self._correlation_id += 1
        return b"".join(encode_request(request, version, self._correlation_id, client_id))

    def expect(self, request: Request, version: int) -> None:
        self._expected.append((self._correlation_id + 1, request.response_type, version))

    def send_bytes(self, data: bytes, piece_bytes: int = 1 << 30) -> None:
        """Offer bytes to the connection, which takes them while it reads."""
        self._unsent += data
        while self._unsent and self.stream.is_reading and not self.stream.is_closed:
            place = self.handler.receive_buffer(-1)
            count = min(len(place), len(self._unsent), piece_bytes)
            assert count > 0
            place[:count] = self._unsent[:count]
            del self._unsent[:count]
            self.handler.received(count)
        self._broker.turns.run()

    @property
    def unsent_bytes(self) -> int:
        """What the connection has not taken yet."""
        return len(self._unsent)

    def go_on(self) -> None:
        self._broker.turns.run()
        self.send_bytes(b"")

    def disconnect(self) -> None:
        self.handler.disconnected(None)
        self._broker.turns.run()

    def answers(self) -> list[Response]:
        """All responses so far, checked against the order of requests, and taken away."""
        data = b"".join(self.stream.writes)
        self.stream.writes.clear()
        answers: list[Response] = []
        position = 0
        while position < len(data):
            (size,) = struct.unpack_from(">i", data, position)
            frame = data[position + 4 : position + 4 + size]
            assert len(frame) == size, "a response is cut off"
            position += 4 + size
            correlation_id, response_type, version = self._expected.popleft()
            received_id, response = decode_response(frame, response_type, version)
            assert received_id == correlation_id, "responses are out of order"
            answers.append(response)
        return answers

    def skip_expected(self) -> None:
        """The oldest request gets no answer."""
        self._expected.popleft()


async def settle() -> None:
    """Let tasks of the real loop run as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)
