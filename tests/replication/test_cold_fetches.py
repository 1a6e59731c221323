"""Cold reads at read_committed, while the log moves to another directory or loses what is read: whoever is given records is
told which of them were aborted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition
from protocol.records.batch import iter_headers
from replication.dependencies import PartitionContext, PartitionDependencies
from replication.fetch_read import FetchReader, PartitionRead, fill, fill_cold, inspect
from replication.fetch_sessions import NO_SESSION, FetchItem, FetchSession
from replication.partition import Partition
from replication.waiting.delayed_queues import WakeUps
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.segment_retention import delete_segments_before
from tests.doubles.file_system import ControlledFileSystem, gives
from tests.replication.replica_world import ME, state
from tests.storage.log.producers.transacting import Transactional
from tests.storage.logs import NOW_MS, World, append, append_records, config, open_log, read, world

ABORTED = [(1, 3)]
FEW, MANY = 20, 600
SMALL = config(segment_bytes=400, index_interval_bytes=100)


@dataclass
class Place:
    """A partition whose log has an aborted transaction behind three batches, as a start finds it: nothing is in memory."""

    world: World
    filesystem: ControlledFileSystem
    partition: Partition

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    def asked(self, max_bytes: int) -> PartitionRead:
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
        item = FetchItem(FetchSession(NO_SESSION), 0, "t", bytes(16), asked)
        return inspect(item, self.partition, FetchReader(read_committed=True))


@asynccontextmanager
async def place(folder: Path, batches: int) -> AsyncIterator[Place]:
    """With so many batches behind the transaction in its segment; of an index with many of them only the end is in memory."""
    filesystem = ControlledFileSystem()
    filesystem.on("read_hot", "*.log", gives(None))
    filesystem.on("read_hot", "*.index", gives(None))
    settings = config(segment_bytes=1 << 20, index_interval_bytes=100)
    async with world(str(folder), filesystem=filesystem) as here:
        log = await open_log(here, str(folder / "a"), settings)
        for _ in range(3):
            await append(log, "x" * 100)
        producer = Transactional(log, 1)
        await producer.write("aborted" * 5)
        await producer.abort()
        for _ in range(batches):
            await append(log, "y" * 100)
        log.writer.roll(log.offsets.next_offset, NOW_MS)
        await append(log, "z" * 100)
        await log.close()
        end_offset = log.log_end_offset
        log = await open_log(here, str(folder / "a"), settings, is_clean=True, recovery_point=end_offset)
        partition = Partition(log, PartitionContext(ME, WakeUps(lambda _: None), PartitionDependencies()))
        partition.become_leader(state(ME, isr=(ME,), replicas=(ME,)))
        yield Place(here, filesystem, partition)
        await partition.log.close()


async def copy_of(here: Place, folder: Path) -> PartitionLog:
    """The log in another directory, batch by batch, in segments of its own."""
    copy = await open_log(here.world, str(folder / "b"), SMALL)
    offset = 0
    while offset < here.log.log_end_offset:
        content = await read(here.log, offset)
        for position, header in iter_headers(content):
            records = bytearray(content[position : position + header.size_bytes])
            await append_records(copy, records, origin=AppendOrigin.REPLICA)
            offset = header.next_offset
    return copy


async def filled(here: Place, suffix: str, meanwhile: Callable[[], Awaitable[object]], max_bytes: int) -> PartitionRead:
    """A cold read of a consumer that asks for `max_bytes`; `meanwhile`: when a file with this suffix has been read."""
    asked = here.asked(max_bytes)
    assert fill(asked, max_bytes, at_least_one=True) == -1, "it is cold"
    gate = here.filesystem.shut_on("read_at", f"*{suffix}", late=True)
    filling = asyncio.ensure_future(fill_cold(asked, max_bytes, at_least_one=True))
    await gate.reached()
    await meanwhile()
    gate.open()
    await filling
    return asked


def aborted_in(found: PartitionRead) -> list[tuple[int, int]]:
    assert found.aborted is not None
    return [(each.producer_id, each.first_offset) for each in found.aborted]


def first_offset_in(found: PartitionRead) -> int:
    assert found.records
    return min(header.base_offset for _, header in iter_headers(bytes(found.records)))


def last_offset_in(found: PartitionRead) -> int:
    assert found.records
    return max(header.last_offset for _, header in iter_headers(bytes(found.records)))


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_log_that_moves_while_it_is_read_takes_no_aborted_transaction_along(
    tmp_path: Path, is_closed: bool
) -> None:
    """The copy has other segments, in which the same bytes end at other offsets; the log may be closed by then, or not yet."""
    async with place(tmp_path, FEW) as here:
        old, copy = here.log, await copy_of(here, tmp_path)

        async def exchange() -> None:
            here.partition.replace_log(copy)
            old.detach_folder()
            if is_closed:
                await old.close(flush=False)

        found = await filled(here, ".log", exchange, 1 << 20)
        assert found.error is ErrorCode.NONE
        if is_closed:  # the first segment of the copy, which ends before the transaction
            assert (last_offset_in(found) < 3, aborted_in(found)) == (True, [])
        else:
            assert (last_offset_in(found) > 4, aborted_in(found)) == (True, ABORTED)
        if not is_closed:
            await old.close(flush=False)


async def test_what_retention_takes_while_it_is_read_is_not_answered_without_its_aborted_transactions(
    tmp_path: Path,
) -> None:
    async with place(tmp_path, MANY) as here:
        second = [segment.base_offset for segment in here.log.segments][1]
        found = await filled(here, ".index", lambda: delete_segments_before(here.log, second), 10_000)
        assert here.log.log_start_offset == second
        if found.error is ErrorCode.NONE and first_offset_in(found) < second:
            assert aborted_in(found) == ABORTED
