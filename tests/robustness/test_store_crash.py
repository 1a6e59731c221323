"""kill -9 of the store server under load: what was acknowledged is there, sessions and their ephemeral nodes go on."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

from metadata.store.port import (
    ConnectionLossError,
    Create,
    NoNodeError,
    SessionEvent,
    SetData,
    Stat,
    StoreError,
)
from tests.metadata.store.zookeeper_world import Client, client_of
from tests.oracle.store_server import StoreServerProcess
from tests.simulation.store_server.checkers.registers import MISSING, RegisterChecker
from tests.simulation.store_server.checkers.watches import WatchChecker

KILLS = 4
REGISTERS = 3
PIPELINE = 10
LOAD = 60  # acknowledged writes between two kills
SESSION_TIMEOUT_MS = 60_000


class Load:
    """One client that writes until it is told to stop."""

    def __init__(self, name: str, client: Client, registers: RegisterChecker, reports: list[str]) -> None:
        self.acknowledged_count = 0
        self.is_over = False
        self.sequential: list[str] = []
        self._client = client
        self._registers = registers
        self._watches = WatchChecker(reports.append, name)
        self._paths = [f"/{name}-{number}" for number in range(REGISTERS)]
        self._values = (f"{name}.{number}".encode() for number in itertools.count())

    async def run(self) -> None:
        for step in itertools.cycle((self._write_pipeline, self._write_together, self._make_sequential, self._read)):
            if self.is_over:
                return
            try:
                await step()
            except ConnectionLossError:
                continue

    async def begin(self) -> None:
        for path in self._paths:
            value = next(self._values)
            self._registers.writing(path, value)
            await self._client.store.create(path, value)
            self._registers.acknowledged(path, value)

    async def _write_pipeline(self) -> None:
        await self._transact([[(self._paths[0], next(self._values))] for _ in range(PIPELINE)])

    async def _write_together(self) -> None:
        await self._transact([[(path, next(self._values)) for path in self._paths]])

    async def _transact(self, transactions: list[list[tuple[str, bytes]]]) -> None:
        rows = [row for transaction in transactions for row in transaction]
        for path, value in rows:
            self._registers.writing(path, value)
        outcomes = await self._client.store.write_many([[SetData(*row) for row in each] for each in transactions])
        assert not [outcome for outcome in outcomes if isinstance(outcome, StoreError)], outcomes
        for path, value in rows:
            self._registers.acknowledged(path, value)
        [last] = [stat for stat in (outcomes[-1] if isinstance(outcomes[-1], list) else []) if stat][-1:]
        assert isinstance(last, Stat)
        self._watches.replied(rows[-1][0], last.mzxid)
        self.acknowledged_count += len(transactions)

    async def _make_sequential(self) -> None:
        [path] = await self._client.store.multi([Create("/n_", sequential=True)])
        assert isinstance(path, str)
        self.sequential.append(path)
        self.acknowledged_count += 1

    async def _read(self) -> None:
        for path in self._paths:
            data, stat = await self._client.store.get(path, lambda _event, path=path: self._watches.fired(path))  # type: ignore[misc]
            self._watches.replied(path, stat.mzxid)
            self._watches.was_set(path, stat.mzxid)
            self._registers.read(path, data, "its writer")


async def test_what_was_acknowledged_outlives_kills_of_the_store(tmp_path: Path) -> None:
    reports: list[str] = []
    registers = RegisterChecker(reports.append)
    server = StoreServerProcess(tmp_path)
    try:
        await asyncio.to_thread(server.start)
        async with (
            client_of(server.connect, session_timeout_ms=SESSION_TIMEOUT_MS) as one,
            client_of(server.connect, session_timeout_ms=SESSION_TIMEOUT_MS) as two,
            client_of(server.connect, session_timeout_ms=SESSION_TIMEOUT_MS) as three,
        ):
            loads = [Load(f"c{number}", each, registers, reports) for number, each in enumerate((one, two, three))]
            await asyncio.gather(*(load.begin() for load in loads))
            await two.store.create("/mine", ephemeral=True)
            sessions = [client.store.session() for client in (one, two, three)]
            running = [asyncio.create_task(load.run()) for load in loads]
            for _ in range(KILLS):
                await under_load(loads, running)
                server.kill()
                await asyncio.to_thread(server.start)
            await under_load(loads, running)
            for load in loads:
                load.is_over = True
            await asyncio.gather(*running)
            assert [client.store.session() for client in (one, two, three)] == sessions
            assert SessionEvent.EXPIRED not in one.events + two.events + three.events
            server.kill()
            await asyncio.to_thread(server.start)
            async with client_of(server.connect) as reader:
                for path in registers.paths():
                    registers.read(path, await read(reader, path), "a reader")
                stat = await reader.store.exists("/mine")
                assert stat is not None
                assert stat.ephemeral_owner == sessions[1].session_id
                names = [name for load in loads for name in load.sequential]
                assert len(set(names)) == len(names)
                assert {os.path.basename(name) for name in names} <= set(await reader.store.children("/"))
    finally:
        server.kill()
    assert reports == []


async def under_load(loads: list[Load], running: list[asyncio.Task[None]]) -> None:
    """Every client has been acknowledged something more."""
    before = [load.acknowledged_count for load in loads]
    while any(load.acknowledged_count < count + LOAD for load, count in zip(loads, before, strict=True)):
        for task in running:
            if task.done():
                task.result()
        await asyncio.sleep(0.001)


async def read(client: Client, path: str) -> bytes:
    try:
        return (await client.store.get(path))[0]
    except NoNodeError:
        return MISSING
