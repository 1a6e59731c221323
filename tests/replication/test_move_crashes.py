"""A log that moves to another directory, and a crash at any moment of it: one log is left, with all that it had."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from replication.partition import Partition
from runtime.filesystem import FileSystem
from tests.replication.move_world import TOPIC, MoveWorld, make_world, move_world
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.process import Process

A, B = Path("/disks/a"), Path("/disks/b")
SMALL = {"segment.bytes": "900"}
FLUSHED = 25


class Story:
    """What is known outside of what happened inside."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.acknowledged = 0
        self.flushed = 0
        self.is_struck = False

    def produce(self, here: MoveWorld, partition: Partition) -> None:
        value = f"v{len(self.values)}"
        end_offset = here.produce(partition, value)
        self.values.append(value)
        if partition.is_written(end_offset):
            self.acknowledged = end_offset
        else:
            partition.when_written(end_offset, lambda error: self.on_told(end_offset, error))

    def on_told(self, end_offset: int, error: ErrorCode) -> None:
        assert error is ErrorCode.NONE
        self.acknowledged = end_offset

    async def first_life(self, filesystem: FileSystem, disk: SimDisk) -> None:
        here = make_world(A, B, filesystem=filesystem, disk=disk, overrides=SMALL)
        await here.start()
        partition = await here.assign()
        for _ in range(FLUSHED):
            self.produce(here, partition)
        await partition.log.flush()
        self.acknowledged = self.flushed = FLUSHED
        await here.move(partition, here.other_than(partition))
        while len(here.moves):
            self.produce(here, partition)
            await asyncio.sleep(0.004)
        for _ in range(3):
            self.produce(here, partition)
            await asyncio.sleep(0.01)
        await here.stop()

    async def second_life(self, storage: SimStorage, disk: SimDisk, *, at_least: int) -> None:
        async with move_world(A, B, filesystem=storage.boot(), disk=disk, overrides=SMALL) as here:
            partition = await here.assign(epoch=1, is_new=True)
            await here.moved()  # what is read from the disk in the very moment of the exchange is refused
            found = await here.values(partition)
            assert found == self.values[: len(found)], "a beginning of what was written"
            assert len(found) >= at_least, "nothing is missing that was to be there"
            here.produce(partition, "more")
            assert await here.values(partition) == [*found, "more"]
            assert not here.failed
        folders = [path for path in storage.names.directories if TOPIC in path and not path.endswith("-delete")]
        assert len(folders) == 1, folders


def is_over_after(calls: int, *, power: bool) -> bool:
    """Crash in the call number `calls` to the file system; whether all is done with fewer."""
    story = Story()

    async def program(loop: SimLoop) -> None:
        storage, disk = SimStorage(loop, SimClock(loop)), SimDisk(loop)
        process = Process(loop, "broker")

        def strike() -> None:
            story.is_struck = True
            process.kill()
            disk.crash()

        filesystem = storage.boot()
        storage.strike_after(calls, strike)
        task = process.spawn(story.first_life(filesystem, disk), "life")
        while not story.is_struck and not task.done():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.001)
        if story.is_struck:
            process.bury()
        else:
            task.result()
        at_least = story.acknowledged
        if power:
            at_least = story.flushed
            storage.crash_power()
        await story.second_life(storage, SimDisk(loop), at_least=at_least)

    simulate(calls, program)
    return not story.is_struck


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_moment(power: bool) -> None:
    calls = 30
    while not is_over_after(calls, power=power):
        calls += 3
    assert calls > 200
