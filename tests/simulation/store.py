"""The simulation's coordination ensemble: one tree in memory, many sessions, faults on demand.

Rules: requests of a session arrive in the order of calls, replies and watches reach it in the order in which the ensemble
decided; both take the time that `latency_s` says. `fault` is asked about every write that arrives.
A session ends by `expire` (its ephemeral nodes go, its client gets EXPIRED, then a new session and CONNECTED) or by
`SimulatedStore.close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from enum import Enum
from typing import Any, TypeVar, cast

from controller.store import (
    ANY_VERSION,
    ConnectionLossError,
    Create,
    Delete,
    OperationResult,
    SessionEvent,
    SessionExpiredError,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
)
from controller.tree import NodeTree, Watches
from runtime.clock import Clock

T = TypeVar("T")

ORDER_S = 1e-6  # between two deliveries of one session, so that timers keep their order


class Fault(Enum):
    """Of a write; the caller sees ConnectionLossError in both cases and cannot tell them apart."""

    REQUEST_LOST = "request lost"
    REPLY_LOST = "applied, but the reply was lost"


FaultOracle = Callable[[int, Transaction], "Fault | None"]


class SimulatedEnsemble:
    def __init__(self, clock: Clock, latency_s: Callable[[], float] = lambda: 0.0) -> None:
        self.tree = NodeTree()
        self.fault: FaultOracle = lambda _session_id, _operations: None
        self._clock = clock
        self.latency_s = latency_s
        self._sessions: dict[int, SimulatedSession] = {}
        self._next_session_id = 1

    def connect(self) -> SimulatedStore:
        return SimulatedStore(self)

    def open_session(self) -> SimulatedSession:
        session = SimulatedSession(self, self._next_session_id)
        self._next_session_id += 1
        self._sessions[session.session_id] = session
        return session

    def expire(self, session_id: int) -> None:
        """The session is over, now."""
        session = self._sessions.pop(session_id)
        session.is_over = True
        session.watches.clear()
        for path in self.tree.ephemerals_of(session_id):
            self.transact(session_id, [Delete(path)])
        session.deliver(session.on_expired)

    def transact(self, session_id: int, operations: Transaction) -> list[OperationResult]:
        staged = self.tree.stage(operations, session_id=session_id, now_ms=self._clock.wall_ms())
        self.tree.apply(staged)
        for event in staged.events:
            for session in list(self._sessions.values()):
                for watch in session.watches.take(event):
                    session.deliver(lambda watch=watch, event=event: watch(event))  # type: ignore[misc]
        return staged.results


class SimulatedSession:
    def __init__(self, ensemble: SimulatedEnsemble, session_id: int) -> None:
        self.session_id = session_id
        self.is_over = False
        self.watches = Watches()
        self.on_expired: Callable[[], None] = lambda: None
        self._ensemble = ensemble
        self._last_arrival_s = 0.0
        self._last_delivery_s = 0.0
        self._context = copy_context()  # of the client's process, which hears nothing once it is dead

    # The way there and back.

    def deliver(self, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._last_delivery_s = max(self._last_delivery_s + ORDER_S, loop.time() + self._ensemble.latency_s())
        loop.call_at(self._last_delivery_s, callback, context=self._context)

    def _request(self, path: str, decide: Callable[[], T], write: Transaction | None = None) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[T] = loop.create_future()

        def answer(result: T | None, error: StoreError | None) -> None:
            def give() -> None:
                if reply.done():
                    return
                if error is not None:
                    reply.set_exception(error)
                else:
                    reply.set_result(cast(T, result))

            self.deliver(give)

        def arrive() -> None:
            if self.is_over:
                answer(None, SessionExpiredError(path))
                return
            fault = self._ensemble.fault(self.session_id, write) if write is not None else None
            if fault is Fault.REQUEST_LOST:
                answer(None, ConnectionLossError(path))
                return
            try:
                result = decide()
            except StoreError as error:
                answer(None, ConnectionLossError(path) if fault is Fault.REPLY_LOST else error)
            else:
                answer(result, ConnectionLossError(path) if fault is Fault.REPLY_LOST else None)

        self._last_arrival_s = max(self._last_arrival_s + ORDER_S, loop.time() + self._ensemble.latency_s())
        loop.call_at(self._last_arrival_s, arrive)
        return reply

    def _write(self, operations: Transaction) -> asyncio.Future[list[OperationResult]]:
        path = operations[0].path if operations else ""
        return self._request(path, lambda: self._ensemble.transact(self.session_id, operations), operations)

    # Reads.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def decide() -> tuple[bytes, Stat]:
            node = self._ensemble.tree.node(path)
            if watch is not None:
                self.watches.data.setdefault(path, []).append(watch)
            return node.data, node.stat

        return await self._request(path, decide)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        def decide() -> Stat | None:
            if watch is not None:
                self.watches.data.setdefault(path, []).append(watch)
            node = self._ensemble.tree.nodes.get(path)
            return None if node is None else node.stat

        return await self._request(path, decide)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def decide() -> list[str]:
            names = self._ensemble.tree.children(path)
            if watch is not None:
                self.watches.children.setdefault(path, []).append(watch)
            return names

        return await self._request(path, decide)

    async def read_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        def decide(path: str) -> tuple[bytes, Stat] | None:
            node = self._ensemble.tree.nodes.get(path)
            if node is None:
                return None
            if watch is not None:
                self.watches.data.setdefault(path, []).append(watch)
            return node.data, node.stat

        replies = [self._request(path, lambda path=path: decide(path)) for path in paths]  # type: ignore[misc]
        outcomes = await asyncio.gather(*replies, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return cast(list[tuple[bytes, Stat] | None], outcomes)

    async def sync(self, path: str) -> None:
        await self._request(path, lambda: None)

    # Writes.

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        [created] = await self._write([Create(path, data, ephemeral, sequential)])
        return cast(str, created)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        [stat] = await self._write([SetData(path, data, version)])
        return cast(Stat, stat)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._write([Delete(path, version)])

    async def multi(self, operations: Transaction) -> list[OperationResult]:
        return await self._write(operations)

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        outcomes: list[Any] = await asyncio.gather(*map(self._write, transactions), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, SessionExpiredError | ConnectionLossError):
                raise outcome
        return outcomes


class SimulatedStore:
    """One client: a session, and after its expiry the next."""

    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._ensemble = ensemble
        self._subscribers: list[Callable[[SessionEvent], None]] = []
        self._session = ensemble.open_session()
        self._session.on_expired = self._on_expired
        self._is_closed = False

    def session(self) -> SimulatedSession:
        return self._session

    def subscribe(self, callback: Callable[[SessionEvent], None]) -> None:
        self._subscribers.append(callback)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._session.on_expired = lambda: None
            if not self._session.is_over:
                self._ensemble.expire(self._session.session_id)

    def _on_expired(self) -> None:
        self._tell(SessionEvent.EXPIRED)
        if not self._is_closed:
            self._session = self._ensemble.open_session()
            self._session.on_expired = self._on_expired
            self._tell(SessionEvent.CONNECTED)

    def _tell(self, event: SessionEvent) -> None:
        for subscriber in self._subscribers:
            subscriber(event)

    # The operations, on the session of now.

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        return await self._session.create(path, data, ephemeral=ephemeral, sequential=sequential)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self._session.get(path, watch)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._session.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._session.delete(path, version)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._session.exists(path, watch)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._session.children(path, watch)

    async def multi(self, operations: Transaction) -> list[OperationResult]:
        return await self._session.multi(operations)

    async def sync(self, path: str) -> None:
        await self._session.sync(path)

    async def read_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        return await self._session.read_many(paths, watch)

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        return await self._session.write_many(transactions)
