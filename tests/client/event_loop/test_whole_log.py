"""Reading logs whole: several side by side, and nothing is fetched or waited for where nothing is to be read."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from client.event_loop.whole_log import read_whole
from client.reading.positions import ReadRecord
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.list_offsets import LATEST
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition
from tests.async_tests import simulated

A, B, C = ("t", 0), ("t", 1), ("t", 2)


class Cluster:
    """One broker. `logs`: first offset, end, and the offsets that have a record."""

    def __init__(self, logs: dict[TopicPartition, tuple[int, int, list[int]]]) -> None:
        self.logs = logs
        self.fetched: list[list[tuple[int, int]]] = []
        self.error: KafkaError | None = None

    async def run(self, steps: Any) -> dict[TopicPartition, int | KafkaError]:
        times = steps.gi_frame.f_locals["times"]
        steps.close()
        return {key: self.error or self.logs[key][time == LATEST] for key, time in times.items()}

    def leader_of(self, key: TopicPartition) -> int:
        return 1

    def leader_epoch(self, key: TopicPartition) -> int:
        return 0

    async def send(self, broker: int, request: FetchRequest, response_type: type[Any], *, lane: int) -> FetchResponse:
        asked = [(row.partition, row.fetch_offset) for row in request.topics[0].partitions]
        self.fetched.append(asked)
        rows = []
        for partition, at in asked:
            _, end, offsets = self.logs["t", partition]
            found = [
                encode_batch([Record(0, 0, None, b"%d" % each)], base_offset=each) for each in offsets if each >= at
            ]
            rows.append(
                PartitionData(
                    partition_index=partition, error_code=0, high_watermark=end, last_stable_offset=end,
                    records=b"".join(found[:2]),
                )
            )  # fmt: skip
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])


async def whole(
    cluster: Cluster, starts: dict[TopicPartition, int | None]
) -> tuple[dict[TopicPartition, int], list[Any]]:
    taken: list[Any] = []

    def take(records: list[ReadRecord]) -> None:
        taken.extend((each.partition, each.record.offset) for each in records)

    return await read_whole(cluster, Random(1), starts, take), taken  # type: ignore[arg-type]


@simulated(1)
async def test_partitions_are_read_side_by_side_from_their_starts_to_their_ends() -> None:
    cluster = Cluster({A: (0, 5, [0, 1, 2, 3, 4]), B: (7, 9, [7, 8]), C: (0, 4, [0, 1, 2, 3])})
    ends, taken = await whole(cluster, {A: None, B: 2, C: 3})
    assert ends == {A: 5, B: 9, C: 4}
    assert sorted(taken) == [*((0, each) for each in range(5)), (1, 7), (1, 8), (2, 3)]
    assert cluster.fetched[0] == [(0, 0), (1, 7), (2, 3)]
    assert cluster.fetched[1:] == [[(0, 2)], [(0, 4)]], "what is read to its end is not fetched any more"


@simulated(1)
async def test_nothing_is_fetched_where_nothing_is_to_be_read() -> None:
    cluster = Cluster({A: (0, 0, []), B: (5, 5, []), C: (0, 4, [0])})
    assert await whole(cluster, {A: None, B: None, C: 4}) == ({A: 0, B: 5, C: 4}, [])
    assert not cluster.fetched
    assert await whole(cluster, {}) == ({}, [])


@simulated(1)
async def test_the_end_of_a_log_may_have_been_compacted_away() -> None:
    cluster = Cluster({A: (0, 9, [0, 1, 2]), B: (0, 9, [4]), C: (0, 3, [0, 1, 2])})
    assert (await whole(cluster, {A: None, B: None, C: None}))[0] == {A: 3, B: 5, C: 3}


@simulated(1)
async def test_what_does_not_pass_is_raised() -> None:
    cluster = Cluster({A: (0, 1, [0])})
    cluster.error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        await whole(cluster, {A: None})
