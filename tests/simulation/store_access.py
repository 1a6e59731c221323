"""How a simulated machine reaches the store of its cluster: the simulated ensemble, or a store server over the network.

Both are told by the machine what happens to it: the process stands still, runs again or is gone, the store cannot be
reached (`cut`) and can be again (`mend`), or gives up the session (`expire`). A machine's next process ends the session that
the one before has left.
"""

from __future__ import annotations

import asyncio

from config.broker import BrokerSettings
from metadata.store.port import Store
from metadata.store.zookeeper.client import ClientDependencies
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.session_file import LogDirectorySessionFile
from metadata.store.zookeeper.store import ZooKeeperStore, open_zookeeper_store
from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue
from runtime.disk.filesystem import FileSystem
from runtime.network.transport import Network
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from tests.simulation.network import SimNetwork
from tests.simulation.store import SimulatedEnsemble, SimulatedStore
from tests.simulation.store_server.machine import NAME, StoreMachine


class EnsembleAccess:
    """The simulated ensemble. It is told what it would not hear."""

    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self.ensemble = ensemble
        self.store: SimulatedStore | None = None
        """Of the running process."""
        self._left: SimulatedStore | None = None  # by the process before
        self._is_reachable = asyncio.Event()
        self._is_reachable.set()

    async def open(
        self,
        directory: str,
        queue: DiskQueue,
        clock: Clock,
        tasks: TaskScope,
        network: Network,
        filesystem: FileSystem,
        randomness: Randomness,
    ) -> Store:
        await self._is_reachable.wait()
        if self._left is not None and not self._left.session().is_over:
            self.ensemble.expire(self._left.session().session_id)
        self.store = self.ensemble.connect()
        return self.store

    def stands_still(self) -> None:
        if self.store is not None:
            self.store.session().fall_silent()

    def runs_again(self) -> None:
        if self.store is not None:
            self.store.session().speak_again()

    def is_gone(self) -> None:
        if self.store is not None:
            if not self.store.session().is_over:
                self.store.session().fall_silent()
            self._left, self.store = self.store, None

    def cut(self) -> None:
        self._is_reachable.clear()
        if self.store is not None:
            self.store.session().cut()

    def mend(self) -> None:
        self._is_reachable.set()
        if self.store is not None:
            self.store.session().mend()

    def expire(self) -> None:
        if self.store is not None and not self.store.session().is_over:
            self.ensemble.expire(self.store.session().session_id)


class ServerAccess:
    """A store server, through the client that brokers have. Silence and cuts are the network's."""

    def __init__(self, server: StoreMachine, network: SimNetwork, name: str, settings: BrokerSettings) -> None:
        self._server = server
        self._network = network
        self._name = name
        self._options = ZooKeeperOptions.of(settings, None)
        self._store: ZooKeeperStore | None = None

    async def open(
        self,
        directory: str,
        queue: DiskQueue,
        clock: Clock,
        tasks: TaskScope,
        network: Network,
        filesystem: FileSystem,
        randomness: Randomness,
    ) -> Store:
        doors = ClientDependencies(network, clock, randomness, tasks)
        file = LogDirectorySessionFile(directory, filesystem, queue)
        self._store = await open_zookeeper_store(self._options, doors, file)
        return self._store

    def stands_still(self) -> None:
        """Its process sends nothing."""

    def runs_again(self) -> None:
        """It goes on where it was."""

    def is_gone(self) -> None:
        self._store = None

    def cut(self) -> None:
        self._network.cut(self._name, NAME)

    def mend(self) -> None:
        self._network.mend(self._name, NAME)

    def expire(self) -> None:
        if self._store is not None:
            self._server.expire(self._store.session().session_id)
