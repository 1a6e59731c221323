"""Writes the markers that end transactions into partitions led here, and waits until the replicas have them.

A coordinator of another broker reaches it through WriteTxnMarkers, this broker's own coordinator in process.
Rules: a partition that is named twice for a marker gets it once. A marker may come again: a transaction that has ended
does so once more, to no effect. Of two markers of one producer, the later one's error about a partition counts.
Source: KIP-98, KIP-890; Kafka KafkaApis.handleWriteTxnMarkersRequest, MemoryRecords.withEndTransactionMarker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.write_txn_markers import WritableTxnMarker
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import EPOCH_BUMPS
from replication.waiting.delayed_operation import DelayedOperation

if TYPE_CHECKING:
    from replication.partitions import Partitions
    from runtime.clock import Clock
    from runtime.slices import SerialQueue
    from runtime.timer import Timer

ALL_REPLICAS = -1

MarkerErrors = dict[int, dict[TopicPartition, ErrorCode]]
OnMarkerCommitted = Callable[[TopicPartition, WritableTxnMarker], None]


class _WrittenMarker(NamedTuple):
    """The partition of a marker in a log, and the errors of its producer."""

    partition: TopicPartition
    errors: dict[TopicPartition, ErrorCode]


class MarkerAppender:
    """Owned by the broker. `on_committed` is called for each marker in `observed_topic` that is committed, in the order of the
    log, also when the request that brought it is over by then: its sender may never repeat it."""

    def __init__(
        self,
        partitions: Partitions,
        on_committed: OnMarkerCommitted,
        *,
        observed_topic: str,
        clock: Clock,
        timer: Timer,
        serial_queue: SerialQueue,
        timeout_ms: int,
    ) -> None:
        self._partitions = partitions
        self._on_committed = on_committed
        self._observed_topic = observed_topic
        self._clock = clock
        self._timer = timer
        self._serial_queue = serial_queue
        self._timeout_ms = timeout_ms

    async def append(self, markers: Sequence[WritableTxnMarker]) -> MarkerErrors:
        """Write the markers, and return each partition's error by producer id, in the order of `markers`.

        NONE: every in-sync replica has it. INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED: others have overtaken
        the sender. UNKNOWN_TOPIC_OR_PARTITION: the partition is not on this broker, or its log directory is offline.
        REQUEST_TIMED_OUT: the replicas take longer than `timeout_ms`.
        """
        writing = _MarkerAppend(self._partitions, self._on_committed, self._observed_topic, self._clock.wall_ms())
        with writing.replicas:
            await writing.append_all(markers, self._serial_queue)
            await writing.replicas.completed(self._timer, self._timeout_ms)
        return writing.errors


class _MarkerAppend:
    """One request from its first append to its response."""

    def __init__(
        self, partitions: Partitions, on_committed: OnMarkerCommitted, observed_topic: str, now_ms: int
    ) -> None:
        self._partitions = partitions
        self._on_committed = on_committed
        self._observed_topic = observed_topic
        self._now_ms = now_ms
        self.errors: MarkerErrors = {}
        self.replicas = DelayedOperation[_WrittenMarker](lambda wait, error: self._on_outcome(wait.subject, error))

    async def append_all(self, markers: Sequence[WritableTxnMarker], serial_queue: SerialQueue) -> None:
        rows = sum(len(topic.partition_indexes) for marker in markers for topic in marker.topics)
        async with serial_queue.begin(rows) as slices:
            for marker in markers:
                if not any(topic.partition_indexes for topic in marker.topics):
                    continue
                errors = self.errors.setdefault(marker.producer_id, {})
                named = dict.fromkeys(
                    (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
                )
                async for partition in slices.over(named):
                    try:
                        self._append(marker, partition, errors)
                    except KafkaError as error:
                        errors[partition] = error.code

    def _append(
        self, marker: WritableTxnMarker, named: TopicPartition, errors: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Write one marker; its error is REQUEST_TIMED_OUT until the replicas have it. Raises KafkaError."""
        if marker.producer_id < 0 or marker.producer_epoch < 0 or marker.transaction_version < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A marker needs a producer with an epoch, and a version.")
        partition = self._partitions.find(*named)
        if partition is None or partition.log.failure is not None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{named[0]}-{named[1]} is not on this broker.")
        if marker.transaction_version >= EPOCH_BUMPS:
            partition.check_marker_epoch(marker.producer_id, marker.producer_epoch)
        end = EndTxnMarker(
            ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
            marker.coordinator_epoch,
            self._now_ms,
        )
        batch = encode_marker(end, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch)
        result = partition.append_own(bytearray(batch), acks=ALL_REPLICAS, now_ms=self._now_ms)
        end_offset = result.last_offset + 1
        written = _WrittenMarker(named, errors)
        if partition.is_committed(end_offset):
            self._report(named, marker, ErrorCode.NONE)
            errors[named] = ErrorCode.NONE
        else:
            if named[0] == self._observed_topic:
                partition.own_waiters().when_committed(end_offset, partial(self._report, named, marker))
            errors[named] = ErrorCode.REQUEST_TIMED_OUT  # rows come in the order of the request
            self.replicas.wait_until_committed(partition, end_offset, written)

    def _on_outcome(self, written: _WrittenMarker, error: ErrorCode) -> None:
        written.errors[written.partition] = error

    def _report(self, named: TopicPartition, marker: WritableTxnMarker, error: ErrorCode) -> None:
        """The marker is committed, or lost with the leadership."""
        if error is ErrorCode.NONE and named[0] == self._observed_topic:
            self._on_committed(named, marker)
