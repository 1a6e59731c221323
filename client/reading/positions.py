"""Where each partition is read next, and what the answers to fetches mean for it. Pure.

A position is an offset with the leader epoch of the record before it. With each fetch goes the epoch of the leader that it is
meant for, so that no former leader answers it, and the epoch of the last record: a leader whose log does not have that one
says where the two part (KIP-320, in the form of KIP-595), and reading goes on there.

Rules: an answer counts only for the position that was asked about: a partition that was given up or moved meanwhile keeps its
own. Aborted and control batches give no records, and the position passes them.
Errors: KafkaError for what does not pass, and for a position that is gone where no reset is wanted.
Source: Kafka SubscriptionState, FetchCollector, CompletedFetch, OffsetFetcherUtils.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from client.committing import OffsetAndMetadata
from client.reading.committed import CommittedFilter
from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.batch import BatchHeader
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition

NO_EPOCH: Final = -1
MAX_DECOMPRESSED_BYTES: Final = 1 << 30


class Reset(Enum):
    """Where a partition is read without a committed offset, and behind one that is gone: the timestamps of ListOffsets."""

    EARLIEST = EARLIEST
    LATEST = LATEST
    NONE = 0
    """It is an error."""


class FetchedBatches(NamedTuple):
    """What a fetch brought of one partition. Records below `start` were not asked for. `batches` are the positions and
    headers of the batches in `buffer` that hold records for this reader; reading goes on at `next_offset`."""

    topic: str
    partition: int
    start: int
    next_offset: int
    buffer: bytes
    batches: list[tuple[int, BatchHeader]]
    log_start_offset: int
    end_offset: int
    """Behind the last record that may be read now."""

    def records(self, max_decompressed_bytes: int) -> list[ReadRecord]:
        """Raises InvalidBatch."""
        return [
            ReadRecord(self.topic, self.partition, header.partition_leader_epoch, record)
            for at, header in self.batches
            for record in iter_any_records(self.buffer, at, header, max_decompressed_bytes)
            if record.offset >= self.start
        ]


class ReadRecord(NamedTuple):
    topic: str
    partition: int
    leader_epoch: int
    record: Record


@dataclass(eq=False, slots=True)
class ReadPosition:
    """`offset` is None until it is looked up."""

    offset: int | None
    leader_epoch: int = NO_EPOCH


@dataclass(slots=True)
class Positions:
    """The partitions of one reader. `is_committed`: only records of committed transactions are read."""

    reset: Reset = Reset.EARLIEST
    is_committed: bool = True
    max_partition_bytes: int = 1 << 20
    _positions: dict[TopicPartition, ReadPosition] = field(default_factory=dict)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        return self._positions.keys()

    def assign(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Read these, too. Raises KafkaError for one without an offset where no reset is wanted."""
        for key, found in offsets.items():
            if found is None and self.reset is Reset.NONE:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{key[0]}-{key[1]} has no committed offset")
            self._positions[key] = (
                ReadPosition(None) if found is None else ReadPosition(found.offset, found.leader_epoch)
            )

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        for key in partitions:
            self._positions.pop(key, None)

    def offset(self, key: TopicPartition) -> OffsetAndMetadata | None:
        """Return what to commit of a partition; None while it is not known."""
        found = self._positions.get(key)
        return None if found is None or found.offset is None else OffsetAndMetadata(found.offset, found.leader_epoch)

    def unknown(self) -> list[TopicPartition]:
        """Return the partitions whose offset is to be looked up."""
        return [key for key, position in self._positions.items() if position.offset is None]

    # --- requests ---

    def fetch_request(
        self, keys: Collection[TopicPartition], epochs: Mapping[TopicPartition, int], max_wait_ms: int, max_bytes: int
    ) -> tuple[FetchRequest, dict[TopicPartition, int]]:
        """Return a fetch of partitions with the positions that it is about. `epochs` are those of their leaders."""
        topics: dict[str, list[FetchPartition]] = {}
        asked: dict[TopicPartition, int] = {}
        for key in keys:
            position = self._positions[key]
            if position.offset is None:
                continue
            asked[key] = position.offset
            row = FetchPartition(
                partition=key[1],
                current_leader_epoch=epochs.get(key, NO_EPOCH),
                fetch_offset=position.offset,
                last_fetched_epoch=position.leader_epoch,
                partition_max_bytes=self.max_partition_bytes,
            )
            topics.setdefault(key[0], []).append(row)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(self.is_committed),
            topics=[FetchTopic(topic=name, partitions=rows) for name, rows in topics.items()],
        )
        return request, asked

    def lookup_request(
        self, keys: Collection[TopicPartition], epochs: Mapping[TopicPartition, int]
    ) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, partition in keys:
            row = ListOffsetsPartition(
                partition_index=partition,
                current_leader_epoch=epochs.get((topic, partition), NO_EPOCH),
                timestamp=self.reset.value,
            )
            topics.setdefault(topic, []).append(row)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(self.is_committed),
            topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

    # --- answers ---

    def looked_up(self, key: TopicPartition, row: ListOffsetsPartitionResponse) -> bool:
        """Take where a partition begins or ends; return whether the leader is to be looked for. Raises KafkaError."""
        position = self._positions.get(key)
        if row.error_code:
            return self._must_find_leader(key, ErrorCode.of(row.error_code))
        if position is not None and position.offset is None:
            position.offset, position.leader_epoch = row.offset, NO_EPOCH
        return False

    def fetched(self, key: TopicPartition, offset: int, row: PartitionData) -> tuple[FetchedBatches | None, bool]:
        """Take the answer to a fetch at `offset`; return what it brought, and whether the leader is to be looked for. Raises
        KafkaError, InvalidBatch."""
        position = self._positions.get(key)
        if position is None or position.offset != offset:
            return None, False
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._lose(key, position)
            return None, False
        if row.error_code:
            return None, self._must_find_leader(key, ErrorCode.of(row.error_code))
        if row.diverging_epoch.end_offset >= 0:
            if self.reset is Reset.NONE:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{key[0]}-{key[1]} lost records before {offset}")
            position.offset = min(offset, row.diverging_epoch.end_offset)
            position.leader_epoch = row.diverging_epoch.epoch
            return None, False
        return self._batches(key, position, row), False

    def _batches(self, key: TopicPartition, position: ReadPosition, row: PartitionData) -> FetchedBatches:
        """Return what is new in a fetch, and set the position behind it."""
        buffer = bytes(row.records or b"")
        aborted = [(each.first_offset, each.producer_id) for each in row.aborted_transactions or ()]
        kept = CommittedFilter(aborted if self.is_committed else ())
        assert position.offset is not None
        start = position.offset
        batches: list[tuple[int, BatchHeader]] = []
        for at, header in iter_any_headers(buffer):
            if kept.keeps(buffer, at, header):
                batches.append((at, header))
            if header.last_offset >= position.offset:
                position.offset, position.leader_epoch = header.last_offset + 1, header.partition_leader_epoch
        end = row.last_stable_offset if self.is_committed else row.high_watermark
        return FetchedBatches(*key, start, position.offset, buffer, batches, row.log_start_offset, end)

    def _lose(self, key: TopicPartition, position: ReadPosition) -> None:
        if self.reset is Reset.NONE:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{key[0]}-{key[1]} has no offset {position.offset}")
        position.offset, position.leader_epoch = None, NO_EPOCH

    @staticmethod
    def _must_find_leader(key: TopicPartition, code: ErrorCode) -> bool:
        remedy = remedy_of(code)
        if remedy is Remedy.FAIL:
            raise KafkaError(code, f"{key[0]}-{key[1]}: {code.message}")
        return remedy is Remedy.REFRESH_METADATA or code is ErrorCode.UNKNOWN_LEADER_EPOCH
