"""What a coordinator reads of its partition, whose log may be on its way to another directory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.internal_topics import READ_ATTEMPTS, InternalLog
from protocol.errors import ErrorCode, KafkaError
from storage.log import log_replacement
from storage.log.partition_log import PartitionLog
from storage.log.reading.log_reading import LogReading
from storage.log.removal.segment_retention import raise_log_start_offset
from storage.log.unused_file import close_unused_file
from tests.doubles.clock import ManualClock
from tests.replication.replica_world import Replica, replica
from tests.storage.logs import NOW_MS, values_of


def internal_log(one: Replica) -> InternalLog:
    partitions: Any = SimpleNamespace(find=lambda _topic, _index: one.partition)
    return InternalLog("t", partitions, ManualClock(NOW_MS), acks=1, read_bytes=1 << 20)


async def loaded(one: Replica) -> list[str]:
    return [value async for batch in internal_log(one).batches(0) for _, value in values_of(bytes(batch))]


async def with_records(one: Replica) -> PartitionLog:
    """Its files are closed."""
    one.lead(isr=(1,), replicas=(1,))
    for value in "ab":
        await one.append(value)
    log = one.partition.log
    await close_unused_file(log)
    assert not log.has_open_file
    return log


async def test_a_coordinator_waits_for_a_log_that_gives_way_to_another(tmp_path: Path) -> None:
    async with replica(tmp_path) as one:
        log = await with_records(one)
        log_replacement.buffer_appends(log)
        log.detach_folder()
        loading = asyncio.ensure_future(loaded(one))
        done, _ = await asyncio.wait([loading], timeout=0.1)
        assert not done
        log_replacement.release(log)
        assert await loading == ["a", "b"]


def test_a_read_that_fails_is_tried_again_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with replica(tmp_path) as one:
            await with_records(one)
            refusals = READ_ATTEMPTS - 1
            read_cold = LogReading.read_cold

            async def refused(self: LogReading, *arguments: Any, **more: Any) -> Any:
                nonlocal refusals
                refusals -= 1
                if refusals >= 0:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "input/output error")
                return await read_cold(self, *arguments, **more)

            monkeypatch.setattr(LogReading, "read_cold", refused)
            assert await loaded(one) == ["a", "b"]
            await close_unused_file(one.partition.log)
            refusals = READ_ATTEMPTS
            with pytest.raises(KafkaError, match="input/output error"):
                await loaded(one)

    asyncio.run(run())


async def test_a_coordinator_reads_on_behind_what_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(tmp_path) as one:
        await with_records(one)
        read_cold = LogReading.read_cold

        async def overtaken(self: LogReading, *arguments: Any, **more: Any) -> Any:
            raise_log_start_offset(one.partition.log, 1)
            return await read_cold(self, *arguments, **more)

        monkeypatch.setattr(LogReading, "read_cold", overtaken)
        assert await loaded(one) == ["b"]
