"""Orders of changes that a crash in between must find."""

from __future__ import annotations

import asyncio

import pytest

from config.broker import BrokerSettings
from storage.directories.log_directory import RECOVERY_POINT_FILE
from storage.directories.log_manager import LogManager
from storage.log.partition_log import AppendOrigin
from storage.log.removal.segment_retention import delete_segments_before
from tests.async_tests import played_by, simulated
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.storage.logs import found_in
from tests.storage.logs import append, append_records, batch, config
from tests.storage.machine import FOLDER, SMALL_SEGMENTS, Machine, copy, on_a_machine


@played_by(lambda program: on_a_machine(1, program))
async def test_what_lies_behind_a_torn_segment_goes_before_it_is_cut(machine: Machine) -> None:
    """Else a start after a crash in between sees a whole segment and a gap, which in a compacted log looks like one of
    compaction, and keeps what comes behind."""
    log = await machine.start()
    for number in range(20):
        await append(log, f"{number} {'x' * 100}")
    segments = [segment.base_offset for segment in log.segments]
    assert len(segments) > 3
    torn = f"{FOLDER}/{segments[1]:020}.log"
    del machine.storage.names.files[torn].content[-10:]
    changes: list[tuple[str, str]] = []
    machine.storage.watch = lambda kind, path: changes.append((kind, path))
    found = await found_in(await machine.start())
    machine.storage.watch = None
    assert found.end == segments[2] - 1
    gone = [changes.index(("unlink", f"{FOLDER}/{base:020}.log")) for base in segments[2:]]
    assert gone == sorted(gone, reverse=True)
    assert max(gone) < changes.index(("sync names", FOLDER)) < changes.index(("truncate", torn))


async def loaded_on(loop: SimLoop, storage: SimStorage) -> LogManager:
    """A log manager on an empty disk."""
    settings = BrokerSettings.from_sources({}, {}, {"log.dirs": "/data", "broker.id": "1"})
    filesystem, disk = storage.boot(), SimDisk(loop)
    filesystem.make_directory("/data")
    limits = config(segment_bytes=300, retention_bytes=0, retention_ms=-1)
    logs = LogManager(
        settings=settings, directories=["/data"], config_of=lambda topic: limits, filesystem=filesystem, disk=disk,
        clock=SimClock(loop), randomness=loop.random, on_directory_failed=lambda path, error: None,
    )  # fmt: skip
    logs.lock()
    await logs.load()
    return logs


@pytest.mark.parametrize("seed", range(5))
def test_a_recovery_point_is_told_behind_what_made_it_true(seed: int) -> None:
    """Segments that retention has let go count as flushed: they must be out of the way by then. Checkpoints have a queue of
    their own, so it is not the order of one queue that sees to that."""

    async def run(loop: SimLoop) -> None:
        storage = SimStorage(loop, SimClock(loop))
        logs = await loaded_on(loop, storage)
        log = await logs.log_for("t", 0)
        for number in range(20):
            await append(log, f"{number} {'x' * 100}")
        log.high_watermark = log.log_end_offset
        first = f"/data/t-0/{0:020}.log"
        changes: list[tuple[str, str]] = []
        storage.watch = lambda kind, path: changes.append((kind, path))
        going = asyncio.ensure_future(delete_segments_before(log, log.log_end_offset))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert log.segments.first.base_offset > 0
        await logs.upkeep.checkpoint_recovery_points()
        await going
        storage.watch = None
        assert changes.index(("rename", first)) < changes.index(("rename", f"/data/{RECOVERY_POINT_FILE}.tmp"))
        await logs.close()

    simulate(seed, run)


@simulated(3)
async def test_a_log_that_is_made_anew_is_not_told_of_the_one_before(loop: SimLoop) -> None:
    """Not by a checkpoint either that is under way when the one before is deleted."""
    storage = SimStorage(loop, SimClock(loop))
    logs = await loaded_on(loop, storage)
    log = await logs.log_for("t", 0)
    await append(log, "a")
    await log.flush()
    telling = asyncio.ensure_future(logs.upkeep.checkpoint_recovery_points())
    await asyncio.sleep(0)
    await logs.delete("t", 0)
    await logs.log_for("t", 0)
    await telling
    assert b"t 0 1" not in bytes(storage.names.files[f"/data/{RECOVERY_POINT_FILE}"].content)
    await logs.close()


@played_by(lambda program: on_a_machine(1, program))
async def test_a_segment_that_goes_loses_its_log_first(machine: Machine) -> None:
    """Below the recovery point nothing would make its transaction index again."""
    log = await machine.start()
    for number in range(20):
        await append(log, f"{number} {'x' * 100}")
    changes: list[str] = []
    machine.storage.watch = lambda kind, path: changes.append(path)
    await delete_segments_before(log, log.segments.active.base_offset)
    machine.storage.watch = None
    assert changes.index(f"{FOLDER}/{0:020}.log") < changes.index(f"{FOLDER}/{0:020}.index")


@played_by(lambda program: on_a_machine(1, program))
async def test_more_than_a_segment_at_once_has_one_to_itself(machine: Machine) -> None:
    """As a follower gets it from a leader whose segments are larger."""
    log = await machine.start()
    batches = b"".join(
        bytes(batch(f"{offset} {'x' * 100}", base_offset=offset, partition_leader_epoch=0)) for offset in range(12)
    )
    assert len(batches) > SMALL_SEGMENTS.segment_bytes
    await append_records(log, batches, origin=AppendOrigin.REPLICA)
    assert [segment.base_offset for segment in log.segments] == [0]
    await copy(log, "b", epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 12]
