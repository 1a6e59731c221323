"""A model of a cluster that changes while lag is measured, and a checker that knows what each measure may say.

Between any two answers of a broker, records are written, groups commit and are set back, leaders change and do not answer,
new leaders do not know the high watermark yet, logs are cut from the start and the end, topics are deleted and created again,
groups move to another coordinator. A lag must be the distance from the commit that the round has read to an end that the
partition had during the round; it is unknown only if that end was, at some time of the round, not to be had; it is never
negative. An age must be that of the first record that is there at the committed offset or behind it, and 0 where none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from broker.cluster.group_lag import EARLIEST, GroupLag, MeasuredLag
from coordinator.group.offsets import CommittedOffset
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.records.batch import BatchHeader
from protocol.records.record import Record, empty_batch, encode_batch
from protocol.topic_partition import TopicPartition
from tests.doubles.clock import ManualClock

HERE = 1
BROKERS = (1, 2, 3)
NOBODY = -1
RECORD_MS = 10
LIFE_MS = 1_000_000
START_MS = 10**12


@lru_cache(maxsize=4096)
def batch_at(offset: int, life: int, is_marker: bool = False) -> bytes:
    record = Record(offset, timestamp_of(offset, life), None, b"")
    return bytes(encode_batch([record], base_offset=offset, is_control=is_marker))


def timestamp_of(offset: int, life: int) -> int:
    return life * LIFE_MS + offset * RECORD_MS


@dataclass
class ModelPartition:
    """`knows_end`: the leader's high watermark has reached the start of its epoch. `life` counts how often it was created.
    `compacted` are offsets whose records are gone; `emptied` are those of them whose batch is still there."""

    leader: int
    start: int = 0
    end: int = 0
    knows_end: bool = True
    life: int = 1
    markers: set[int] = field(default_factory=set)
    compacted: set[int] = field(default_factory=set)
    emptied: set[int] = field(default_factory=set)
    # Of the round that is under way: the leader at its start, all ends and starts that there were, and whether the end could
    # not be had at some time.
    first_leader: int = NOBODY
    ends: set[int] = field(default_factory=set)
    places: set[tuple[int, int]] = field(default_factory=set)
    was_dark: bool = False

    def batch_at(self, offset: int) -> bytes:
        """The batch of this offset, or the next one that is there."""
        while offset in self.compacted:
            offset += 1
        if offset >= self.end:
            return b""
        if offset in self.emptied:
            return empty_batch(BatchHeader(batch_at(offset, self.life)))
        return batch_at(offset, self.life, offset in self.markers)


@dataclass
class ModelLog:
    partition: ModelPartition

    @property
    def high_watermark(self) -> int:
        """A new leader may know a lower one than the leader before."""
        return self.partition.end if self.partition.knows_end else max(self.partition.end - 7, self.partition.start)

    @property
    def log_start_offset(self) -> int:
        return self.partition.start

    @property
    def reading(self) -> ModelLog:
        return self

    def read(self, offset: int, *, limit_offset: int, **_: Any) -> bytes | None:
        if not self.partition.start <= offset <= self.partition.end:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "")
        return self.partition.batch_at(offset) if offset < limit_offset else b""


class LagModel:
    """`run_round` measures once, with changes in between, and checks; `samples` counts the lags that were right. `changes` are
    made before and after each answer of a broker."""

    def __init__(self, seed: int, *, topics: int = 10, partitions: int = 10, groups: int = 10) -> None:
        self._random = Random(seed)
        self.clock = ManualClock(START_MS)
        self._unreachable: set[int] = set()
        self.partitions = {
            TopicPartition((f"t{topic}", index)): ModelPartition(self._random.choice(BROKERS))
            for topic in range(topics)
            for index in range(partitions)
        }
        self._keys = list(self.partitions)
        self._topics: dict[str, list[TopicPartition]] = {}
        for key in self._keys:
            self._topics.setdefault(key[0], []).append(key)
        self.groups: dict[str, dict[TopicPartition, CommittedOffset]] = {
            f"g{number}": {key: self._commit(0) for key in self._keys} for number in range(groups)
        }
        self._elsewhere: set[str] = set()
        self._read: dict[tuple[str, TopicPartition], int] = {}
        self.changes = 3
        self.samples = self.unknown = self.unknown_ages = 0
        image = SimpleNamespace(
            names_by_id={},
            brokers=dict.fromkeys(BROKERS),
            partition=lambda topic, index: self.partitions.get(TopicPartition((topic, index))),
            topic_id=self._topic_id,
        )
        self.lag = GroupLag(
            HERE,
            cast(Any, self),
            cast(Any, SimpleNamespace(find=self._find)),
            cast(Any, SimpleNamespace(image=image)),
            cast(Any, lambda broker_id: SimpleNamespace(send=lambda *given, **_: self._send(broker_id, *given))),
            version=cast(Any, SimpleNamespace(list_offsets=7, fetch=12)),
            clock=self.clock,
            tasks=cast(Any, None),
            interval_ms=10_000,
        )

    # --- what the broker's parts would answer ---

    def share_group_ids(self) -> list[str]:
        return []

    def committed_offsets(self) -> Iterator[tuple[str, dict[TopicPartition, CommittedOffset]]]:
        self._read.clear()
        for group, commits in self.groups.items():
            if group not in self._elsewhere:
                self._read.update({(group, key): commit.offset for key, commit in commits.items()})
                yield group, commits

    def coordinates(self, group_id: str) -> bool:
        return group_id not in self._elsewhere

    def _topic_id(self, topic: str) -> bytes:
        return b"%d" % self.partitions[self._topics[topic][0]].life

    def _find(self, topic: str, index: int) -> Any:
        partition = self.partitions[TopicPartition((topic, index))]
        if partition.leader != HERE:
            return None
        epoch_start = 0 if partition.knows_end else ModelLog(partition).high_watermark + 1
        return SimpleNamespace(leader=SimpleNamespace(epoch_start_offset=epoch_start), log=ModelLog(partition))

    async def _send(self, broker_id: int, request: Any, *_: Any) -> Any:
        self.change(self.changes)
        await asyncio.sleep(0)
        if broker_id in self._unreachable:
            raise ConnectionError("no answer")
        answer = self._offsets(broker_id, request) if isinstance(request, ListOffsetsRequest) else self._records(
            broker_id, request
        )  # fmt: skip
        await asyncio.sleep(0)
        self.change(self.changes)
        return answer

    def _offsets(self, broker_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                partition = self.partitions[TopicPartition((topic.name, asked.partition_index))]
                row = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=ErrorCode.NONE)
                if partition.leader != broker_id:
                    row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif asked.timestamp == EARLIEST:
                    row.offset = partition.start
                elif not partition.knows_end:
                    row.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
                else:
                    row.offset = partition.end
                rows.append(row)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _records(self, broker_id: int, request: FetchRequest) -> FetchResponse:
        [topic] = request.topics
        [asked] = topic.partitions
        partition = self.partitions[TopicPartition((topic.topic, asked.partition))]
        row = PartitionData(
            partition_index=asked.partition, error_code=ErrorCode.NONE, high_watermark=partition.end, records=b""
        )
        if partition.leader != broker_id:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not partition.start <= asked.fetch_offset <= partition.end:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif asked.fetch_offset < partition.end:
            row.records = partition.batch_at(asked.fetch_offset)
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[row])])

    # --- what happens meanwhile ---

    def change(self, times: int) -> None:
        random = self._random
        for _ in range(times):
            key = random.choice(self._keys)
            partition = self.partitions[key]
            match random.choices(range(9), (30, 30, 6, 8, 5, 3, 1, 2, 1))[0]:
                case 0:
                    partition.end += random.randrange(1, 50)
                case 1:
                    commits = random.choice(list(self.groups.values()))
                    commits[key] = self._commit(
                        random.choice((partition.end, random.randint(0, partition.end + 3), -1))
                    )
                case 2:
                    partition.leader = random.choice((*BROKERS * 3, NOBODY))
                    partition.knows_end = random.random() < 0.8
                case 3:
                    partition.knows_end = True
                case 4:  # retention, or DeleteRecords
                    partition.start = random.randint(partition.start, partition.end)
                case 5:  # an unclean election
                    partition.end = random.randint(partition.start, partition.end)
                case 6:
                    self._create_again(key[0])
                case 7:
                    self._unreachable = {random.choice(BROKERS[1:])} if random.random() < 0.2 else set()
                    for each in self._keys:
                        self._see(each)
                case _:
                    self._elsewhere ^= {random.choice(list(self.groups))}
            self._see(key)

    def _create_again(self, topic: str) -> None:
        """The coordinators forget the commits for a topic that is deleted."""
        for key in self._topics[topic]:
            partition = self.partitions[key]
            partition.start, partition.life = 0, partition.life + 1
            partition.end = self._random.randrange(5)
            partition.leader, partition.knows_end = self._random.choice(BROKERS), True
            for commits in self.groups.values():
                commits.pop(key, None)
            self._see(key)

    def _commit(self, offset: int) -> CommittedOffset:
        return CommittedOffset(offset, -1, "", self.clock.now_ms)

    def _is_dark(self, partition: ModelPartition) -> bool:
        return partition.leader == NOBODY or partition.leader in self._unreachable or not partition.knows_end

    def _see(self, key: TopicPartition) -> None:
        partition = self.partitions[key]
        partition.ends.add(partition.end)
        partition.places.add((partition.start, partition.life))
        # A leader that is asked, and is the leader no more when it answers, leaves the end unknown as well.
        partition.was_dark |= self._is_dark(partition) or partition.leader != partition.first_leader

    # --- rounds ---

    async def run_round(self) -> None:
        """Raises AssertionError for a measure that must not be."""
        for key, partition in self.partitions.items():
            partition.ends, partition.places, partition.was_dark = set(), set(), False
            partition.first_leader = partition.leader
            self._see(key)
        await self.lag.measure()
        lags, statuses = self.lag.latest()
        expected = {key for key, offset in self._read.items() if offset >= 0 and self.coordinates(key[0])}
        assert {(each.group_id, each.topic_partition) for each in lags} == expected
        assert len(lags) == len(expected)
        assert set(statuses) == {group for group, _ in expected}
        for each in lags:
            self._check(each)
        self.clock.now_ms += 10_000
        self.change(self._random.randrange(200))

    def _check(self, found: MeasuredLag) -> None:
        partition = self.partitions[found.topic_partition]
        commit = self._read[found.group_id, found.topic_partition]
        self.samples += 1
        if found.lag is None:
            self.unknown += 1
            assert partition.was_dark, (found, partition)
            assert found.age_ms is None
            return
        assert found.lag >= 0
        assert found.lag in {max(end - commit, 0) for end in partition.ends}, (found, commit, partition)
        if not found.lag:
            assert found.age_ms == 0
        elif found.age_ms is None:
            self.unknown_ages += 1
            is_quiet = len(partition.places) == len(partition.ends) == 1 and not partition.was_dark
            has_record = max(commit, partition.start) < partition.end
            assert not (partition.leader == HERE and is_quiet and has_record), (found, commit, partition)
        else:
            now_ms = self.clock.now_ms
            starts, lives = {start for start, _ in partition.places}, {life for _, life in partition.places}
            is_empty = any(start >= end for start in starts for end in partition.ends)
            allowed = {0} if is_empty else set()
            allowed |= {now_ms - timestamp_of(max(commit, start), life) for start in starts for life in lives}
            assert found.age_ms in allowed, (found, commit, partition)


def run(seed: int, samples: int) -> LagModel:
    """Measure until so many samples were right."""
    model = LagModel(seed)

    async def rounds() -> None:
        while model.samples < samples:
            await model.run_round()

    asyncio.run(rounds())
    return model
