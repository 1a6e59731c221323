"""The machine of the store server: starts the real server, stops it, and takes its process away.

The server is composed as `barnabas.store.process` does it; network, clock, disk and randomness are the simulation's. Each
start is a process of its own; the disk outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.store.committed_tree import CommittedTree
from metadata.store.node_tree import Staged
from metadata.store.server.server import ServedAddress, StoreServer
from metadata.store.server.service import ServiceOptions
from metadata.store.server.sessions import SessionLimits
from runtime.network.transport import Address
from runtime.tasks import TaskScope
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop
from tests.simulation.network import SimNetwork
from tests.simulation.process import Process
from tests.simulation.store_server.file import SimStoreFile, StoreDisk

NAME = "store"
PORT = 2181
TICK_MS = 200
TIMEOUT_MAX_MS = 60_000
CONNECT = f"{NAME}:{PORT}"


class StoreMachine:
    """`on_started` is told of the tree that was loaded, `on_applied` of each transaction, `on_failed` when the server cannot go
    on: all at the moment itself."""

    def __init__(self, loop: SimLoop, network: SimNetwork) -> None:
        self.loop = loop
        self.disk = StoreDisk()
        self.clock = SimClock(loop)
        self.tune: Callable[[SimDisk], None] = lambda disk: None
        self.on_started: Callable[[CommittedTree], None] = lambda tree: None
        self.on_applied: Callable[[Staged], None] = lambda staged: None
        self.on_failed: Callable[[OSError], None] = lambda error: None
        self.tree: CommittedTree | None = None
        """Of the running process."""
        self._server: StoreServer | None = None
        self.queue: SimDisk | None = None
        self.starts_count = 0
        self._network = network
        self._process: Process | None = None
        self._stop = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        """Return when the server listens, or has been crashed."""
        assert self._process is None, "one server at a time"
        self.starts_count += 1
        self.loop.note(f"start {NAME}")
        process = self._process = Process(self.loop, f"{NAME}.{self.starts_count}")
        serving, self._stop, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        with process.entered():
            self.queue = SimDisk(self.loop)
            self.tune(self.queue)
        process.spawn(self._live(self.queue, serving), "main")
        waiting = [asyncio.ensure_future(each.wait()) for each in (serving, self._over)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    async def _live(self, queue: SimDisk, serving: asyncio.Event) -> None:
        async with TaskScope(NAME) as tasks:
            tree = await CommittedTree.open(
                lambda: SimStoreFile(self.disk), queue.queue("/store"), self.clock, tasks, self.on_failed
            )
            self.tree = tree
            self.on_started(tree)
            tree.subscribe(self.on_applied)
            limits = SessionLimits(tick_ms=TICK_MS, timeout_max_ms=TIMEOUT_MAX_MS, connections_max=0)
            server = self._server = await StoreServer.open(
                tree,
                [ServedAddress(Address(NAME, PORT))],
                self._network.node(NAME),
                self.clock,
                self.loop.random,
                tasks,
                ServiceOptions(limits=limits),
            )
            serving.set()
            await self._stop.wait()
            await server.close()
            await tree.close()
        self.loop.call_soon(self._exit)

    def _exit(self) -> None:
        assert self._process is not None
        left = self._process.unfinished()
        assert not left, f"tasks left after the stop: {left}"
        self._end(silently=False)

    async def stop(self) -> None:
        """In order: what was asked for is answered, sessions stay."""
        self.loop.note(f"stop {NAME}")
        over = self._over
        self._stop.set()
        await over.wait()

    def crash(self, *, power: bool = False) -> None:
        """Now. With a loss of power nobody on the network hears of it."""
        if self._process is not None:
            self._end(silently=power)

    def pause(self) -> None:
        """The process stands still (SIGSTOP)."""
        if self._process is not None:
            self.loop.note(f"pause {NAME}")
            self._process.pause()

    def resume(self) -> None:
        if self._process is not None and self._process.is_paused:
            self.loop.note(f"resume {NAME}")
            self._process.resume()
            self._network.resumed(NAME)

    def expire(self, session_id: int) -> None:
        """The server gives up a session, as if nothing had been heard of its client for too long."""
        if self._server is not None and self.tree is not None and session_id in self.tree.sessions:
            self._server.service.sessions._expire(self.tree.sessions[session_id])

    def _end(self, *, silently: bool) -> None:
        process = self._process
        assert process is not None and self.queue is not None
        self.loop.note(f"end {NAME}")
        process.kill()
        self.queue.crash()
        self._network.crash(NAME, silently=silently)
        self._process = self.tree = self._server = None
        self.loop.outside(process.bury)
        self.loop.outside(self._over.set)
