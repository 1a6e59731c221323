"""Logs that move between the directories of a broker while they are served."""

from __future__ import annotations

import asyncio
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import patch, read_header
from replication.moves import log_copy
from replication.moves.log_copy import LogCopy
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.reading.log_reading import LogReading
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_records, delete_segments_before, raise_log_start_offset
from tests.doubles.file_system import ControlledFileSystem
from tests.replication.move_world import CLOCK, OTHER, TOPIC, MoveWorld, move_world, numbers
from tests.storage.logs import all_values, append, append_records, batch, read, until, values_of

if TYPE_CHECKING:
    from replication.partition import Partition

SMALL = {"segment.bytes": "1500"}


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return tmp_path / "a"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return tmp_path / "b"


async def test_a_log_moves_and_is_written_to_all_the_time(a: Path, b: Path) -> None:
    async with move_world(a, b, overrides=SMALL) as here:
        partition = await here.assign()
        values = numbers(200)
        for value in values:
            here.produce(partition, value)
        target = here.other_than(partition)
        await here.move(partition, target)
        told: list[ErrorCode] = []
        while len(here.moves):
            value = f"v{len(values)}"
            partition.own_waiters().when_written(here.produce(partition, value), told.append)
            values.append(value)
            await asyncio.sleep(0.0005)
        assert partition.log.directory == f"{target}/{TOPIC}-0"
        assert await here.values(partition) == values
        assert told == [ErrorCode.NONE] * (len(values) - 200), "everybody who waited was told"
        here.produce(partition, "after")
        assert list(chain(*here.folders().values())) == [f"{TOPIC}-0"]
        assert here.logs.logs[TOPIC, 0] is partition.log
        assert not here.failed
    async with move_world(a, b, overrides=SMALL) as again:
        assert await again.values(await again.assign(is_new=False)) == [*values, "after"]


async def test_offsets_epochs_and_producers_move_along(a: Path, b: Path) -> None:
    async with move_world(a, b, overrides=SMALL) as here:
        partition = await here.assign(epoch=3)
        for at in range(40):
            records = batch(f"v{at}", producer_id=9, producer_epoch=0, base_sequence=at)
            partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=1)
        await partition.log.await_appends()
        partition.delete_records(25)
        await delete_segments_before(partition.log, 25)
        start_offset = partition.log.log_start_offset
        await here.move(partition, here.other_than(partition))
        await here.moved()
        log = partition.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (start_offset, 40, 40)
        assert log.epochs.end_offset_for(3) == (3, 40)
        assert log.topic_id == bytes(range(16))
        again = batch("v39", producer_id=9, producer_epoch=0, base_sequence=39)
        result = partition.append(again, origin=AppendOrigin.CLIENT, acks=1, now_ms=1)
        assert result.duplicate
        assert result.base_offset == 39
        found = values_of(await read(log, start_offset))
        assert found[-1] == (39, "v39") or found[0][0] <= start_offset


async def test_who_reads_at_the_end_is_woken(a: Path, b: Path) -> None:
    async with move_world(a, b) as here:
        partition = await here.assign()
        here.produce(partition, "one")
        await here.move(partition, here.other_than(partition))
        await here.moved()
        here.produce(partition, "two")
        assert await here.values(partition) == ["one", "two"]
        assert partition.high_watermark == 2


async def test_a_follower_leaves_its_leader_for_the_exchange_and_comes_back(a: Path, b: Path) -> None:
    async with move_world(a, b) as here:
        partition = await here.assign(leader=OTHER, epoch=4)
        assert here.following.followed == {(TOPIC, 0): 4}
        records = batch(*numbers(5))
        partition.append_as_follower(records, leader_high_watermark=5, leader_log_start_offset=0, now_ms=1)
        here.following.calls.clear()
        await here.move(partition, here.other_than(partition))
        await here.moved()
        assert here.following.calls == ["leave", "follow"]
        assert here.following.followed == {(TOPIC, 0): 4}
        assert await here.values(partition) == numbers(5)
        assert partition.high_watermark == 5


async def test_back_to_where_it_is_ends_a_move(a: Path, b: Path) -> None:
    async with move_world(a, b, limit_bytes_per_second=1) as here:
        partition = await here.filled(100)
        home, target = str(Path(partition.log.directory).parent), here.other_than(partition)
        await here.move(partition, target)
        await asyncio.sleep(0.02)
        assert len(here.folders()[Path(target).name]) == 1
        described = {each.path: each for each in await here.logs.describe()}
        (copy,) = described[target].logs
        assert copy.is_future
        assert 0 < copy.offset_lag <= 100
        await here.move(partition, home)
        assert len(here.moves) == 0
        assert here.folders()[Path(target).name] == []
        assert partition.log.directory == f"{home}/{TOPIC}-0"
        assert await here.values(partition) == numbers(100)


async def test_a_third_directory_is_another_copy(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    async with move_world(*paths, limit_bytes_per_second=1) as here:
        partition = await here.filled(100)
        home = Path(partition.log.directory).parent
        second, third = (path for path in paths if path != home)
        await here.move(partition, str(second))
        await here.move(partition, str(third))
        assert here.folders()[second.name] == []
        here.quota.limit_bytes_per_second = 1 << 60
        await here.moved()
        assert partition.log.directory == f"{third}/{TOPIC}-0"
        assert await here.values(partition) == numbers(100)


@pytest.mark.parametrize("kill", [True, False])
async def test_a_restart_in_the_middle_goes_on(a: Path, b: Path, kill: bool) -> None:
    async with move_world(a, b, kill=kill, limit_bytes_per_second=1, overrides=SMALL) as here:
        partition = await here.filled(100)
        target = here.other_than(partition)
        await here.move(partition, target)
        await until(lambda: here.copied() > 0)
        await partition.log.await_appends()
    async with move_world(a, b, overrides=SMALL) as again:
        copy = again.logs.future.future_log(TOPIC, 0)
        assert copy is not None
        assert 0 < copy.log_end_offset < 100
        partition = await again.assign(epoch=1, is_new=False)
        again.produce(partition, "more")
        await again.moved()
        assert partition.log.directory == f"{target}/{TOPIC}-0"
        assert await again.values(partition) == [*numbers(100), "more"]


async def test_a_log_that_is_cut_takes_its_copy_along(a: Path, b: Path) -> None:
    """As a follower of a new leader whose log parts from ours."""
    async with move_world(a, b, limit_bytes_per_second=1, overrides=SMALL) as here:
        partition = await here.filled(60, epoch=0)
        await here.move(partition, here.other_than(partition))
        await until(lambda: here.copied() >= 10)
        await here.assign(leader=OTHER, epoch=1)
        await truncate_to(partition.log, 5)
        other = batch("other")
        patch(other, 0, 5, 1)
        partition.append_as_follower(other, leader_high_watermark=6, leader_log_start_offset=0, now_ms=1)
        here.quota.limit_bytes_per_second = 1 << 60
        await here.moved()
        assert await here.values(partition) == [*numbers(5), "other"]
        assert partition.log.epochs.end_offset_for(0) == (0, 5)


async def test_a_deleted_partition_takes_its_copy_along(a: Path, b: Path) -> None:
    async with move_world(a, b, limit_bytes_per_second=1) as here:
        partition = await here.filled(50)
        await here.move(partition, here.other_than(partition))
        await here.delete()
        assert len(here.moves) == 0
        assert here.folders() == {"a": [], "b": []}
        assert here.logs.future.future_log(TOPIC, 0) is None


async def refusal(here: MoveWorld, topic: str, path: str) -> ErrorCode:
    try:
        await here.moves.move(topic, 0, here.partitions.find(topic, 0), path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


async def test_what_is_refused(a: Path, b: Path) -> None:
    async with move_world(a, b) as here:
        partition = await here.assign()
        home, target = str(Path(partition.log.directory).parent), here.other_than(partition)
        assert await refusal(here, TOPIC, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert await refusal(here, "t" * 249, target) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await refusal(here, "unknown", target) is ErrorCode.REPLICA_NOT_AVAILABLE
        assert await refusal(here, TOPIC, home) is ErrorCode.NONE
        here.logs.fail_directory(target, OSError(5, "gone"))
        assert await refusal(here, TOPIC, target) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_preferred_directory_is_where_the_log_is_made(a: Path, b: Path) -> None:
    async with move_world(a, b) as here:
        for index in range(4):
            with pytest.raises(KafkaError):
                await here.moves.move(TOPIC, index, None, str(b))
            partition = await here.assign(index)
            assert partition.log.directory.startswith(f"{b}/")
        # Without a wish, the directory with the fewest logs.
        assert (await here.assign(7)).log.directory.startswith(f"{a}/")


async def test_a_copy_whose_directory_fails_leaves_the_log_alone(a: Path, b: Path) -> None:
    async with move_world(a, b, limit_bytes_per_second=1) as here:
        partition = await here.filled(50)
        target = here.other_than(partition)
        await here.move(partition, target)
        here.logs.fail_directory(target, OSError(5, "gone"))
        await here.moved()
        assert here.failed == [target]
        here.produce(partition, "more")
        assert await here.values(partition) == [*numbers(50), "more"]


async def test_a_full_directory_holds_a_move_up(a: Path, b: Path) -> None:
    disk = ControlledFileSystem()
    async with move_world(a, b, filesystem=disk) as here:
        partition = await here.filled(50)
        disk.left_bytes = 2000
        await here.move(partition, here.other_than(partition))
        copy = here.logs.future.future_log(TOPIC, 0)
        assert copy is not None
        await until(lambda: not copy.has_room)
        disk.left_bytes = 1 << 40
        await here.moved()
        assert not here.failed
        assert await here.values(partition) == numbers(50)
        assert partition.log.directory.startswith(f"{b}/") or partition.log.directory.startswith(f"{a}/")
        assert not partition.log.is_halted


async def test_a_partition_whose_directory_was_offline_from_the_start(a: Path, b: Path) -> None:
    """Apache Kafka calls its storage broken, and remembers no directory for it."""
    async with move_world(a, b) as here:
        partition = await here.filled(5)
        target = here.other_than(partition)
    source = a if target == str(b) else b
    source.rename(f"{source}.away")
    source.touch()
    async with move_world(a, b) as here:
        assert await here.refused() is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError) as refused:
            await here.moves.move(TOPIC, 0, None, target, is_offline=here.partitions.is_offline(TOPIC, 0))
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError) as refused:
            await here.moves.move(TOPIC, 1, None, target, is_offline=here.partitions.is_offline(TOPIC, 1))
        assert refused.value.code is ErrorCode.REPLICA_NOT_AVAILABLE


async def test_the_throttle_is_kept(a: Path, b: Path) -> None:
    async with move_world(a, b, limit_bytes_per_second=20_000, fetch_max_bytes=500) as here:
        partition = await here.filled(100)
        size_bytes = partition.log.size_bytes
        began = asyncio.get_running_loop().time()
        await here.move(partition, here.other_than(partition))
        await here.moved()
        took_s = asyncio.get_running_loop().time() - began
        assert took_s > 0.5 * size_bytes / 20_000
        assert await here.values(partition) == numbers(100)


async def test_a_log_whose_last_records_were_compacted_away(a: Path, b: Path) -> None:
    """Its end is that of an empty segment, and offsets are not given twice."""
    compacted = {"cleanup.policy": "compact"}
    async with move_world(a, b, overrides=compacted) as here:
        partition = await here.assign()
        here.produce(partition, *numbers(5))
        folder = Path(partition.log.directory)
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"{10:020d}{suffix}").touch()
    async with move_world(a, b, overrides=compacted) as again:
        partition = await again.assign(epoch=1, is_new=False)
        assert partition.log.log_end_offset == 10
        await again.move(partition, again.other_than(partition))
        await again.moved()
        assert partition.log.directory != str(folder)
        assert partition.log.log_end_offset == 10
        assert again.produce(partition, "on") == 11
        await partition.log.await_appends()
        assert [offset for offset, _ in await all_values(partition.log)] == [0, 1, 2, 3, 4, 10]


async def test_a_log_that_has_begun_anew_where_its_copy_ends_is_copied_anew(a: Path, b: Path) -> None:
    """What the copy has was cut off: it may know of producers and open transactions that there never were."""
    async with move_world(a, b) as here:
        partition = await here.assign()
        records = batch("a", "b", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
        partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=1)
        await partition.log.await_appends()
        target = here.other_than(partition)
        future_log = await here.logs.future.future_log_for(TOPIC, 0, str(target))
        copying = LogCopy(partition, future_log, max_bytes=1 << 20, clock=CLOCK)
        assert await copying.step()
        assert future_log.producers.states.has_transactions
        await truncate_to(partition.log, 0)
        await truncate_fully_and_start_at(partition.log, 2)
        assert await copying.step()
        assert future_log.segments.first.base_offset == future_log.log_start_offset == future_log.log_end_offset == 2
        assert not len(future_log.producers.states)
        here.produce(partition, "c")
        await partition.log.await_appends()
        assert await copying.step()
        assert await all_values(future_log) == [(2, "c")]


async def test_a_log_whose_start_rises_while_it_is_read_leaves_no_hole_in_its_copy(a: Path, b: Path) -> None:
    class ColdLog:
        """None of it is in memory, and until it is read the oldest segments have expired."""

        def __init__(self, log: PartitionLog, start_offset: int) -> None:
            self.log = log
            self.start_offset = start_offset

        def __getattr__(self, name: str) -> Any:
            return getattr(self.log, name)

        @property
        def reading(self) -> ColdLog:
            return self

        def read(self, *_: Any, **__: Any) -> None:
            return None

        async def read_cold(self, offset: int, **limits: Any) -> Any:
            raise_log_start_offset(self.log, self.start_offset)
            return await self.log.reading.read_cold(offset, **limits)

    async with move_world(a, b) as here:
        partition = await here.filled(10)
        future_log = await here.logs.future.future_log_for(TOPIC, 0, str(here.other_than(partition)))
        copied = SimpleNamespace(log=partition.log)
        copying = LogCopy(cast("Partition", copied), future_log, max_bytes=100, clock=CLOCK)
        await copying.step()
        assert 0 < future_log.log_end_offset < 6
        copied.log = ColdLog(partition.log, 6)
        await copying.copy_remaining()
        assert (await all_values(future_log))[0] == (6, "v6")
        assert future_log.segments.first.base_offset == 6


async def test_producers_that_only_a_snapshot_knows_move_along(a: Path, b: Path) -> None:
    """Their batches were compacted away, and what came later was cut off."""
    async with move_world(a, b, kill=True) as here:
        partition = await here.filled(5)
        records = batch("gone", producer_id=9, producer_epoch=0, base_sequence=4)
        partition.log.producers.own_states().replay(records, 0, read_header(records))
        await here.move(partition, here.other_than(partition))
        await here.moved()
        assert 9 in partition.log.producers.states
        here.produce(partition, "more")
        await partition.log.await_appends()
    async with move_world(a, b) as again:
        partition = await again.assign(epoch=1, is_new=False)
        assert partition.log.log_end_offset == 6
        assert 9 in partition.log.producers.states


async def test_records_deleted_while_the_rest_is_read_cold_leave_no_hole(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cold = LogReading.read_cold
    async with move_world(a, b) as here:
        partition = await here.assign()
        for start in (0, 5, 10):
            here.produce(partition, *numbers(5, start))
        await partition.log.await_appends()
        log = partition.log
        copy = await here.logs.future.future_log_for(TOPIC, 0, here.other_than(partition))
        moving = LogCopy(partition, copy, max_bytes=1, clock=CLOCK)
        while copy.log_end_offset < 5:
            await moving.step()

        async def cold(self: LogReading, offset: int, **limits: Any) -> Any:
            found = await read_cold(self, offset, **limits)
            if offset == 10:
                delete_records(log, 12)
            return found

        monkeypatch.setattr(LogReading, "read", lambda *_args, **_limits: None)
        monkeypatch.setattr(LogReading, "read_cold", cold)
        await moving.copy_remaining()
        monkeypatch.undo()
        assert (copy.log_start_offset, copy.log_end_offset) == (12, 15)
        assert [value for _, value in await all_values(copy)] == numbers(3, 12)


async def test_a_copy_that_ends_where_the_log_begins_within_a_batch_takes_the_batch(a: Path, b: Path) -> None:
    """All that it has was deleted from the log."""
    async with move_world(a, b) as here:
        partition = await here.assign()
        for start in (0, 5, 10):
            here.produce(partition, *numbers(5, start))
        await partition.log.await_appends()
        copy = await here.logs.future.future_log_for(TOPIC, 0, here.other_than(partition))
        await append(copy, *numbers(7))
        await copy.await_appends()
        delete_records(partition.log, 7)
        moving = LogCopy(partition, copy, max_bytes=1000, clock=CLOCK)
        await moving.copy_remaining()
        assert (copy.log_start_offset, copy.log_end_offset) == (7, 15)
        assert [value for _, value in await all_values(copy)] == numbers(8, 7)


async def test_what_a_follower_cuts_off_leaves_its_copy_though_no_epoch_tells(a: Path, b: Path) -> None:
    """Its leader has compacted the log since: the first record that is left is of a later epoch, and behind the copy's end."""
    async with move_world(a, b) as here:
        partition = await here.filled(3)
        future_log = await here.logs.future.future_log_for(TOPIC, 0, str(here.other_than(partition)))
        copying = LogCopy(partition, future_log, max_bytes=1 << 20, clock=CLOCK)
        assert await copying.step()
        await truncate_to(partition.log, 0)
        compacted = batch("v7", base_offset=7, partition_leader_epoch=5)
        await append_records(partition.log, compacted, origin=AppendOrigin.REPLICA)
        await copying.copy_remaining()
        assert await all_values(future_log) == await all_values(partition.log) == [(7, "v7")]


async def test_a_log_that_is_cut_while_its_copy_begins_anew_is_copied_from_the_cut_on(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with move_world(a, b) as here:
        partition = await here.filled(10)
        raise_log_start_offset(partition.log, 6)
        future_log = await here.logs.future.future_log_for(TOPIC, 0, str(here.other_than(partition)))

        async def slow(copy: PartitionLog, offset: int) -> None:
            """Until the copy has begun anew, the log is cut further back and goes on."""
            await truncate_fully_and_start_at(copy, offset)
            if offset == 6:
                await truncate_to(partition.log, 4)
                for number in range(4, 8):
                    await append(partition.log, f"new{number}", epoch=5)

        monkeypatch.setattr(log_copy, "truncate_fully_and_start_at", slow)
        copying = LogCopy(partition, future_log, max_bytes=1 << 20, clock=CLOCK)
        assert await copying.step()
        assert await all_values(future_log) == await all_values(partition.log)
