"""A transactional id and the application behind it: it writes transactions, and its instances crash, sleep and overlap.

An instance that crashes leaves its transaction open. Its successor begins at once or later, and now and then while the
instance before still goes on (a zombie, which has to be fenced). At the end every id must commit once more; some leave a last
transaction open behind that, for the coordinator to time out.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from tests.simulation.clients.coordinator import TRANSACTION, find_coordinator
from tests.simulation.transactions.clients.session import Fenced, MustAbort, Session, Stopped
from tests.simulation.transactions.scene import Scene

TIMEOUTS_MS = (3_000, 8_000, 20_000)
PATIENCE_S = (3.0, 10.0, 40.0)
ABORTS = 0.15  # the share of transactions that the application aborts
ZOMBIES_MAX = 2
_PADDINGS = (0, 10, 300, 1_000)  # the smallest segment must have room for a batch of four


class Application(ABC):
    """What all applications with a transactional id do. `work` fills one transaction."""

    def __init__(self, scene: Scene, name: str) -> None:
        rng = scene.world.random
        self.name = name
        self.scene = scene
        self.world = scene.world
        self.line = scene.world.line(name)
        self._timeout_ms = rng.choice(TIMEOUTS_MS)
        self._patience_s = rng.choice(PATIENCE_S)
        self._pause_s = scene.world.pace * rng.choice((0.1, 0.4, 1.0))
        self._leaves_one_open = rng.random() < 0.4
        self._zombies: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def started(self, session: Session) -> None:
        """A new instance has its epoch. Raises what sessions raise."""

    @abstractmethod
    async def work(self, session: Session) -> bool:
        """Write within the transaction that has begun; whether it may be committed. Raises what sessions raise."""

    @abstractmethod
    async def gave_up(self, session: Session) -> None:
        """The last transaction was aborted."""

    # --- life ---

    async def run(self) -> None:
        world, rng = self.world, self.world.random
        await find_coordinator(world, self.line, self.name, TRANSACTION)
        session = await self._new_session()
        while not world.is_quiet:
            await asyncio.sleep(min(rng.expovariate(1 / self._pause_s), 10.0))
            what = rng.random()
            try:
                if what < 0.06:
                    await self._leave_open(session)
                    world.count("instances that left a transaction open")
                    await session.crash()
                    await asyncio.sleep(rng.choice((0.0, 0.5, 3.0)))
                    session = await self._new_session()
                elif what < 0.12 and len(self._zombies) < ZOMBIES_MAX:
                    self._haunt(session)
                    session = await self._new_session()
                else:
                    await self._transaction(session, sleeps=what > 0.95)
            except Fenced:
                await session.crash()
                session = await self._new_session()
        if self._zombies:
            await asyncio.wait(self._zombies)
        await self._commit_once_more(session)

    async def _new_session(self) -> Session:
        """An instance that has its epoch."""
        while True:
            session = Session(
                self.scene, self.name, self.name, timeout_ms=self._timeout_ms, patience_s=self._patience_s
            )
            try:
                await session.initialize()
                await self.started(session)
            except (Fenced, MustAbort):
                await session.crash()
                continue
            return session

    def _haunt(self, session: Session) -> None:
        """The instance goes on for a while, although it has a successor."""
        self.world.count("zombies")
        session.is_stopped = lambda: self.world.is_quiet
        task = self.world.loop.create_task(self._be_a_zombie(session), name=f"{session} as a zombie")
        self._zombies.add(task)
        task.add_done_callback(self._zombies.discard)

    async def _be_a_zombie(self, session: Session) -> None:
        rng = self.world.random
        try:
            while not session.is_stopped():
                await self._transaction(session, sleeps=rng.random() < 0.5)
                await asyncio.sleep(rng.uniform(0.0, 0.5))
        except Fenced:
            self.world.count("zombies fenced")
        except Stopped:
            if session.transaction is not None:
                self.scene.ledger.ended(session.transaction)
        finally:
            await session.crash()

    async def _transaction(self, session: Session, *, sleeps: bool = False) -> bool:
        """Write one transaction and end it; whether it was committed. Raises Fenced, Stopped."""
        rng = self.world.random
        transaction = session.begin()
        try:
            may_commit = await self.work(session)
            if sleeps:
                await asyncio.sleep(rng.choice((0.5, 2.0, self._timeout_ms / 1_000 + 1.5)))
            if may_commit and rng.random() >= ABORTS:
                await session.commit()
                return True
            raise MustAbort("as the application wants it")
        except MustAbort as error:
            self.world.loop.note(f"{session} aborts: {error}")
            await session.abort()
            await self.gave_up(session)
            return False
        except (Fenced, Stopped):
            self.scene.ledger.ended(transaction)
            raise

    async def _leave_open(self, session: Session) -> None:
        transaction = session.begin()
        try:
            await self.work(session)
        except MustAbort:
            self.world.loop.note(f"{session} leaves a transaction that it should abort")
        finally:
            self.scene.ledger.ended(transaction)

    async def _commit_once_more(self, session: Session) -> None:
        """With nothing wrong any more it must work."""
        while True:
            try:
                if await self._transaction(session):
                    break
            except Fenced:
                await session.crash()
                session = await self._new_session()
        try:
            if self._leaves_one_open:
                await self._leave_open(session)
                self.world.count("transactions left open at the end")
        except Fenced:
            self.world.loop.note(f"{session} was fenced")
        finally:
            await session.crash()


class Producer(Application):
    """Writes to some partitions, as chance will have it."""

    async def started(self, session: Session) -> None:
        """It has no state to restore."""

    async def gave_up(self, session: Session) -> None:
        """It has no state to restore."""

    async def work(self, session: Session) -> bool:
        rng, keys = self.world.random, self.world.keys
        chosen = rng.sample(keys, rng.randint(1, min(4, len(keys))))
        at_once = rng.randint(0, len(chosen))
        session.add(chosen[:at_once])
        for key in chosen:
            await session.write(key, self._values())
            if rng.random() < 0.2:
                await asyncio.sleep(rng.uniform(0.0, 0.3))
        return True

    def _values(self) -> list[list[str]]:
        rng = self.world.random
        return [
            ["x" * rng.choice(_PADDINGS) for _ in range(rng.randint(1, 4))] for _ in range(rng.choice((1, 1, 2, 4)))
        ]
