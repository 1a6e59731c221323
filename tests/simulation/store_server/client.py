"""One client of the store: a process on its own machine, with the ZooKeeper client that brokers have.

It writes registers of its own, alone, together and in pipelines; makes and deletes ephemeral and sequential nodes; reads its
own and others'; and watches. It may be killed at any time: the next process ends the session of the one before.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from metadata.store.port import (
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionEvent,
    SessionExpiredError,
    SetData,
    Stat,
    StoreError,
    Watch,
    WatchEvent,
    ensure_path,
)
from metadata.store.zookeeper.client import ClientDependencies
from metadata.store.zookeeper.ensemble import ConnectString
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.store import ZooKeeperStore, open_zookeeper_store
from runtime.tasks import TaskScope
from tests.metadata.store.zookeeper_world import MemorySessionFile
from tests.simulation.clock import SimClock
from tests.simulation.process import Process
from tests.simulation.store_server.checkers.registers import MISSING
from tests.simulation.store_server.checkers.sessions import SessionChecker
from tests.simulation.store_server.checkers.watches import WatchChecker
from tests.simulation.store_server.machine import CONNECT
from tests.simulation.store_server.world import LIVE, QUEUE, StoreWorld

REGISTERS = 4
CONNECTION_TIMEOUT_MS = 120_000
PIPELINE = 8
UNDECIDED = (ConnectionLossError, SessionExpiredError)


class StoreClient:
    def __init__(self, world: StoreWorld, name: str, timeout_ms: int) -> None:
        self.name = name
        self.process: Process | None = None
        self.store: ZooKeeperStore | None = None
        self._world = world
        self._timeout_ms = timeout_ms
        self._file = MemorySessionFile()  # as a disk keeps it
        self._values = itertools.count()
        self._lives = 0
        self._over = asyncio.Event()
        self._reset()

    def _reset(self) -> None:
        """What a process has in memory."""
        report, now = self._world.report, self._world.loop.time
        self._watches = WatchChecker(report, self.name)
        self._sessions = SessionChecker(report, now, self.name, self._timeout_ms / 1000)
        self._has_expired = False

    @property
    def registers(self) -> list[str]:
        return [f"/{self.name}/r{number}" for number in range(REGISTERS)]

    # --- the process ---

    def start(self) -> None:
        """It works until the history is quiet, then closes its session."""
        self._lives += 1
        self._over = asyncio.Event()
        self._reset()
        self.process = Process(self._world.loop, f"{self.name}.{self._lives}")
        task = self.process.spawn(self._live(), "main")
        task.add_done_callback(lambda done: None if done.cancelled() or not done.exception() else self._failed(done))

    def _failed(self, done: asyncio.Task[None]) -> None:
        self._world.report(f"{self.name} failed: {done.exception()!r}")

    def kill(self) -> None:
        if self.process is not None:
            self._world.loop.note(f"kill {self.name}")
            process, self.process, self.store = self.process, None, None
            process.kill()
            self._world.network.crash(self.name, silently=self._world.random.random() < 0.3)
            self._world.loop.outside(process.bury)

    async def over(self) -> None:
        await self._over.wait()

    async def _live(self) -> None:
        world = self._world
        async with TaskScope(self.name) as tasks:
            doors = ClientDependencies(world.network.node(self.name), SimClock(world.loop), world.random, tasks)
            options = ZooKeeperOptions(
                ConnectString.parse(CONNECT),
                session_timeout_ms=self._timeout_ms,
                connection_timeout_ms=CONNECTION_TIMEOUT_MS,
            )
            self.store = await open_zookeeper_store(options, doors, self._file)
            self._sessions.began()
            self.store.subscribe(self._on_session)
            await self._until_answered(lambda store: ensure_path(store, f"/{self.name}"))
            for path in (LIVE, QUEUE):
                await self._until_answered(lambda store, path=path: ensure_path(store, path))  # type: ignore[misc]
            while not world.is_quiet:
                await self._step()
                await asyncio.sleep(world.random.expovariate(20))
            await self._read_all()
            await self.store.close()
        self.store = None
        self._over.set()

    def _on_session(self, event: SessionEvent) -> None:
        world = self._world
        if event is SessionEvent.EXPIRED:
            world.count("sessions expired")
            self._sessions.expired()
            self._watches.forget()
            self._has_expired = True
        elif event is SessionEvent.CONNECTED:
            world.count("new sessions" if self._has_expired else "sessions taken up")
            if self._has_expired:
                self._sessions.began()
            self._has_expired = False

    # --- one step ---

    async def _step(self) -> None:
        kinds = (
            (4, self._write),
            (2, self._write_together),
            (2, self._write_pipeline),
            (2, self._make_ephemeral),
            (1, self._delete_ephemeral),
            (1, self._make_sequential),
            (4, self._read_own),
            (4, self._read_others),
            (2, self._read_ephemeral),
        )
        [(_, kind)] = self._world.random.choices(kinds, [weight for weight, _ in kinds])
        try:
            await kind()
        except UNDECIDED:
            self._world.count("outcomes unknown")
        except (NodeExistsError, NoNodeError):
            self._world.count("refused")

    def _value(self) -> bytes:
        return f"{self.name}.{next(self._values)}".encode()

    async def _asked(self, ask: Callable[[ZooKeeperStore], Awaitable[object]]) -> object:
        """Raises StoreError."""
        assert self.store is not None
        asked_s, store = self._world.loop.time(), self.store
        session = store.session()
        is_answered = True
        try:
            return await ask(store)
        except UNDECIDED:
            is_answered = False
            raise
        finally:
            if is_answered and store.session() is session:
                self._sessions.answered(asked_s)
                self._world.server.on_seen(self.name, session.client.session.last_zxid)

    async def _until_answered(self, ask: Callable[[ZooKeeperStore], Awaitable[object]]) -> object:
        while True:
            try:
                return await self._asked(ask)
            except UNDECIDED:
                await asyncio.sleep(0.1)

    # --- writes ---

    async def _write(self) -> None:
        path, value = self._world.random.choice(self.registers), self._value()
        self._world.registers.writing(path, value)
        try:
            stat = await self._asked(lambda store: store.set(path, value))
            assert isinstance(stat, Stat)
            self._watches.replied(path, stat.mzxid)
        except NoNodeError:
            self._world.registers.refused(path, value)
            await self._create(path)
            return
        self._acknowledged(path, value)

    async def _create(self, path: str) -> None:
        value = self._value()
        self._world.registers.writing(path, value)
        try:
            await self._asked(lambda store: store.create(path, value))
        except NodeExistsError:  # a lost answer, and what came of it is read later
            self._world.registers.refused(path, value)
            return
        self._acknowledged(path, value)

    def _acknowledged(self, path: str, value: bytes) -> None:
        self._world.count("writes acknowledged")
        self._world.server.on_data(self.name, value)
        self._world.registers.acknowledged(path, value)

    async def _write_together(self) -> None:
        """Two registers in one transaction."""
        paths = self._world.random.sample(self.registers, 2)
        await self._transact([[(path, self._value()) for path in paths]])

    async def _write_pipeline(self) -> None:
        await self._transact([[(self._world.random.choice(self.registers), self._value())] for _ in range(PIPELINE)])

    async def _transact(self, transactions: list[list[tuple[str, bytes]]]) -> None:
        registers = self._world.registers
        operations: list[list[Operation]] = [[SetData(*each) for each in rows] for rows in transactions]
        for rows in transactions:
            for path, value in rows:
                registers.writing(path, value)
        outcomes = await self._asked(lambda store: store.write_many(operations))
        assert isinstance(outcomes, list)
        for rows, outcome in zip(transactions, outcomes, strict=True):
            for path, value in rows:
                if isinstance(outcome, StoreError):
                    registers.refused(path, value)
                else:
                    self._acknowledged(path, value)

    async def _make_ephemeral(self) -> None:
        path, value = f"{LIVE}/{self.name}-{self._world.random.randrange(3)}", self._value()
        assert self.store is not None
        session = self.store.session()
        await self._asked(lambda store: session.create(path, value, ephemeral=True))
        if self.store.session() is session:
            self._sessions.ephemeral_made(path)
            self._world.server.on_data(self.name, value)
            self._world.count("ephemeral nodes made")

    async def _delete_ephemeral(self) -> None:
        path = f"{LIVE}/{self.name}-{self._world.random.randrange(3)}"
        self._sessions.ephemeral_going(path)
        await self._asked(lambda store: store.multi([Delete(path)]))

    async def _read_ephemeral(self) -> None:
        path = f"{LIVE}/{self.name}-{self._world.random.randrange(3)}"
        assert self.store is not None
        session = self.store.session()
        stat = await self._asked(lambda store: session.exists(path))
        if self.store.session() is session and not self._has_expired:
            self._sessions.ephemeral_read(path, is_there=stat is not None)

    async def _make_sequential(self) -> None:
        value = self._value()
        path = await self._asked(lambda store: store.multi([Create(f"{QUEUE}/n_", value, sequential=True)]))
        assert isinstance(path, list)
        self._world.queued(self.name, path[0])

    # --- reads ---

    async def _read_own(self) -> None:
        path = self._world.random.choice(self.registers)
        await self._read(path, watch=self._watch(path))

    async def _read_others(self) -> None:
        others = [path for path in self._world.registers.paths() if not path.startswith(f"/{self.name}/")]
        if others:
            path = self._world.random.choice(others)
            await self._read(path, watch=self._watch(path))

    def _watch(self, path: str) -> Watch:
        checker = self._watches

        def fired(event: WatchEvent) -> None:
            self._world.count("watch events")
            checker.fired(path)

        return fired

    async def _read(self, path: str, watch: Watch | None = None) -> None:
        assert self.store is not None
        session = self.store.session()

        async def read() -> tuple[bytes, int | None]:
            try:
                data, stat = await session.get(path, watch)
            except NoNodeError:
                return MISSING, None
            return data, stat.mzxid

        found = await self._asked(lambda store: read())
        assert isinstance(found, tuple)
        data, mzxid = found
        if self.store.session() is not session or self._has_expired:
            return
        self._world.count("reads")
        self._world.server.on_data(self.name, data)
        self._watches.replied(path, mzxid)
        if watch is not None and mzxid is not None:
            self._watches.was_set(path, mzxid)
        if path in self.registers:
            self._world.registers.read(path, data, self.name)

    async def _read_all(self) -> None:
        for path in self.registers:
            await self._until_answered(lambda store, path=path: self._read(path))  # type: ignore[misc]
