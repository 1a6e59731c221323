"""One fetch of one partition, as read_committed or not, with everything checked that its response says."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.topic_partition import TopicPartition
from tests.simulation.line import Line
from tests.simulation.transactions.records import ReadRecord, committed_records, read_records
from tests.simulation.transactions.scene import Scene

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_VERSION = 12


@dataclass(frozen=True, slots=True)
class Fetched:
    """`records` are (offset, value) from the position that was asked for; the next fetch is at `position`."""

    records: list[tuple[int, str]]
    position: int
    raw: list[ReadRecord]


async def fetch_committed(
    scene: Scene,
    line: Line,
    who: str,
    key: TopicPartition,
    position: int,
    *,
    max_wait_ms: int = 300,
    max_bytes: int = 5_000,
) -> Fetched | None:
    """Committed records from `position` on; None when the broker cannot say. Raises Unavailable."""
    return await _fetch(scene, line, who, key, position, READ_COMMITTED, max_wait_ms, max_bytes)


async def fetch_all(scene: Scene, line: Line, who: str, key: TopicPartition, position: int) -> Fetched | None:
    """All records and markers from `position` on. Raises Unavailable."""
    return await _fetch(scene, line, who, key, position, READ_UNCOMMITTED, 100, 100_000)


async def _fetch(
    scene: Scene,
    line: Line,
    who: str,
    key: TopicPartition,
    position: int,
    isolation: int,
    max_wait_ms: int,
    max_bytes: int,
) -> Fetched | None:
    world = scene.world
    row = FetchPartition(partition=key[1], fetch_offset=position, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=isolation,
        topics=[FetchTopic(topic=key[0], topic_id=world.topic_ids[key[0]], partitions=[row])],
    )
    floor = scene.stable_offsets.known(key)
    response = await line.call(request, _VERSION, FetchResponse)
    answer = response.responses[0].partitions[0]
    if answer.error_code != ErrorCode.NONE:
        if answer.error_code not in scene.retriable:
            world.report(f"{who}: fetch of {key} at {position} was answered {ErrorCode(answer.error_code)!r}")
        return None
    is_committed = isolation == READ_COMMITTED
    if not scene.in_cluster:
        scene.stable_offsets.on_offset(key, floor, answer.last_stable_offset, answer.high_watermark)
    content = bytes(answer.records or b"")
    raw, next_offset = read_records(content)
    if is_committed:
        scene.stable_offsets.on_records(who, key, next_offset, answer.last_stable_offset)
    chosen = committed_records(raw, answer.aborted_transactions or ()) if is_committed else raw
    records = [(each.offset, each.value) for each in chosen if each.marker is None and each.offset >= position]
    if is_committed:
        for offset, value in records:
            scene.aborted_reads.on_read(who, key, offset, value)
        world.count("committed records read", len(records))
        world.count("aborted records skipped", len([each for each in raw if each.marker is None]) - len(chosen))
    return Fetched(records, max(position, next_offset), [each for each in raw if each.offset >= position])


async def end_of_log(scene: Scene, line: Line, key: TopicPartition, isolation: int) -> int | None:
    """The high watermark, or the last stable offset; None when the broker cannot say. Raises Unavailable."""
    partitions = [ListOffsetsPartition(partition_index=key[1], timestamp=-1)]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=key[0], partitions=partitions)]
    )
    response = await line.call(request, 7, ListOffsetsResponse)
    row = response.topics[0].partitions[0]
    return row.offset if row.error_code == ErrorCode.NONE else None
