"""A log on a disk that outlives the processes on it, and may lose power: the simulated one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from runtime.tasks import TaskScope
from storage.log.log_environment import LogEnvironment
from storage.log.opening import open_log
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.segments.open_segments import OpenSegments
from storage.segments.ranges_in_flight import RangesInFlight
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.storage.logs import append_records, batch, config

FOLDER = "/logs/t-0"
SMALL_SEGMENTS = config(segment_bytes=900)


class Machine:
    """A disk that outlives the processes on it."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.storage = SimStorage(loop, SimClock(loop))
        self.tasks = TaskScope("logs")
        self.readers_delay_ms = 0.0
        self.checkpoints: list[int] = []
        self.log: PartitionLog | None = None
        self.config = SMALL_SEGMENTS

    def boot(self) -> LogEnvironment:
        filesystem, disk = self.storage.boot(), SimDisk(self.loop)
        disk.readers_delay_ms = self.readers_delay_ms
        filesystem.make_directory("/logs")
        filesystem.sync_directory("/")
        self.filesystem = filesystem

        async def checkpoint(directory: str) -> OSError | None:
            assert directory == FOLDER
            assert self.log is not None
            self.checkpoints.append(self.log.offsets.recovery_point)
            return None

        open_segments = OpenSegments(disk.readers())
        return LogEnvironment(
            filesystem=filesystem,
            queue=disk.queue("/logs"),
            readers=disk.readers(),
            clock=SimClock(self.loop),
            randomness=self.loop.random,
            tasks=self.tasks,
            open_segments=open_segments,
            ranges_in_flight=RangesInFlight(open_segments),
            validation="structure",
            producers_max=100_000,
            on_failed=lambda path, error: None,
            delete_later=lambda paths, delay_ms: None,
            checkpoint_recovery_points=checkpoint,
        )

    async def start(self, recovery_point: int | None = None) -> PartitionLog:
        """After a crash; `recovery_point` is the checkpointed one."""
        environment = self.boot()
        self.log = await open_log("t", 0, FOLDER, self.config, environment, recovery_point=recovery_point)
        return self.log


def on_a_machine(seed: int, program: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
    async def run(loop: SimLoop) -> None:
        machine = Machine(loop)
        await program(machine)
        await machine.tasks.close()

    simulate(seed, run)


async def copy(log: PartitionLog, *values: str, epoch: int) -> None:
    """Records as a leader of `epoch` has them."""
    for value in values:
        content = batch(value, base_offset=log.offsets.next_offset, partition_leader_epoch=epoch)
        await append_records(log, content, origin=AppendOrigin.REPLICA)
