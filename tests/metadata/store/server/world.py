"""A store server for tests: on a file in a folder, over the loopback interface."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from metadata.store.committed_tree import CommittedTree
from metadata.store.server.server import ServedAddress, StoreServer
from metadata.store.server.service import ServiceOptions
from metadata.store.server.sessions import SessionLimits
from metadata.store.store_file import FILE_NAME, StoreFile
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address
from runtime.tasks import TaskScope

LOOPBACK = "127.0.0.1"
UNBOUNDED = SessionLimits(connections_max=0)


@asynccontextmanager
async def store_server(folder: Path, options: ServiceOptions | None = None) -> AsyncIterator[StoreServer]:
    """A server on the file in `folder`, on a free port."""
    queue, network, clock = OsDiskQueue(str(folder), asyncio.get_running_loop()), OsNetwork(), SystemClock()
    chosen = options or replace(ServiceOptions(), limits=UNBOUNDED)
    async with TaskScope("store server") as tasks:
        tree = await CommittedTree.open(lambda: StoreFile(str(folder / FILE_NAME)), queue, clock, tasks)
        endpoint = ServedAddress(Address(LOOPBACK, 0))
        server = await StoreServer.open(tree, [endpoint], network, clock, random.Random(1), tasks, chosen)
        try:
            yield server
        finally:
            await server.close()
            await tree.close()
    await queue.close()


def connect_of(server: StoreServer) -> str:
    return str(server.addresses[0])
