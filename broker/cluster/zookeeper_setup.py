"""The dependencies of a broker in a cluster: its store is a ZooKeeper ensemble.

Rules: imported only if `zookeeper.connect` is set, so that a standalone broker has no ZooKeeper client in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.cluster.zookeeper_tls import zookeeper_tls
from broker.dependencies import Dependencies
from broker.network.listening.host_name import own_host_name
from metadata.store.zookeeper.client import ClientDependencies
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.session_file import LogDirectorySessionFile
from metadata.store.zookeeper.store import open_zookeeper_store
from runtime.process.os_boot import boot_id

if TYPE_CHECKING:
    from config.broker import BrokerSettings
    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.disk.disk_queue import Disk, DiskQueue
    from runtime.disk.filesystem import FileSystem
    from runtime.network.transport import Network
    from runtime.randomness import Randomness
    from runtime.tasks import TaskScope


def zookeeper_dependencies(
    settings: BrokerSettings, clock: Clock, randomness: Randomness, filesystem: FileSystem, disk: Disk, network: Network
) -> Dependencies:
    """Make the dependencies. Raises ConfigError."""
    options = ZooKeeperOptions.of(settings, zookeeper_tls(settings, filesystem))

    async def open_store(directory: str, queue: DiskQueue, clock: Clock, tasks: TaskScope) -> Store:
        session_file = LogDirectorySessionFile(directory, filesystem, queue)
        return await open_zookeeper_store(options, ClientDependencies(network, clock, randomness, tasks), session_file)

    host_name = own_host_name(settings)
    return Dependencies(clock, randomness, filesystem, disk, network, open_store, host_name, boot_id)
