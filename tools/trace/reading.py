"""Reads ranges of many partitions as batches, to offsets that were their ends when the reading began.

Rules: a partition that cannot be read holds up no other: it is asked again when the others are done, and then noted with its
reason. What was deleted before it was read is noted, too, and the reading goes on behind it. At most `WINDOW` partitions are
asked for at a time, and at most `MAX_BYTES` of each leader.
Source: KIP-74, KIP-98; Kafka FetchCollector.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from client.admin.steps import KeyKind, Rows, Steps, by_topic, located, once, rows_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.records.any_format import iter_any_headers
from protocol.records.batch import BatchHeader
from protocol.records.invalid import InvalidBatch
from tools.cluster import Cluster
from tools.failures import told
from tools.group_lag import Key, offsets_of, offsets_since

WINDOW: Final = 32
MAX_BYTES: Final = 16 << 20
PARTITION_BYTES: Final = 2 << 20
_MAX_WAIT_MS: Final = 500
_CLOSED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(slots=True)
class Range:
    """Of one partition: the next offset that is read, and the end. `note` says what could not be read; `is_closed` is so
    because the user may not read the topic, or it does not exist any more."""

    at: int
    end: int
    note: str = ""
    is_closed: bool = False

    @property
    def is_done(self) -> bool:
        return self.at >= self.end


Batches = Callable[[Key, bytes, list[tuple[int, BatchHeader]]], None]
"""Is called with a partition, bytes, and positions and headers of the batches in them, markers and aborted ones among them."""


def fetched(
    positions: Mapping[Key, int], *, is_committed: bool = False, partition_bytes: int = PARTITION_BYTES
) -> Steps[dict[Key, PartitionData | KafkaError]]:
    """Return what the leaders have of partitions from these offsets on."""

    def request_of(keys: list[Key]) -> FetchRequest:
        topics = [
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=each, fetch_offset=positions[topic, each], partition_max_bytes=partition_bytes
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in by_topic(keys).items()
        ]
        return FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=int(is_committed),
            topics=topics,
        )

    def read(response: Any) -> Rows[Key, PartitionData]:
        for topic in response.responses:
            for row in topic.partitions:
                yield (topic.topic, row.partition_index), row.error_code, None, row

    return (yield from rows_of(positions, located(KeyKind.LEADER), request_of, read))


def ranges_of(keys: Collection[Key], since_ms: int | None = None) -> Steps[tuple[dict[Key, Range], list[Key]]]:
    """Return what there is of partitions now, with `since_ms` from the first record since then on; and those whose leaders do
    not tell. Raises Failure for one that does not tell its offset of a time."""
    first = yield from offsets_of(keys, EARLIEST)
    end = yield from offsets_of(
        [key for key in keys if first[key] is not None], LATEST
    )  # others are not waited for again
    known = [key for key in keys if end.get(key) is not None]
    since = {} if since_ms is None else (yield from offsets_since(known, since_ms))
    ranges: dict[Key, Range] = {}
    for key in known:
        start, behind = first[key] or 0, end[key] or 0
        if since_ms is not None:
            found = since[key]
            start = behind if found is None else max(found, start)
        ranges[key] = Range(start, behind)
    return ranges, [key for key in keys if key not in ranges]


@dataclass(slots=True)
class RangeReading:
    """Reads `ranges`, which it advances, and gives batches to `take`."""

    cluster: Cluster
    ranges: dict[Key, Range]
    take: Batches
    _queue: deque[Key] = field(init=False)
    _failed: dict[Key, KafkaError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queue = deque(key for key, row in self.ranges.items() if not row.is_done)

    @property
    def is_done(self) -> bool:
        return not self._queue and not self._failed

    def step(self) -> None:
        """Ask the leaders once. Raises KafkaError when no broker answers at all."""
        if not self._queue:
            self._again()
            return
        window = [self._queue.popleft() for _ in range(min(WINDOW, len(self._queue)))]
        for key, outcome in self.cluster.run(once(fetched({each: self.ranges[each].at for each in window}))).items():
            row = self.ranges[key]
            if isinstance(outcome, KafkaError):
                self._fail(key, outcome)
                continue
            self._take(key, row, outcome)
            if not row.is_done:
                self._queue.append(key)

    def _take(self, key: Key, row: Range, data: PartitionData) -> None:
        buffer = bytes(data.records or b"")
        batches: list[tuple[int, BatchHeader]] = []
        at = row.at
        try:
            for position, header in iter_any_headers(buffer):
                if header.last_offset >= at:
                    batches.append((position, header))
                    at = header.last_offset + 1
        except InvalidBatch as error:
            row.note, row.end = f"unreadable at offset {at}: {error}", at
        if batches:
            self.take(key, buffer, batches)
        row.at = at
        if not batches and not row.is_done and data.high_watermark <= row.at:
            row.note, row.end = f"the log ends at {data.high_watermark} now, and not any more at {row.end}", row.at

    def _fail(self, key: Key, error: KafkaError) -> None:
        row = self.ranges[key]
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            first = self.cluster.run(offsets_of([key], EARLIEST))[key]
            if first is None or first <= row.at:
                row.note, row.end = f"the log has no offset {row.at} any more", row.at
                return
            row.note = f"offsets {row.at} to {min(first, row.end) - 1} were deleted meanwhile"
            row.at = min(first, row.end)
            if not row.is_done:
                self._queue.append(key)
            return
        if error.code.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._failed[key] = error
        else:
            self._give_up(key, error)

    def _again(self) -> None:
        """Ask those again that have failed, and wait for them as long as for any answer."""
        positions = {key: self.ranges[key].at for key in self._failed}
        self._failed.clear()
        try:
            found = self.cluster.run(fetched(positions))
        except KafkaError as error:  # no broker answers at all
            found = dict.fromkeys(positions, error)
        for key, outcome in found.items():
            if isinstance(outcome, KafkaError):
                self._give_up(key, outcome)
                continue
            self._take(key, self.ranges[key], outcome)
            if not self.ranges[key].is_done:
                self._queue.append(key)

    def _give_up(self, key: Key, error: KafkaError) -> None:
        row = self.ranges[key]
        row.note, row.end = f"not read from offset {row.at} on: {told(error)}", row.at
        row.is_closed = error.code in _CLOSED
