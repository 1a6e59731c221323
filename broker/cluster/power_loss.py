"""After a loss of power: a broker whose logs may have lost their ends does not register while it is in ISRs.

Records that were appended but not flushed survive the end of a process, in the page cache, but not a loss of power. A broker
that restarts before a controller has noticed its absence could be elected with such a log, and the other replicas would
truncate records that it has lost. So it waits until it is out of the ISR of every partition with other members: its old session
ends, and the controller removes it. Then it registers and follows.

    last stop clean, or the boot id is the stored one    ->  register immediately
    else                                                 ->  wait until out of all ISRs, `timeout_ms` at most; register

Rules: the machine's boot id is stored in a file of the first log directory. It is written after the wait, so that a process
that ends during the wait waits again, and before anything is appended. An unknown boot id counts as another one. An ISR
with this broker alone is no reason to wait: no other replica has the records. Nor is a topic that is being deleted: controllers
do not change its states.
Source: none in Kafka; KIP-966 does so where brokers register with the controller. docs/decisions/009-power-loss-and-the-isr.md.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.node_reading import decoded
from metadata.store.port import StoreError
from metadata.store.znodes import PartitionState, TopicRegistration
from protocol.topic_partition import TopicPartition
from runtime.error_texts import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.disk.disk_queue import DiskQueue
    from runtime.disk.filesystem import FileSystem

logger = logging.getLogger(__name__)

FILE_NAME = "barnabas-boot-id"
POLL_PAUSE_S = 0.1
# States read at a time, after the first reading of all.
STATES_PER_READ = 100


@dataclass(frozen=True, slots=True)
class BootFile:
    """Stores the boot id under which the logs of `directory` were last written. The caller has locked the directory."""

    directory: str
    filesystem: FileSystem
    queue: DiskQueue

    @property
    def _path(self) -> str:
        return posixpath.join(self.directory, FILE_NAME)

    async def read(self) -> str | None:
        """Return the stored boot id, None if there is none. Raises OSError."""

        def content() -> bytes:
            return self.filesystem.read_bytes(self._path) if self.filesystem.exists(self._path) else b""

        return (await self.queue.run(content)).decode("ascii", "replace").strip() or None

    async def write(self, boot_id: str) -> None:
        """Store the boot id, durably. Raises OSError."""
        await self.queue.run(lambda: self.filesystem.replace(self._path, f"{boot_id}\n".encode()))


async def wait_until_out_of_isrs(
    file: BootFile,
    boot_id: str | None,
    store: Store,
    broker_id: int,
    *,
    was_clean: bool,
    clock: Clock,
    timeout_ms: int,
) -> bool:
    """Wait until this broker may register. Returns False if it is still in an ISR whose other members may have more
    records."""
    stored = await _stored(file)
    may_have_lost = not was_clean and (boot_id is None or boot_id != stored)
    is_out = not may_have_lost or await _is_out_within(store, broker_id, clock, timeout_ms)
    if boot_id is not None and boot_id != stored:
        try:
            await file.write(boot_id)
        except OSError as error:
            logger.warning(
                "boot id not stored, the next start assumes a loss of power: directory=%s error=%s",
                file.directory,
                reason_of(error),
            )
    return is_out


async def _stored(file: BootFile) -> str | None:
    try:
        return await file.read()
    except OSError as error:
        logger.warning("boot id of the last start not read: directory=%s error=%s", file.directory, reason_of(error))
        return None


async def _is_out_within(store: Store, broker_id: int, clock: Clock, timeout_ms: int) -> bool:
    started_ms = clock.monotonic_ms()
    remaining: list[TopicPartition] | None = None
    is_logged = False
    while clock.monotonic_ms() - started_ms < timeout_ms:
        try:
            await store.sync(znodes.TOPICS)  # a server that lags may not have this broker in the ISRs yet
            if remaining is None:
                replicas = await _replicas(store, broker_id)
                remaining = await _still_in_sync(store, broker_id, replicas)
            else:
                remaining = await _some_still_in_sync(store, broker_id, remaining)
        except StoreError as error:
            logger.info("ISRs not read, retrying: error=%s", type(error).__name__)
            await asyncio.sleep(POLL_PAUSE_S)
            continue
        if not remaining:
            if is_logged:
                logger.info("out of all ISRs, registering: duration_ms=%d", clock.monotonic_ms() - started_ms)
            return True
        if not is_logged:
            is_logged = True
            logger.warning(
                "the ends of some logs may have been lost with the power, not registering while in their "
                "ISR: partitions=%d example=%s-%d timeout_ms=%d",
                len(remaining), *remaining[0], timeout_ms,
            )  # fmt: skip
        await asyncio.sleep(POLL_PAUSE_S)
    logger.warning(
        "registering although still in the ISR of partitions, records may be missing: partitions=%d",
        len(remaining or ()),
    )
    return False


async def _replicas(store: Store, broker_id: int) -> list[TopicPartition]:
    """Return the partitions that have a replica here and on other brokers."""
    deleting = set(await store.children(znodes.DELETE_TOPICS))
    names = [name for name in await store.children(znodes.TOPICS) if name not in deleting]
    nodes = await store.read_many([znodes.topic_path(name) for name in names])
    found = []
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        registration = decoded(znodes.topic_path(name), partial(TopicRegistration.decode, name, node[0]))
        if registration is not None:
            found += [
                (name, partition)
                for partition, assignment in registration.assignments.items()
                if broker_id in assignment.replicas and len(assignment.replicas) > 1
            ]
    return found


async def _some_still_in_sync(store: Store, broker_id: int, keys: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return `keys` from the first one on that is still in sync: one is enough to wait. So thousands of states are not read
    repeatedly from an ensemble that is busy with elections."""
    for at in range(0, len(keys), STATES_PER_READ):
        behind = at + STATES_PER_READ
        staying = await _still_in_sync(store, broker_id, keys[at:behind])
        if staying:
            return [*staying, *keys[behind:]]
    return []


async def _still_in_sync(store: Store, broker_id: int, keys: Sequence[TopicPartition]) -> list[TopicPartition]:
    nodes = await store.read_many([znodes.state_path(*key) for key in keys])
    staying = []
    for key, node in zip(keys, nodes, strict=True):
        if node is None:
            continue
        state = decoded(znodes.state_path(*key), partial(PartitionState.decode, node[0], node[1].version))
        if state is not None and broker_id in state.isr and len(state.isr) > 1:
            staying.append(key)
    return staying
