"""A log that moves to another directory, and a crash at any moment of it: one log is left, with all that it had.

Were the broker killed, Apache Kafka could be given the directories: it knows no marks. A folder with the log's name is there,
and has everything if it is the only one; with two of that name Apache Kafka does not start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.records.record import Record, encode_batch
from replication.partition import Partition
from runtime.disk.filesystem import FileSystem
from storage.log.partition_log import AppendOrigin
from storage.log.removal.segment_retention import delete_records
from tests.replication.move_world import TOPIC, MoveWorld, make_world, move_world
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.disk_survey import end_of, log_folders
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.process import Process
from tests.storage.logs import NOW_MS, all_values

A, B = Path("/disks/a"), Path("/disks/b")
SMALL = {"segment.bytes": "900"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
FLUSHED = 25
DELETED = 3


class Story:
    """What is known outside of what happened inside. `gaps`: the topic is compacted at first, and not any more when its log
    moves; a strike is counted from then on."""

    def __init__(self, *, gaps: bool) -> None:
        self.overrides = {**SMALL, **COMPACTED} if gaps else dict(SMALL)
        self.gaps = gaps
        self.records: list[tuple[int, str]] = []
        self.acknowledged = 0
        self.flushed = 0
        self.is_struck = False

    def produce(self, here: MoveWorld, partition: Partition, key: str = "k") -> None:
        offset = partition.log.offsets.next_offset
        value = f"v{offset}"
        records = bytearray(encode_batch([Record(0, NOW_MS, key.encode(), value.encode(), [])]))
        end_offset = partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=1).last_offset + 1
        self.records.append((offset, value))
        if partition.is_written(end_offset):
            self.acknowledged = end_offset
        else:
            partition.own_waiters().when_written(end_offset, lambda error: self.on_told(end_offset, error))

    def on_told(self, end_offset: int, error: ErrorCode) -> None:
        assert error is ErrorCode.NONE
        self.acknowledged = end_offset

    async def first_life(self, filesystem: FileSystem, disk: SimDisk, begins_to_move: Callable[[], None]) -> None:
        here = make_world(A, B, filesystem=filesystem, disk=disk, overrides=self.overrides)
        await here.start()
        partition = await here.assign()
        for at in range(FLUSHED):
            self.produce(here, partition, key=f"stays {at}" if at % 11 < 9 else "goes")
        await partition.log.flush()
        self.acknowledged = self.flushed = FLUSHED
        if self.gaps:
            await self.compact(here, partition)
            begins_to_move()
        await here.move(partition, here.other_than(partition))
        while len(here.moves):
            self.produce(here, partition)
            await asyncio.sleep(0.004)
        for _ in range(3):
            self.produce(here, partition)
            await asyncio.sleep(0.01)
        await here.stop()

    async def compact(self, here: MoveWorld, partition: Partition) -> None:
        log = partition.log
        assert await here.logs.cleaner.clean_dirtiest()
        delete_records(log, DELETED)
        self.records = await all_values(log)
        offsets = [offset for offset, _ in self.records]
        first_offsets = [segment.base_offset for segment in log.segments][1:]
        assert any(each - 1 not in offsets for each in first_offsets), "a segment ends before the next one begins"
        await here.logs.upkeep.checkpoint_recovery_points()
        await here.logs.upkeep.checkpoint_log_start_offsets()
        del self.overrides["cleanup.policy"]
        here.logs.update_configs(TOPIC)

    async def second_life(self, storage: SimStorage, disk: SimDisk, *, at_least: int) -> None:
        async with move_world(A, B, filesystem=storage.boot(), disk=disk, overrides=self.overrides) as here:
            partition = await here.assign(epoch=1, is_new=True)
            await here.moved()  # what is read from the disk in the very moment of the exchange is refused
            await partition.log.await_appends()
            found = await all_values(partition.log)
            promised = [each for each in self.records if each[0] < at_least]
            assert found[: len(promised)] == promised, "nothing is missing that was to be there"
            assert partition.log.log_end_offset >= at_least
            # Of what was not promised a loss of power may leave a hole, which looks like one of compaction.
            is_whole = not self.gaps or at_least > self.flushed
            left = self.records[: len(found)] if is_whole else [each for each in self.records if each in found]
            assert found == left, "a beginning of what was written"
            here.produce(partition, "more")
            await partition.log.await_appends()
            assert [value for _, value in await all_values(partition.log)] == [*(value for _, value in found), "more"]
            assert not here.failed
        folders = [path for path in storage.names.directories if TOPIC in path and not path.endswith("-delete")]
        assert len(folders) == 1, folders

    def check_as_apache_kafka(self, storage: SimStorage) -> None:
        """What the broker that was killed has left."""
        if not self.flushed:
            return
        named = [path for path in storage.names.directories if path.endswith(f"/{TOPIC}-0")]
        assert named, "Apache Kafka would begin anew"
        if len(named) == 1 and not self.gaps:
            assert end_of(log_folders(storage, durable=False)[TOPIC, 0][named[0]]) >= self.acknowledged


def is_over_after(calls: int, *, power: bool, gaps: bool, of_names: int | None = None) -> bool:
    """Crash in the call number `calls` to the file system; whether all is done with fewer.

    `of_names`: changes of names and their fsyncs are counted alone, and this is the seed, so that none is missed.
    """
    story = Story(gaps=gaps)

    async def program(loop: SimLoop) -> None:
        storage, disk = SimStorage(loop, SimClock(loop)), SimDisk(loop)
        storage.mounts = (str(A), str(B))
        process = Process(loop, "broker")

        def strike() -> None:
            story.is_struck = True
            process.kill()
            disk.crash()

        left = calls

        def count_names(kind: str, _path: str) -> None:
            nonlocal left
            left -= kind in ("rename", "unlink", "sync names")
            if not left:
                storage.watch = None
                storage.strike_after(0, strike)
                storage.strike()

        def count_from_now() -> None:
            if of_names is not None:
                storage.watch = count_names
            else:
                storage.strike_after(calls, strike)

        filesystem = storage.boot()
        if not gaps:
            count_from_now()
        task = process.spawn(story.first_life(filesystem, disk, count_from_now), "life")
        while not story.is_struck and not task.done():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.001)
        if story.is_struck:
            process.bury()
        else:
            task.result()
        storage.watch = None
        at_least = story.acknowledged
        if power:
            at_least = story.flushed
            storage.crash_power()
        else:
            story.check_as_apache_kafka(storage)
        await story.second_life(storage, SimDisk(loop), at_least=at_least)

    simulate(calls if of_names is None else of_names, program)
    return not story.is_struck


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_moment(power: bool) -> None:
    calls = 30
    while not is_over_after(calls, power=power, gaps=False):
        calls += 3
    assert calls > 200


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_before_any_change_of_names(power: bool) -> None:
    for seed in range(4 if power else 1):
        changes = 1
        while not is_over_after(changes, power=power, gaps=False, of_names=seed):
            changes += 1
        assert changes > 20


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_moment_of_a_log_that_was_compacted_once(power: bool) -> None:
    """Gaps between its segments are no tears, and its first records are gone: only checkpoints of its directory know."""
    calls = 1
    while not is_over_after(calls, power=power, gaps=True):
        calls += 2
    assert calls > 100
