"""Stores over a ZooKeeper, in memory or real: what the tests of the adapter share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from metadata.store.port import ConnectionLossError, Create, SessionEvent, SetData, StoreError
from metadata.store.zookeeper.client import ClientDependencies
from metadata.store.zookeeper.ensemble import ConnectString
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.session import Credentials
from metadata.store.zookeeper.store import ZooKeeperStore, open_zookeeper_store
from metadata.store.zookeeper.wire import OpCode
from runtime.clock import Clock, SystemClock
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Network
from runtime.tasks import TaskScope
from tests.metadata.store.faulty_server import Fate, FaultyServer
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork

T = TypeVar("T")

TIMEOUT_MS = 4_000
FAR = "far"  # the machine of the simulated server
CONNECTED, SUSPENDED, EXPIRED = SessionEvent.CONNECTED, SessionEvent.SUSPENDED, SessionEvent.EXPIRED


class MemorySessionFile:
    """Outlives a store as a disk would. `is_broken` refuses."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        self.credentials = credentials
        self.is_broken = False

    async def load(self) -> Credentials | None:
        return self.credentials

    async def save(self, credentials: Credentials) -> None:
        if self.is_broken:
            raise OSError("disk full")
        self.credentials = credentials

    async def remove(self) -> None:
        if self.is_broken:
            raise OSError("disk full")
        self.credentials = None


class Client:
    """A store with what it was opened with, and what it told."""

    def __init__(self, store: ZooKeeperStore, file: MemorySessionFile, tasks: TaskScope) -> None:
        self.store = store
        self.file = file
        self.tasks = tasks
        self.events: list[SessionEvent] = []
        self._heard = asyncio.Event()
        store.subscribe(self._hear)

    def _hear(self, event: SessionEvent) -> None:
        self.events.append(event)
        self._heard.set()

    async def hears(self, event: SessionEvent) -> None:
        """Return once `event` is the last that was told."""
        while self.events[-1:] != [event]:
            self._heard.clear()
            await self._heard.wait()

    async def kill(self) -> None:
        """As a killed process: no word to anybody."""
        await self.tasks.close()
        client = self.store.session().client
        await client.stop()


async def open_client(
    connect: str,
    *,
    network: Network | None = None,
    clock: Clock | None = None,
    file: MemorySessionFile | None = None,
    rng: random.Random | None = None,
    **options: object,
) -> Client:
    tasks = TaskScope("store")
    file = file or MemorySessionFile()
    chosen = {"session_timeout_ms": TIMEOUT_MS, "connection_timeout_ms": TIMEOUT_MS, **options}
    doors = ClientDependencies(network or OsNetwork(), clock or SystemClock(), rng or random.Random(1), tasks)
    try:
        store = await open_zookeeper_store(
            ZooKeeperOptions(ConnectString.parse(connect), **chosen),  # type: ignore[arg-type]
            doors,
            file,
        )
    except BaseException:
        await tasks.close()
        raise
    return Client(store, file, tasks)


@asynccontextmanager
async def client_of(connect: str, **options: object) -> AsyncIterator[Client]:
    client = await open_client(connect, **options)  # type: ignore[arg-type]
    try:
        yield client
    finally:
        await client.store.close()
        await client.tasks.close()


class Sim:
    """A server in memory and its clients on simulated wires."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.network = SimNetwork(loop)
        self.clock = SimClock(loop)
        self.server = FaultyServer(self.network.node(FAR), self.clock)
        self.servers: list[str] = []

    async def listen(self, count: int = 1) -> str:
        """The connect string of `count` servers."""
        for number in range(count):
            self.servers.append(await self.server.listen(FAR, 2181 + number))
        return ",".join(self.servers)

    async def open(self, name: str = "near", chroot: str = "", **options: object) -> Client:
        return await open_client(
            ",".join(self.servers) + chroot,
            network=self.network.node(name),
            clock=self.clock,
            rng=self.loop.random,
            **options,  # type: ignore[arg-type]
        )


@asynccontextmanager
async def simulated_client(loop: SimLoop, **options: object) -> AsyncIterator[tuple[FaultyServer, Client]]:
    sim = Sim(loop)
    await sim.listen()
    client = await sim.open(**options)  # type: ignore[arg-type]
    yield sim.server, client
    await client.store.close()
    await client.tasks.close()
    await sim.server.close()


Story = Callable[[FaultyServer, Client], Awaitable[None]]


def tell(story: Story, **options: object) -> None:
    """Run `story` with one client on a fresh server."""

    async def program(loop: SimLoop) -> None:
        async with simulated_client(loop, **options) as (server, client):
            await story(server, client)

    simulate(1, program)


def once(fate: Fate, code: OpCode) -> Callable[[OpCode, str], Fate]:
    """`fate` for the first request of this kind, an answer for every other."""
    fates = {code: fate}
    return lambda asked, _path: fates.pop(asked, Fate.ANSWERED)


async def run_counters(stores: Sequence[ZooKeeperStore], rounds: int) -> None:
    """All but the last raise one counter, `rounds` times each, whatever is cut; the last follows it through watches.
    Nothing is counted twice or lost, and the follower ends at the truth."""
    *counting, following = stores

    async def read(ask: Callable[[], Awaitable[T]]) -> T:
        """A read without an answer means nothing: it is asked again."""
        while True:
            try:
                return await ask()
            except ConnectionLossError:
                continue

    while await read(lambda: following.exists("/counter")) is None:
        try:
            await following.create("/counter", b"0")
        except StoreError:
            continue
    followed = 0
    has_changed = asyncio.Event()

    async def follow() -> None:
        nonlocal followed
        while followed < rounds * len(counting):
            has_changed.clear()
            data, _ = await read(lambda: following.get("/counter", lambda _event: has_changed.set()))
            assert int(data) >= followed, "the counter went back"
            followed = int(data)
            if followed < rounds * len(counting):
                await has_changed.wait()

    async def count(store: ZooKeeperStore, mark: str) -> None:
        """Each step leaves a node of its own in the same transaction: it tells whether the step was made."""
        done = 0
        while done < rounds:
            data, stat = await read(lambda: store.get("/counter"))
            step = f"/{mark}-{done}"
            try:
                await store.multi([SetData("/counter", str(int(data) + 1).encode(), stat.version), Create(step)])
            except StoreError:
                done += await read(lambda step=step: store.exists(step)) is not None  # type: ignore[misc]
            else:
                done += 1

    async with asyncio.timeout(300), asyncio.TaskGroup() as group:
        group.create_task(follow())
        for number, store in enumerate(counting):
            group.create_task(count(store, f"step{number}"))
    assert followed == rounds * len(counting)
