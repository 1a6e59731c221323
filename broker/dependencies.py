"""What a broker needs of the outside of its process: clock, randomness, files, network, the store. No state.

Rules: the maker of a broker makes these: `broker.process` those of the operating system, a simulation its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from metadata.store.port import Store
from runtime.clock import Clock
from runtime.disk.disk_queue import Disk, DiskQueue
from runtime.disk.filesystem import FileSystem
from runtime.documents import Documents, NoDocuments
from runtime.network.transport import Network
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from runtime.tls.stream import TlsWork

OpenStore = Callable[[str, DiskQueue, Clock, TaskScope], Awaitable[Store]]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Access to the outside of the process. `open_store` opens the store of a broker whose first log directory is at a path:
    the embedded store, or a ZooKeeper session (a simulation passes its own). `host_name` is this machine's name on the
    network; `tls_work` does what takes TLS long; `documents` reads keys and tokens; `boot_id` returns the id of the machine's
    boot, None if it is unknown."""

    clock: Clock
    randomness: Randomness
    filesystem: FileSystem
    disk: Disk
    network: Network
    open_store: OpenStore
    host_name: str = "localhost"
    boot_id: Callable[[], str | None] = lambda: None
    tls_work: TlsWork = field(default_factory=TlsWork)
    documents: Documents = field(default_factory=NoDocuments)
