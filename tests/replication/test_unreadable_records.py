"""Records that cannot be read: the client is told, and so is the broker's log, once a minute."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition
from replication.dependencies import PartitionContext, PartitionDependencies
from replication.fetch_read import FetchReader, fill, fill_cold, inspect
from replication.fetch_sessions import NO_SESSION, FetchItem, FetchSession
from replication.partition import Partition
from replication.waiting.delayed_queues import WakeUps
from tests.replication.replica_world import ME, state
from tests.storage.logs import append, open_log, world


async def test_a_file_that_became_shorter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        lines = [each.getMessage() for each in caplog.records if each.name == "storage.log.reading.log_reading"]
        caplog.clear()
        return lines

    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path / "t-0"))
        for _ in range(9):
            await append(log, "x" * 100)
        partition = Partition(log, PartitionContext(ME, WakeUps(lambda _: None), PartitionDependencies()))
        partition.become_leader(state(ME, isr=(ME,), replicas=(ME,)))
        path = Path(log.segments.active.path(".log"))

        async def fetched(offset: int) -> ErrorCode:
            asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
            item = FetchItem(FetchSession(NO_SESSION), 0, "t", bytes(16), asked)
            found = inspect(item, partition, FetchReader())
            if fill(found, 1000, at_least_one=True) < 0:
                await fill_cold(found, 1000, at_least_one=True)
            return found.error

        assert await fetched(5) is ErrorCode.NONE and await fetched(10) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert told() == []
        os.truncate(path, os.stat(path).st_size // 2)
        for _ in range(3):
            assert await fetched(7) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await fetched(0) is ErrorCode.NONE
        (line,) = told()
        assert line.startswith("records cannot be read: topic=t partition=0 offset=7 error=")
        assert f"{path} ends before " in line
        here.clock.now_ms += 60_000
        assert await fetched(8) is ErrorCode.KAFKA_STORAGE_ERROR and len(told()) == 1
        here.clock.now_ms += 60_000
        await log.close()
        assert await fetched(8) is ErrorCode.KAFKA_STORAGE_ERROR and told() == []
