"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords where there are followers."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.delete_records import delete_records
from broker.handlers.records.list_offsets import LATEST, list_offsets
from broker.handlers.records.offset_for_leader_epoch import offset_for_leader_epoch
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from runtime.disk.filesystem import FileStat
from runtime.disk.os_filesystem import OsFileSystem
from storage.log.partition_log import PartitionLog
from storage.segments.segment_files import LOG_SUFFIX
from tests.async_tests import played_by
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS

Scenario = Callable[[ReplicaBroker], Awaitable[None]]


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica_broker(folder, **settings) as broker:
            await scenario(broker)

    asyncio.run(run())


async def listed(broker: ReplicaBroker, timestamp: int, replica: int = -1, version: int = 6) -> tuple[int, int]:
    """(error, offset)"""
    request = ListOffsetsRequest(
        replica_id=replica,
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])],
    )
    response = await broker.start(list_offsets, request, version).when_ready()
    found = response.topics[0].partitions[0]
    return found.error_code, found.offset


async def begun_at(broker: ReplicaBroker, timestamp: int, replica: int = -1, most: int = 10) -> list[int]:
    """As version 0 answers: where segments begin that were last written to before that time."""
    row = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=most)
    request = ListOffsetsRequest(replica_id=replica, topics=[ListOffsetsTopic(name="t", partitions=[row])])
    response = await broker.start(list_offsets, request, 0).when_ready()
    found = response.topics[0].partitions[0]
    assert found.error_code == ErrorCode.NONE
    return list(found.old_style_offsets)


async def led_with_segments(broker: ReplicaBroker) -> PartitionLog:
    """Two segments of a record each, last written to 1,000 ms and 2,000 ms behind `NOW_MS`; nothing is committed."""
    broker.one.lead(isr=(1, 2))
    for _ in range(2):
        await broker.one.append("v" * 100)
    log = broker.one.partition.log
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    for number, segment in enumerate(log.segments):
        OsFileSystem().set_mtime(segment.path(LOG_SUFFIX), NOW_MS + 1_000 * (number + 1))
    broker.clock.now_ms = NOW_MS + 60_000
    return log


@played_by(play, "tmp_path", **{"segment.bytes": "200"})
async def test_version_0_shows_a_consumer_what_is_committed(broker: ReplicaBroker) -> None:
    await led_with_segments(broker)
    assert await begun_at(broker, LATEST) == [0, 0]  # the high watermark stands for all above it, as in Apache Kafka
    assert await begun_at(broker, LATEST, most=1) == [0]
    assert await begun_at(broker, LATEST, replica=2) == [2, 1, 0]
    broker.one.fetched(1)
    assert await begun_at(broker, LATEST) == [1, 1, 0]


@played_by(play, "tmp_path", **{"segment.bytes": "200"})
async def test_version_0_counts_a_segment_whose_files_are_not_made_yet(
    broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, unmade = OsFileSystem.stat, set[str]()

    def before_it_is_made(filesystem: OsFileSystem, path: str) -> FileStat:
        if path in unmade:
            raise FileNotFoundError(errno.ENOENT, "not there", path)
        return stat(filesystem, path)

    log = await led_with_segments(broker)
    broker.one.fetched(2)
    log.writer.roll(log.offsets.next_offset, NOW_MS + 3_000)
    unmade.add(log.segments.active.path(LOG_SUFFIX))
    monkeypatch.setattr(OsFileSystem, "stat", before_it_is_made)
    assert await begun_at(broker, LATEST) == [2, 1, 0]
    assert await begun_at(broker, NOW_MS + 2_999) == [1, 0]
    assert await begun_at(broker, NOW_MS + 3_000) == [2, 1, 0]


@played_by(play, "tmp_path", **{"segment.bytes": "200"})
async def test_version_0_asks_the_disk_beside_the_loop(broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    stat, asked_in = OsFileSystem.stat, set[int]()

    def watched(filesystem: OsFileSystem, path: str) -> FileStat:
        asked_in.add(threading.get_ident())
        return stat(filesystem, path)

    await led_with_segments(broker)
    monkeypatch.setattr(OsFileSystem, "stat", watched)
    await begun_at(broker, LATEST)
    assert asked_in and threading.get_ident() not in asked_in


@played_by(play, "tmp_path", **{"segment.bytes": "200"})
async def test_version_0_tells_a_disk_that_does_not_answer(
    broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: OsFileSystem, path: str) -> FileStat:
        raise OSError(errno.EIO, "broken", path)

    await led_with_segments(broker)
    monkeypatch.setattr(OsFileSystem, "stat", broken)
    assert await listed(broker, LATEST, version=0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


@played_by(play, "tmp_path")
async def test_followers_answer_offsets_only_to_debugging_consumers(broker: ReplicaBroker) -> None:
    broker.one.follow(epoch=4)
    assert await listed(broker, LATEST) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert await listed(broker, LATEST, replica=-2) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(
    ("current", "asked", "answer"),
    [
        (5, 3, (ErrorCode.NONE, 3, 2)),
        (5, 4, (ErrorCode.NONE, 3, 2)),
        (5, 5, (ErrorCode.NONE, 5, 3)),
        (5, 6, (ErrorCode.NONE, -1, -1)),
        (4, 3, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        (6, 3, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    ],
)
@played_by(play, "tmp_path")
async def test_followers_learn_where_an_epoch_ends(
    broker: ReplicaBroker, current: int, asked: int, answer: tuple[ErrorCode, int, int]
) -> None:
    broker.one.lead(isr=(1, 2), epoch=3)
    await broker.one.append("a", "b")
    broker.one.lead(isr=(1, 2), epoch=5, partition_epoch=1)
    await broker.one.append("c")
    row = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=asked)
    request = OffsetForLeaderEpochRequest(replica_id=2, topics=[OffsetForLeaderTopic(topic="t", partitions=[row])])
    response = await broker.start(offset_for_leader_epoch, request, 4).now()
    found = response.topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == answer


def delete(broker: ReplicaBroker, offset: int, timeout_ms: int = 500) -> Answer:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]),
            DeleteRecordsTopic(name="none", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)]),
        ],
        timeout_ms=timeout_ms,
    )
    return broker.start(delete_records, request, 2)


async def outcome(answer: Answer) -> tuple[int, int] | None:
    response = await answer.now()
    if response is None:
        return None
    rows = {topic.name: topic.partitions[0] for topic in response.topics}
    assert rows["none"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return rows["t"].error_code, rows["t"].low_watermark


async def _led_by_all(broker: ReplicaBroker) -> int:
    broker.one.lead(isr=(1, 2), replicas=(1, 2))
    end = await broker.one.append("a", "b", "c")
    broker.one.fetched(end)
    return end


@played_by(play, "tmp_path")
async def test_deleting_waits_for_the_followers(broker: ReplicaBroker) -> None:
    end = await _led_by_all(broker)
    waiting = delete(broker, 2)
    assert await outcome(waiting) is None
    broker.one.fetched(end, start=2)
    assert await outcome(waiting) == (ErrorCode.NONE, 2)
    assert await outcome(delete(broker, 2)) == (ErrorCode.NONE, 2)


@played_by(play, "tmp_path")
async def test_deleting_does_not_wait_longer_than_asked(broker: ReplicaBroker) -> None:
    await _led_by_all(broker)
    waiting = delete(broker, 2, timeout_ms=500)
    assert await outcome(waiting) is None
    broker.wait(500)
    assert await outcome(waiting) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert broker.one.partition.waiters.deletions_count == 0
    assert broker.one.partition.log.log_start_offset == 2


@played_by(play, "tmp_path")
async def test_deleting_ends_with_the_leadership_and_leaves_nothing_when_its_client_does(broker: ReplicaBroker) -> None:
    await _led_by_all(broker)
    waiting, left = delete(broker, 2), delete(broker, 2)
    assert await outcome(waiting) is None
    await left.cancel()
    assert broker.one.partition.waiters.deletions_count == 1
    broker.one.follow(epoch=1, partition_epoch=1)
    assert await outcome(waiting) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@played_by(play, "tmp_path")
async def test_only_what_is_committed_may_be_deleted(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    await broker.one.append("a")
    assert await outcome(delete(broker, 1)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
