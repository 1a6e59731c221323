"""A log that nobody has written to or read since it was opened has no writer, and a blank one no segment either: what looks
at all logs, again and again, changes nothing of that, and the first use finds everything as if it had always been there."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.free_space import NoRoom
from storage.log.partition_log import AppendOrigin, PartitionLog
from tests.doubles.file_system import PLENTY
from tests.storage.directories.test_log_manager import TOPIC_ID, broker
from tests.storage.logs import append, batch, checkpoint_all, config, open_log, read, values_of, world

IDLE_LOGS = 4


def is_at_rest(log: PartitionLog) -> bool:
    return log.is_at_rest


def is_blank(log: PartitionLog) -> bool:
    return log.is_blank


async def test_what_looks_at_all_logs_leaves_them_at_rest(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        for partition in range(IDLE_LOGS):
            log = await one.logs.log_for("idle", partition, TOPIC_ID)
            if partition % 2:
                await append(log, "a")
    async with broker(tmp_path, overrides={"retention.ms": "-1", "cleanup.policy": "compact,delete"}) as two:
        logs = list(two.logs.logs.values())
        for log in logs:
            log.epochs.assign(3, log.offsets.next_offset)
            log.high_watermark = log.log_end_offset
        assert sum(is_blank(log) for log in logs) == IDLE_LOGS / 2
        for _ in range(2):
            await checkpoint_all(two.logs.upkeep)
            await two.logs.upkeep.close_idle_files()
            await two.logs.upkeep.flush_due()
            await two.logs.retention.delete_old_segments()
            await two.logs.upkeep.forget_producers()
            await two.logs.cleaner.clean_dirtiest()
            await two.logs.describe()
            for log in logs:
                assert (log.segments_count, log.is_halted, log.failure, log.has_room) == (1, False, None, True)
                assert (len(log.producers.states), log.offsets.recovery_point) == (0, log.log_end_offset)
                assert log.reading.read(log.offsets.next_offset, limit_offset=9, max_bytes=9, at_least_one=True) == b""
                assert log.reading.bytes_between(log.offsets.next_offset, log.offsets.next_offset) == 0
        assert all(is_at_rest(log) for log in logs)
        assert sum(is_blank(log) for log in logs) == IDLE_LOGS / 2
    async with broker(tmp_path) as three:  # and their stop was a clean one
        assert three.logs.was_clean
        assert sorted(log.log_end_offset for log in three.logs.logs.values()) == [0, 0, 1, 1]


async def test_the_first_append_wakes_a_log_up(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        assert is_blank(log) and is_at_rest(log)
        log.epochs.assign(2, 0)
        await append(log, "a", "b", epoch=2)
        assert not is_at_rest(log) and (log.size_bytes > 0, log.base_offset, log.log_end_offset) == (True, 0, 2)
        await log.close()
        again = await open_log(place, str(tmp_path), is_clean=True, recovery_point=2)
        assert is_at_rest(again) and not is_blank(again)
        assert values_of(await read(again, 0)) == [(0, "a"), (1, "b")]
        assert is_at_rest(again), "reading needs no writer"
        await append(again, "c", epoch=3)
        assert values_of(await read(again, 0)) == [(0, "a"), (1, "b"), (2, "c")]
        assert again.epochs.end_offset_for(2) == (2, 2)
        await again.close()


async def test_a_log_that_is_not_on_the_disk_as_a_whole_is_not_at_rest(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "a", "b")
        await log.close(flush=False)
        again = await open_log(place, str(tmp_path), is_clean=False, recovery_point=0)
        assert not is_at_rest(again) and (again.offsets.recovery_point, again.log_end_offset) == (0, 2)
        await again.flush()
        assert again.offsets.recovery_point == 2
        await again.close()


async def test_a_log_that_wakes_up_on_a_full_disk_takes_nothing(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        space = place.environment.space
        space.on_refused(0)
        log.on_room_changed()
        assert is_at_rest(log) and not log.has_room
        with pytest.raises(NoRoom):
            await append(log, "a")
        space.on_measured(PLENTY, 1 << 40)
        log.on_room_changed()
        await append(log, "a")
        assert log.has_room and log.log_end_offset == 1
        await log.close()


async def test_a_closed_log_stays_closed(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        await log.close()
        assert is_at_rest(log)
        for use in (
            lambda: log.reading.read(0, limit_offset=0, max_bytes=1, at_least_one=True),
            lambda: log.append(batch("a"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=0, done=lambda _: None),
        ):
            with pytest.raises(KafkaError) as refused:
                use()
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_settings_that_change_while_a_log_is_at_rest_hold_for_its_first_append(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        log.configure(config(max_message_bytes=10))
        with pytest.raises(KafkaError) as refused:
            await append(log, "a")
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        await log.close()
