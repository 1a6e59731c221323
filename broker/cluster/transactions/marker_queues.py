"""Which transaction markers go to which broker, and what a response means for them. Pure.

    add      the markers of one transaction are put into the queue of each partition's leader
    take     the queue of a broker becomes its request in flight
    on_response, on_lost   each partition of that request is done, retried later, or ends its transaction as fenced

Rules: one request in flight per broker, so that markers reach a partition in the order in which they were queued. A partition
whose leader is unknown or not alive waits for the next image; a refused one waits for the next `reroute`. A partition that
the image does not have is deleted, and needs no marker. But a broker that has just started becomes a coordinator before it
receives its first image with topics: no partition counts as deleted until the image has `__transaction_state` itself. A newer
request for the same transactional id replaces the older one.
Invariants: each partition that has no marker yet is in exactly one place: a queue, a request in flight, or waiting.
A transaction gets one outcome, or is forgotten without one.
Source: Kafka TransactionMarkerChannelManager, TxnMarkerQueue, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
from metadata.image import TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from metadata.image import ClusterImage

# More partitions than this go in the next request: a broker refuses requests with very long arrays.
PARTITIONS_PER_REQUEST = 10_000

ErrorsByProducer = Mapping[int, Mapping[TopicPartition, ErrorCode]]
"""The error codes of a broker's response, by producer id and partition."""


class Verdict(Enum):
    """What one partition's error code means for its marker."""

    DONE = "done"
    RETRY = "retry"
    FENCED = "fenced"


_VERDICTS = {
    ErrorCode.NONE: Verdict.DONE,
    # The log does not support transactions: the producer has written nothing there.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Verdict.DONE,
    ErrorCode.UNSUPPORTED_VERSION: Verdict.DONE,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Verdict.FENCED,
}
EXPECTED_RETRIES = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Transient errors. All others are retried as well, because an open transaction blocks its readers, but they are logged."""


def verdict_of(error: ErrorCode) -> Verdict:
    """Return what `error`, returned for a partition, means for its marker."""
    return _VERDICTS.get(error, Verdict.RETRY)


@dataclass(eq=False, slots=True)
class PendingMarkers:
    """A transaction whose markers are being written. `done` belongs to the caller and is not called here."""

    markers: TransactionMarkers
    done: Callable[[MarkerOutcome], None]
    remaining: set[TopicPartition]
    is_forgotten: bool = False


@dataclass(frozen=True, slots=True)
class MarkerEntry:
    """The part of a transaction that goes to one broker."""

    pending: PendingMarkers
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class ResponseSummary:
    """The partitions of a response that are to be retried, by their error."""

    retried: dict[ErrorCode, list[TopicPartition]] = field(default_factory=dict)


_Places = dict[PendingMarkers, dict[TopicPartition, None]]


class MarkerQueues:
    """The state of one broker's marker writer. After each change the caller calls `next_ended` until it returns None."""

    def __init__(self, partitions_per_request: int = PARTITIONS_PER_REQUEST) -> None:
        self._partitions_per_request = partitions_per_request
        self._by_id: dict[str, PendingMarkers] = {}
        self._queues: dict[int, _Places] = {}
        self._in_flight: dict[int, list[MarkerEntry]] = {}
        self._unknown: _Places = {}
        self._refused: _Places = {}
        self._ended: deque[tuple[PendingMarkers, MarkerOutcome]] = deque()

    @property
    def transactions_count(self) -> int:
        return len(self._by_id)

    @property
    def unknown_count(self) -> int:
        """The number of transactions that have a partition whose leader is not known."""
        return len(self._unknown)

    @property
    def has_refused(self) -> bool:
        """Whether a refused partition waits for the next `reroute`, and not for another image."""
        return bool(self._refused)

    @property
    def has_waiting(self) -> bool:
        """Whether a partition waits for which `reroute` may find a leader."""
        return bool(self._refused or self._unknown)

    # --- changes ---

    def add(self, markers: TransactionMarkers, done: Callable[[MarkerOutcome], None], image: ClusterImage) -> None:
        """Queue the markers of a transaction; those of the same transactional id that are pending are forgotten."""
        replaced = self._by_id.get(markers.transactional_id)
        if replaced is not None:
            self._forget(replaced)
        self._drop_ended(lambda old: old.transactional_id == markers.transactional_id)
        pending = PendingMarkers(markers, done, set(markers.partitions))
        self._by_id[markers.transactional_id] = pending
        self._route(pending, markers.partitions, image)
        self._end_if_complete(pending)

    def cancel(self, coordinator_partition: int) -> None:
        """Forget the transactions of a partition of `__transaction_state`, also those whose outcome is not reported yet."""
        self._drop_ended(lambda markers: markers.coordinator_partition == coordinator_partition)
        for pending in list(self._by_id.values()):
            if pending.markers.coordinator_partition == coordinator_partition:
                self._forget(pending)

    def reroute(self, image: ClusterImage) -> None:
        """Look up the leaders of all waiting partitions again."""
        for waiting in (self._unknown, self._refused):
            moved = list(waiting.items())
            waiting.clear()
            for pending, partitions in moved:
                self._route(pending, partitions, image)
                self._end_if_complete(pending)

    def next_ended(self) -> tuple[PendingMarkers, MarkerOutcome] | None:
        """Return a transaction with its outcome, each once; None when there is no other."""
        return self._ended.popleft() if self._ended else None

    # --- requests ---

    def ready(self) -> list[int]:
        """Return the brokers that have queued markers and no request in flight."""
        return [broker_id for broker_id, queue in self._queues.items() if queue and broker_id not in self._in_flight]

    def take(self, broker_id: int) -> list[MarkerEntry]:
        """Begin a request to `broker_id` with its queued markers, up to the bound; empty when there are none.

        It is in flight until `on_response` or `on_lost`.
        """
        assert broker_id not in self._in_flight
        queue, entries, room = self._queues.get(broker_id, {}), list[MarkerEntry](), self._partitions_per_request
        while queue and room > 0:
            pending, partitions = next(iter(queue.items()))
            chosen = tuple(partitions)[:room]
            room -= len(chosen)
            for partition in chosen:
                del partitions[partition]
            if not partitions:
                del queue[pending]
            entries.append(MarkerEntry(pending, chosen))
        if not queue:
            self._queues.pop(broker_id, None)
        if entries:
            self._in_flight[broker_id] = entries
        return entries

    def on_response(self, broker_id: int, errors: ErrorsByProducer) -> ResponseSummary:
        """Process the response of `broker_id` to its request in flight. A partition without a row in it is retried."""
        summary = ResponseSummary()
        for entry in self._in_flight.pop(broker_id):
            pending = entry.pending
            if not pending.is_forgotten:
                self._take_over(pending, entry.partitions, errors.get(pending.markers.producer_id, {}), summary)
        return summary

    def _take_over(
        self,
        pending: PendingMarkers,
        partitions: Iterable[TopicPartition],
        errors: Mapping[TopicPartition, ErrorCode],
        summary: ResponseSummary,
    ) -> None:
        for partition in partitions:
            error = errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            match verdict_of(error):
                case Verdict.DONE:
                    pending.remaining.discard(partition)
                case Verdict.RETRY:
                    self._refused.setdefault(pending, {})[partition] = None
                    summary.retried.setdefault(error, []).append(partition)
                case Verdict.FENCED:
                    self._forget(pending)
                    self._ended.append((pending, MarkerOutcome.FENCED))
                    return
        self._end_if_complete(pending)

    def on_lost(self, broker_id: int) -> None:
        """The request in flight got no response: whether its markers were written is unknown, so they are sent again."""
        for entry in self._in_flight.pop(broker_id):
            if not entry.pending.is_forgotten:
                self._refused.setdefault(entry.pending, {}).update(dict.fromkeys(entry.partitions))

    # --- internals ---

    def _route(self, pending: PendingMarkers, partitions: Iterable[TopicPartition], image: ClusterImage) -> None:
        for partition in partitions:
            found = image.partition(*partition)
            if found is None and TRANSACTION_STATE_TOPIC in image.topics:
                pending.remaining.discard(partition)
            elif found is not None and found.leader in image.brokers:
                self._queues.setdefault(found.leader, {}).setdefault(pending, {})[partition] = None
            else:
                self._unknown.setdefault(pending, {})[partition] = None

    def _end_if_complete(self, pending: PendingMarkers) -> None:
        if not pending.remaining and not pending.is_forgotten:
            self._forget(pending)
            self._ended.append((pending, MarkerOutcome.COMPLETE))

    def _forget(self, pending: PendingMarkers) -> None:
        """Send no more markers of this transaction, and ignore the response to those in flight."""
        pending.is_forgotten = True
        del self._by_id[pending.markers.transactional_id]
        for places in (self._unknown, self._refused, *self._queues.values()):
            places.pop(pending, None)

    def _drop_ended(self, is_dropped: Callable[[TransactionMarkers], bool]) -> None:
        if self._ended:
            self._ended = deque(each for each in self._ended if not is_dropped(each[0].markers))


def request_markers(entries: Iterable[MarkerEntry]) -> list[WritableTxnMarker]:
    """Return the markers of one WriteTxnMarkers request."""
    return [_marker(entry) for entry in entries]


def _marker(entry: MarkerEntry) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in entry.partitions:
        topics.setdefault(topic, []).append(index)
    markers = entry.pending.markers
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )
