"""The simulation's coordination ensemble: one tree in memory, many sessions, faults on demand.

Rules: requests of a session arrive in the order of calls, replies and watches reach it in the order in which the ensemble
decided; both take the time that `latency_s` says. `fault` is asked about every write that arrives. What was sent arrives,
even if its sender is dead by then.
A session ends by `expire` (its ephemeral nodes go, its client gets EXPIRED, then a new session and CONNECTED), by
`SimulatedStore.close`, or when the ensemble has not heard of it for `session_timeout_s`: `cut` is a lost connection, which
the client sees (SUSPENDED; writes under way end in ConnectionLossError, carried out or not; everything else waits),
`fall_silent` a client that does not run. Both can be taken back (`mend`, `speak_again`), too late or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from metadata.store.node_tree import NodeTree, Staged, Watches
from metadata.store.port import (
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
from metadata.store.store_use import StoreUse
from runtime.clock import Clock

T = TypeVar("T")

ORDER_S = 1e-6  # between two deliveries of one session, so that timers keep their order


class Fault(Enum):
    """Of a write; the caller sees ConnectionLossError in both cases and cannot tell them apart."""

    REQUEST_LOST = "request lost"
    REPLY_LOST = "applied, but the reply was lost"


FaultOracle = Callable[[int, Transaction], "Fault | None"]


@dataclass(slots=True, eq=False)
class _Ask:
    """A request on its way."""

    path: str
    decide: Callable[[], Any]
    write: Transaction | None
    reply: asyncio.Future[Any]
    is_lost: bool = False

    def give(self, result: Any, error: StoreError | None) -> None:
        if self.reply.done():
            return
        if error is not None:
            self.reply.set_exception(error)
        else:
            self.reply.set_result(result)


class SimulatedEnsemble:
    def __init__(self, clock: Clock, latency_s: Callable[[], float] = lambda: 0.0) -> None:
        self.tree = NodeTree()
        self.fault: FaultOracle = lambda _session_id, _operations: None
        self.observe: Callable[[Staged], None] = lambda staged: None
        """Told of every transaction that was applied, before anybody else."""
        self.session_timeout_s = 6.0
        self.loses_request: Callable[[], bool] = lambda: False
        """Whether a write that a cut meets on its way is lost; else its reply is."""
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
        session.end()
        for path in self.tree.ephemerals_of(session_id):
            self.transact(session_id, [Delete(path)])
        session.deliver(session.on_expired)

    def transact(self, session_id: int, operations: Transaction) -> list[OperationResult]:
        staged = self.tree.stage(operations, session_id=session_id, now_ms=self._clock.wall_ms())
        self.tree.apply(staged)
        self.observe(staged)
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
        self.on_cut: Callable[[], None] = lambda: None
        self.on_mended: Callable[[], None] = lambda: None
        self.is_cut = False
        self._ensemble = ensemble
        self._under_way: dict[_Ask, None] = {}
        self._waiting: list[_Ask] = []  # for a connection
        self._held: list[Callable[[], None]] = []  # what the ensemble has to say, likewise
        self._silences = 0
        self._is_silent = False
        self._last_arrival_s = 0.0
        self._last_delivery_s = 0.0
        self._context = copy_context()  # of the client's process, which hears nothing once it is dead

    # Its end.

    def end(self) -> None:
        self.is_over = True
        self.watches.clear()
        self._held.clear()

    def fall_silent(self) -> None:
        """The ensemble hears nothing of the client any more."""
        self._silences += 1
        self._is_silent = True
        silence, loop = self._silences, asyncio.get_running_loop()

        def expire() -> None:
            if self._is_silent and self._silences == silence and not self.is_over:
                self._ensemble.expire(self.session_id)

        loop.call_later(self._ensemble.session_timeout_s, expire, context=Context())

    def speak_again(self) -> None:
        self._is_silent = False

    def cut(self) -> None:
        """The connection is lost, and there is no other."""
        if self.is_cut:
            return
        self.fall_silent()
        self._tell(self.on_cut)
        self.is_cut = True
        for ask in self._under_way:
            if ask.write is None:
                ask.is_lost = True
                self._waiting.append(_Ask(ask.path, ask.decide, None, ask.reply))
            else:
                ask.is_lost = self._ensemble.loses_request()
                self._tell(lambda ask=ask: ask.give(None, ConnectionLossError(ask.path)))  # type: ignore[misc]
        self._under_way.clear()

    def mend(self) -> None:
        """The client finds the ensemble again, which may have given its session up meanwhile."""
        if not self.is_cut:
            return
        self.is_cut = False
        self.speak_again()
        if not self.is_over:
            self._tell(self.on_mended)
        held, self._held = self._held, []
        for callback in held:
            self.deliver(callback)
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            self._send(ask)

    # The way there and back.

    def deliver(self, callback: Callable[[], None]) -> None:
        """Let the client hear of something, in order; at once, or once it can be reached again."""
        if self.is_cut:
            self._held.append(callback)
        else:
            self._tell(callback)

    def _tell(self, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._last_delivery_s = max(self._last_delivery_s + ORDER_S, loop.time() + self._ensemble.latency_s())
        loop.call_at(self._last_delivery_s, callback, context=self._context)

    def _request(self, path: str, decide: Callable[[], T], write: Transaction | None = None) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        ask = _Ask(path, decide, write, loop.create_future())
        if self.is_cut:
            self._waiting.append(ask)
            loop.call_later(self._ensemble.session_timeout_s, ask.give, None, ConnectionLossError(path))
        else:
            self._send(ask)
        return ask.reply

    def _send(self, ask: _Ask) -> None:
        loop = asyncio.get_running_loop()
        self._under_way[ask] = None
        self._last_arrival_s = max(self._last_arrival_s + ORDER_S, loop.time() + self._ensemble.latency_s())
        loop.call_at(self._last_arrival_s, self._arrive, ask, context=Context())

    def _arrive(self, ask: _Ask) -> None:
        if ask.is_lost:
            return
        if self.is_over:
            self._answer(ask, None, SessionExpiredError(ask.path))
            return
        fault = self._ensemble.fault(self.session_id, ask.write) if ask.write is not None else None
        if fault is Fault.REQUEST_LOST:
            self._answer(ask, None, ConnectionLossError(ask.path))
            return
        result, error = None, None
        try:
            result = ask.decide()
        except StoreError as refusal:
            error = refusal
        if fault is Fault.REPLY_LOST:
            error = ConnectionLossError(ask.path)
        self._answer(ask, result, error)

    def _answer(self, ask: _Ask, result: Any, error: StoreError | None) -> None:
        def give() -> None:
            self._under_way.pop(ask, None)
            ask.give(result, error)

        self.deliver(give)

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
            node = self._ensemble.tree.nodes.find(path)
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
            node = self._ensemble.tree.nodes.find(path)
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
        self.use = StoreUse()
        self._ensemble = ensemble
        self._subscribers: list[Callable[[SessionEvent], None]] = []
        self._session = self._open()
        self._is_closed = False

    def session(self) -> SimulatedSession:
        return self._session

    def subscribe(self, callback: Callable[[SessionEvent], None]) -> None:
        self._subscribers.append(callback)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            session = self._session
            session.on_expired = session.on_cut = session.on_mended = lambda: None
            if not session.is_over and not session.is_cut:
                self._ensemble.expire(session.session_id)

    def _open(self) -> SimulatedSession:
        session = self._ensemble.open_session()
        session.on_expired = self._on_expired
        session.on_cut = lambda: self._tell(SessionEvent.SUSPENDED)
        session.on_mended = lambda: self._tell(SessionEvent.CONNECTED)
        return session

    def _on_expired(self) -> None:
        self._tell(SessionEvent.EXPIRED)
        if not self._is_closed:
            self._session = self._open()
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
