"""WriteTxnMarkers (key 27): a transaction coordinator, of this broker or another, ends transactions in partitions led here.

Behaviour: every marker names a producer, how its transaction ended, and where it wrote. A partition answers NONE when every
in-sync replica has its marker, INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED to a sender that others have
overtaken, UNKNOWN_TOPIC_OR_PARTITION when it is not held here or its log directory is offline, REQUEST_TIMED_OUT when the
replicas take longer than `request.timeout.ms`. A marker may come again: a transaction that has ended does so once more, to no
effect. In `__consumer_offsets` the end of a transaction is also that of its offset commits.
Answers are by producer: of two markers of one producer the later one's answer about a partition counts.
Source: KIP-98; Kafka KafkaApis.handleWriteTxnMarkersRequest, MemoryRecords.withEndTransactionMarker.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from coordinator.group_coordinator import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.topic_partition import TopicPartition
from replication.delayed_operation import DelayedOperation
from storage.log.partition_log import AppendOrigin

ALL_REPLICAS = -1


@handles(WriteTxnMarkersRequest)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    writing = _Writing(context)
    with writing.replicas:
        await writing.append_all(request.markers)
        await writing.wait()
    return writing.response()


class _Written(NamedTuple):
    """A marker in a log, and the rows of its producer."""

    marker: WritableTxnMarker
    place: TopicPartition
    errors: dict[TopicPartition, ErrorCode]


class _Writing:
    """One request from its first append to its answer."""

    def __init__(self, context: RequestContext) -> None:
        self._services = context.services
        self._now_ms = context.services.clock.wall_ms()
        self._errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
        self.replicas = DelayedOperation[_Written](lambda wait, error: self._on_outcome(wait.subject, error))

    async def append_all(self, markers: list[WritableTxnMarker]) -> None:
        rows = sum(len(topic.partition_indexes) for marker in markers for topic in marker.topics)
        async with self._services.serial_queue.begin(rows) as slices:
            for marker in markers:
                if not any(topic.partition_indexes for topic in marker.topics):
                    continue
                errors = self._errors.setdefault(marker.producer_id, {})
                # A partition that is named twice gets one marker.
                places = dict.fromkeys(
                    (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
                )
                async for place in slices.over(places):
                    try:
                        self._append(marker, place, errors)
                    except KafkaError as error:
                        errors[place] = error.code

    def _append(
        self, marker: WritableTxnMarker, place: TopicPartition, errors: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Write one marker; its row says REQUEST_TIMED_OUT until the replicas have it. Raises KafkaError."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A marker needs a producer with an epoch.")
        partition = self._services.partitions.find(*place)
        if partition is None or partition.log.failure is not None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{place[0]}-{place[1]} is not held here.")
        end = EndTxnMarker(
            ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
            marker.coordinator_epoch,
            self._now_ms,
        )
        batch = encode_marker(end, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch)
        result = partition.append(
            bytearray(batch), origin=AppendOrigin.COORDINATOR, acks=ALL_REPLICAS, now_ms=self._now_ms
        )
        end_offset = result.last_offset + 1
        written = _Written(marker, place, errors)
        if partition.is_committed(end_offset):
            self._on_outcome(written, ErrorCode.NONE)
        else:
            errors[place] = ErrorCode.REQUEST_TIMED_OUT  # rows come in the order of the request
            self.replicas.wait_until_committed(partition, end_offset, written)

    async def wait(self) -> None:
        """Return when the replicas have every marker, or at the end of the time."""
        await self.replicas.completed(self._services.timer, self._services.settings.request_timeout_ms)

    def _on_outcome(self, written: _Written, error: ErrorCode) -> None:
        marker, (topic, index), errors = written
        errors[topic, index] = error
        if error is ErrorCode.NONE and topic == GROUP_METADATA_TOPIC:
            self._services.groups.on_transaction_ended(index, marker.producer_id, committed=marker.transaction_result)

    def response(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(errors))
                for producer_id, errors in self._errors.items()
            ]
        )


def _topics(errors: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), error in errors.items():
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
    return [WritableTxnMarkerTopicResult(name=name, partitions=rows) for name, rows in topics.items()]
