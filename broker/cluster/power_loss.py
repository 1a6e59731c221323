"""After a loss of power: a broker whose logs may have lost their ends does not come back as a member of in-sync sets.

What was appended and not yet forced to the disk survives the end of a process, in the page cache, but not the machine's. A
broker that restarts so fast that no controller has missed it would be elected as it is, and take from everybody else
what they have and it has lost. So it stays away until it is out of the ISR of every partition that has other members:
its old session is over, and whoever controls takes a broker that is gone out of them. Then it comes back as a follower.

    last stop clean, or the same boot as the one noted   ->  register at once
    else                                                 ->  wait until it is out, `patience_ms` at most; register

Rules: the machine's boot id stands in a file of the first log directory. It is written when the wait is over, so that a
process which dies in it waits again, and before anything is appended. A boot that cannot be told counts as another one.
An ISR of this broker alone is no reason to wait: nobody else has the records. Nor is a topic that is being deleted, whose
states controllers leave alone.
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
from runtime.reasons import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metadata.store.port import Store
    from runtime.clock import Clock
    from runtime.disk import DiskQueue
    from runtime.filesystem import FileSystem

logger = logging.getLogger(__name__)

FILE_NAME = "barnabas-boot-id"
LOOK_AGAIN_S = 0.1
# So many states are read at a time, once it is known which ones matter.
LOOK_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class BootFile:
    """Under which boot of the machine the logs of `directory` were last written. Its lock is the caller's."""

    directory: str
    filesystem: FileSystem
    queue: DiskQueue

    @property
    def _path(self) -> str:
        return posixpath.join(self.directory, FILE_NAME)

    async def noted(self) -> str | None:
        """None when there is no file, or nothing in it. Raises OSError."""

        def read() -> bytes:
            return self.filesystem.read_bytes(self._path) if self.filesystem.exists(self._path) else b""

        return (await self.queue.run(read)).decode("ascii", "replace").strip() or None

    async def note(self, boot_id: str) -> None:
        """On the disk when this returns. Raises OSError."""
        await self.queue.run(lambda: self.filesystem.replace(self._path, f"{boot_id}\n".encode()))


async def stay_away_after_power_loss(
    file: BootFile,
    boot_id: str | None,
    store: Store,
    broker_id: int,
    *,
    was_clean: bool,
    clock: Clock,
    patience_ms: int,
) -> bool:
    """Return when this broker may register. False: it does so as a member of an ISR that may know more than it does."""
    noted = await _noted(file)
    may_have_lost = not was_clean and (boot_id is None or boot_id != noted)
    is_out = not may_have_lost or await _is_out_within(store, broker_id, clock, patience_ms)
    if boot_id is not None and boot_id != noted:
        try:
            await file.note(boot_id)
        except OSError as error:
            logger.warning(
                "boot id not stored, the next start assumes a loss of power: directory=%s error=%s",
                file.directory,
                reason_of(error),
            )
    return is_out


async def _noted(file: BootFile) -> str | None:
    try:
        return await file.noted()
    except OSError as error:
        logger.warning("boot id of the last start not read: directory=%s error=%s", file.directory, reason_of(error))
        return None


async def _is_out_within(store: Store, broker_id: int, clock: Clock, patience_ms: int) -> bool:
    began_ms = clock.monotonic_ms()
    remaining: list[TopicPartition] | None = None
    has_told = False
    while clock.monotonic_ms() - began_ms < patience_ms:
        try:
            await store.sync(znodes.TOPICS)  # a server that lags behind may not know yet that this broker is in
            if remaining is None:
                replicas = await _replicas(store, broker_id)
                remaining = await _still_in_sync(store, broker_id, replicas)
            else:
                remaining = await _some_still_in_sync(store, broker_id, remaining)
        except StoreError as error:
            logger.info("ISRs not read, retrying: error=%s", type(error).__name__)
            await asyncio.sleep(LOOK_AGAIN_S)
            continue
        if not remaining:
            if has_told:
                logger.info("out of all ISRs, registering: duration_ms=%d", clock.monotonic_ms() - began_ms)
            return True
        if not has_told:
            has_told = True
            logger.warning(
                "the ends of some logs may have been lost with the power, not registering while in their "
                "ISR: partitions=%d example=%s-%d timeout_ms=%d",
                len(remaining), *remaining[0], patience_ms,
            )  # fmt: skip
        await asyncio.sleep(LOOK_AGAIN_S)
    logger.warning(
        "registering although still in the ISR of partitions, records may be missing: partitions=%d",
        len(remaining or ()),
    )
    return False


async def _replicas(store: Store, broker_id: int) -> list[TopicPartition]:
    """The partitions of which this broker has a replica and others too."""
    going = set(await store.children(znodes.DELETE_TOPICS))
    names = [name for name in await store.children(znodes.TOPICS) if name not in going]
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
    """`keys` without those at the front that are out: one that is in is reason enough to wait. Thousands are not read again
    and again from an ensemble that has an election to carry."""
    for at in range(0, len(keys), LOOK_AT_ONCE):
        behind = at + LOOK_AT_ONCE
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
