"""A move that is refused what it reads or writes: it is tried again for as long as both logs are there."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from replication.moves.log_copy import LogCopy
from replication.moves.log_moves import LONGEST_RETRY_PAUSE_S
from replication.partition import Partition
from storage.log.removal.log_truncation import resume
from storage.log.removal.segment_retention import delete_old_segments, delete_records
from tests.async_tests import played_by
from tests.doubles.file_system import ControlledFileSystem
from tests.replication.move_world import TOPIC, MoveWorld, move_world, numbers
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.storage.logs import until

A, B = Path("/disks/a"), Path("/disks/b")
SMALL = {"segment.bytes": "300"}
COUNT = 20


def with_closed_segments(program: Callable[[MoveWorld, Partition, SimStorage, SimDisk], Awaitable[None]]) -> None:
    """Run `program` with a partition of `COUNT` records, some a segment, none of which is open after a start."""

    async def run(loop: SimLoop) -> None:
        storage = SimStorage(loop, SimClock(loop))
        async with move_world(A, B, filesystem=storage.boot(), disk=SimDisk(loop), overrides=SMALL) as here:
            await here.filled(COUNT)
        disk = SimDisk(loop)
        async with move_world(A, B, filesystem=storage.boot(), disk=disk, overrides=SMALL) as here:
            await program(here, await here.assign(epoch=1, is_new=False), storage, disk)

    simulate(1, run)


def lines(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(what)]


def test_a_segment_that_retention_takes_from_under_a_move(caplog: pytest.LogCaptureFixture) -> None:
    """What is left is copied at once."""

    async def program(here: MoveWorld, partition: Partition, storage: SimStorage, disk: SimDisk) -> None:
        log = partition.log
        first = log.segments.first
        disk.readers_delay_ms = 2_000.0
        await here.move(partition, here.other_than(partition))
        await asyncio.sleep(0.05)
        assert here.copied() == 0 and first.file is None, "it waits for the disk"
        log.high_watermark = log.log_end_offset
        delete_records(log, 5)
        assert await delete_old_segments(log) > 0
        disk.readers_delay_ms = 0.0
        await here.moved()
        assert not here.moves.failed_partitions
        assert partition.log is not log
        assert await here.values(partition) == numbers(COUNT - 5, 5)

    with_closed_segments(program)
    assert not lines(caplog, "log move postponed")
    assert not lines(caplog, "log move failed")


def second_segment(partition: Partition) -> str:
    log = partition.log
    return f"{log.directory}/{list(log.segments)[1].base_offset:020}.log"


@played_by(with_closed_segments, gives=4)
async def test_a_file_that_cannot_be_opened_for_now(
    here: MoveWorld,
    partition: Partition,
    storage: SimStorage,
    disk: SimDisk,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0
    step = LogCopy.step

    async def counted(copy: LogCopy) -> bool:
        nonlocal steps
        steps += 1
        return await step(copy)

    monkeypatch.setattr(LogCopy, "step", counted)
    target = here.other_than(partition)
    storage.fail(second_segment(partition), errno.EMFILE)
    await here.move(partition, target)
    await asyncio.sleep(20)
    assert 15 < steps < 35, "with pauses that grow, and not beyond all measure"
    assert len(here.moves) == 1 and not here.moves.failed_partitions
    assert len(lines(caplog, "log move postponed")) == 1
    storage.repair()
    await here.moved()
    assert await here.values(partition) == numbers(COUNT)
    assert partition.log.directory == f"{target}/{TOPIC}-0"


async def _stop(here: MoveWorld, partition: Partition) -> None:
    await here.moves.stop(TOPIC, 0)


async def _delete(here: MoveWorld, partition: Partition) -> None:
    await here.delete()


async def _fail_log(here: MoveWorld, partition: Partition) -> None:
    here.logs.fail_directory(partition.log.directory.rpartition("/")[0], OSError("broken"))
    await asyncio.sleep(LONGEST_RETRY_PAUSE_S)


async def _fail_copy(here: MoveWorld, partition: Partition) -> None:
    here.logs.fail_directory(here.other_than(partition), OSError("broken"))
    await asyncio.sleep(LONGEST_RETRY_PAUSE_S)


async def _drop_copy(here: MoveWorld, partition: Partition) -> None:
    await here.logs.future.drop_future_log(TOPIC, 0)
    await asyncio.sleep(LONGEST_RETRY_PAUSE_S)


@pytest.mark.parametrize("end", [_stop, _delete, _fail_log, _fail_copy, _drop_copy])
@played_by(with_closed_segments, gives=4)
async def test_what_ends_a_move_that_waits(
    here: MoveWorld,
    partition: Partition,
    storage: SimStorage,
    disk: SimDisk,
    end: Callable[[MoveWorld, Partition], Awaitable[None]],
) -> None:
    storage.fail(second_segment(partition), errno.EMFILE)
    await here.move(partition, here.other_than(partition))
    await asyncio.sleep(5)
    assert len(here.moves) == 1
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    await end(here, partition)
    assert len(here.moves) == 0
    is_undone = end not in (_stop, _delete)
    assert loop.time() - begun_s < 0.2 + LONGEST_RETRY_PAUSE_S * is_undone, "who stops it waits for no pause"
    assert here.moves.failed_partitions == ({(TOPIC, 0)} if is_undone else set())
    storage.repair()


@played_by(with_closed_segments, gives=4)
async def test_what_is_no_batch_ends_a_move(
    here: MoveWorld,
    partition: Partition,
    storage: SimStorage,
    disk: SimDisk,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def corrupt(copy: LogCopy) -> bool:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "no batch")

    monkeypatch.setattr(LogCopy, "step", corrupt)
    await here.move(partition, here.other_than(partition))
    await asyncio.sleep(0.01)
    assert here.moves.failed_partitions == {(TOPIC, 0)}
    assert len(lines(caplog, "log move failed")) == 1
    await here.delete()
    assert not here.moves.failed_partitions, "what is gone has not failed"


async def test_a_halted_log_says_why_its_move_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it knows of producers is more than it holds, until it goes on: the copy is made, and takes its place then."""
    disk = ControlledFileSystem()
    async with move_world(tmp_path / "a", tmp_path / "b", filesystem=disk) as here:
        partition = await here.filled(50)
        disk.full.add(partition.log.directory.rpartition("/")[0])
        with suppress(KafkaError):  # written there and then, or behind others
            here.produce(partition, "refused")
        await until(lambda: partition.log.is_halted)
        target = here.other_than(partition)
        await here.move(partition, target)
        await until(lambda: here.copied() == 50)
        lines = [line for line in caplog.messages if line.startswith("log move postponed")]
        assert len(lines) == 1 and "There is no room for" in lines[0]
        disk.full.clear()
        await resume(partition.log)
        await here.moved()
        assert partition.log.directory == f"{target}/{TOPIC}-0"
        assert await here.values(partition) == numbers(50)
