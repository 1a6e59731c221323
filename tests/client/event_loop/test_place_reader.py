"""Reading records by their places: leaders side by side, what cannot be read now, and what is gone."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from client.cluster_view import ClusterView
from client.event_loop.place_reader import BACKOFF, PlaceReader
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition
from tests.async_tests import simulated

A, B, C = ("t", 0), ("t", 1), ("u", 0)
E = ErrorCode


def record(offset: int, value: bytes = b"v") -> Record:
    return Record(offset, 5, None, value)


class Cluster:
    """Brokers that lead the partitions of `leaders`. `codes`: the errors of partitions; brokers in `silent` do not answer,
    those in `down` refuse."""

    def __init__(self, logs: dict[TopicPartition, list[Record]], leaders: dict[TopicPartition, int]) -> None:
        self.view = ClusterView()
        self.leaders = leaders
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.silent: set[int] = set()
        self.down: set[int] = set()
        self.forgotten: list[str] = []
        self.fetches: list[tuple[int, list[TopicPartition]]] = []
        self.space_bytes = 1 << 20
        self.starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.batches = {
            key: [(each.offset, encode_batch([each], base_offset=each.offset)) for each in log]
            for key, log in logs.items()
        }

    def leader_of(self, key: TopicPartition) -> int | None:
        return self.leaders.get(key)

    def leader_epoch(self, key: TopicPartition) -> int:
        return 7

    def forget_topics(self, topics: list[str]) -> None:
        self.forgotten += topics

    async def send(self, broker: int, request: Any, response_type: type[Any], **_: object) -> Any:
        await asyncio.sleep(3600.0 if broker in self.silent else 0.001)
        if broker in self.down:
            raise ConnectionError("refused")
        if isinstance(request, ListOffsetsRequest):
            topic, row = request.topics[0].name, request.topics[0].partitions[0]
            assert row.current_leader_epoch == 7
            answer = ListOffsetsPartitionResponse(
                partition_index=row.partition_index, error_code=0, offset=self.starts[topic, row.partition_index]
            )
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic, partitions=[answer])])
        return self._fetched(broker, request)

    def _fetched(self, broker: int, request: FetchRequest) -> FetchResponse:
        self.fetches.append(
            (broker, [(topic.topic, row.partition) for topic in request.topics for row in topic.partitions])
        )
        space_bytes, topics, is_first = self.space_bytes, [], True
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                key = (topic.topic, row.partition)
                assert row.current_leader_epoch == 7 and request.isolation_level == 0
                log, high = self.batches[key], self.high_watermarks.get(key)
                end = log[-1][0] + 1 if log else 0
                code = self.codes.get(key, E.NONE)
                if not self.starts.get(key, 0) <= row.fetch_offset <= end:
                    code = E.OFFSET_OUT_OF_RANGE
                high = end if high is None else high
                content = b"".join(each for offset, each in log if row.fetch_offset <= offset < high)
                size_bytes = min(space_bytes, row.partition_max_bytes)
                if is_first and content:
                    size_bytes = max(size_bytes, 12 + int.from_bytes(content[8:12], "big"))
                content = b"" if code else content[:size_bytes]
                is_first, space_bytes = is_first and not content, max(space_bytes - len(content), 0)
                rows.append(
                    PartitionData(partition_index=key[1], error_code=code, high_watermark=high, records=content)
                )
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=rows))
        return FetchResponse(responses=topics)


def reader_of(cluster: Cluster) -> PlaceReader:
    return PlaceReader(cluster, Random(1))  # type: ignore[arg-type]


def three(count: int = 10) -> Cluster:
    logs = {key: [record(offset) for offset in range(count)] for key in (A, B, C)}
    return Cluster(logs, {A: 1, B: 1, C: 2})


@simulated(1)
async def test_all_partitions_of_a_leader_are_asked_in_one_request() -> None:
    cluster = three()
    reader = reader_of(cluster)
    found = await reader.read({A: [0, 1, 9], B: [3], C: []}, 1 << 20)
    assert found == {(*A, 0): record(0), (*A, 1): record(1), (*A, 9): record(9), (*B, 3): record(3)}
    assert cluster.fetches == [(1, [A, B])] and not reader.troubles
    assert await reader.read({}, 1 << 20) == {}
    await reader.close()


@simulated(1)
async def test_a_batch_that_does_not_fit_behind_others_comes_when_its_partition_is_first() -> None:
    large = record(0, b"x" * 5_000)
    cluster = Cluster({A: [large], B: [large], C: [large]}, {A: 1, B: 1, C: 1})
    cluster.space_bytes = 100
    reader = reader_of(cluster)
    assert await reader.read({A: [0], B: [0], C: [0]}, 1 << 20) == {(*each, 0): large for each in (A, B, C)}
    assert len(cluster.fetches) == 3
    await reader.close()


@simulated(1)
async def test_a_read_ends_behind_its_budget_and_the_rest_comes_with_the_next() -> None:
    cluster = Cluster({A: [record(each, b"x" * 30_000) for each in range(100)]}, {A: 1})
    reader, left, rounds = reader_of(cluster), set(range(100)), 0
    while left:
        found = await reader.read({A: sorted(left)}, 100_000)
        assert found
        left -= {offset for _, _, offset in found}
        rounds += 1
    assert rounds > 1
    await reader.close()


@simulated(1)
async def test_a_leader_that_does_not_answer_delays_no_other() -> None:
    cluster = three()
    cluster.silent.add(2)
    reader, loop = reader_of(cluster), asyncio.get_running_loop()
    assert await reader.read({A: [1], C: [1]}, 1 << 20, timeout_ms=200) == {(*A, 1): record(1)}
    began_s = loop.time()
    assert await reader.read({B: [2], C: [1, 2]}, 1 << 20, timeout_ms=200) == {(*B, 2): record(2)}
    assert loop.time() - began_s < 0.1, "who was silent before is not waited for"
    found = await reader.read({C: [1, 3]}, 1 << 20, timeout_ms=3_600_000)
    assert found == {(*C, 1): record(1)}, "what was asked for before, and is still wanted"
    await reader.close()


@simulated(1)
async def test_what_cannot_be_read_now_is_asked_again_behind_a_pause_and_says_why() -> None:
    cluster = three()
    cluster.codes[A] = E.NOT_LEADER_OR_FOLLOWER
    cluster.high_watermarks[B] = 4
    cluster.down.add(2)
    reader = reader_of(cluster)
    places = {A: [1], B: [3, 4], C: [1], ("v", 0): [1]}
    assert await reader.read(places, 1 << 20) == {(*B, 3): record(3)}
    codes = {key: each.code for key, each in reader.troubles.items() if isinstance(each, KafkaError)}
    assert codes == {A: E.NOT_LEADER_OR_FOLLOWER, B: E.OFFSET_NOT_AVAILABLE, ("v", 0): E.LEADER_NOT_AVAILABLE}
    assert isinstance(reader.troubles[C], ConnectionError)
    assert cluster.forgotten == ["t"]
    cluster.codes.clear()
    cluster.down.clear()
    cluster.leaders["v", 0] = 1
    cluster.batches["v", 0] = cluster.batches[A]
    cluster.high_watermarks.clear()
    fetches_count = len(cluster.fetches)
    assert await reader.read(places, 1 << 20, timeout_ms=0) == {}
    assert len(cluster.fetches) == fetches_count, "not before the pause is over"
    await asyncio.sleep(BACKOFF.most_ms / 1000)
    assert len(await reader.read(places, 1 << 20)) == 5
    assert not reader.troubles
    await reader.close()


@simulated(1)
async def test_what_a_partition_has_no_more_is_none() -> None:
    cluster = three()
    cluster.starts |= {A: 5, B: 0}
    cluster.batches[C] = cluster.batches[C][:3] + cluster.batches[C][5:6]
    reader = reader_of(cluster)
    found = await reader.read({A: [1, 4, 6], B: [2, 70], C: [3, 5]}, 1 << 20)
    expected = {
        (*A, 1): None, (*A, 4): None, (*A, 6): record(6), (*B, 2): record(2), (*B, 70): None,
        (*C, 3): None, (*C, 5): record(5),
    }  # fmt: skip
    assert found == expected
    cluster.batches[C] = []
    cluster.high_watermarks[C] = 9
    cluster.starts[C] = -1  # a log whose end was compacted away: nothing is there, though its end is not reached
    cluster._fetched = lambda *_: FetchResponse(  # type: ignore[method-assign]
        responses=[
            FetchableTopicResponse(
                topic="u", partitions=[PartitionData(partition_index=0, error_code=0, high_watermark=9, records=b"")]
            )
        ]
    )
    assert await reader.read({C: [3]}, 1 << 20) == {(*C, 3): None}
    await reader.close()
