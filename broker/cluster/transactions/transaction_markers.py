"""Sends the markers that end transactions to the leaders of their partitions: one request at a time to each broker.

Markers for partitions led by this broker are written in process, through the component that also serves WriteTxnMarkers.
`broker.cluster.transactions.marker_queues` decides which markers are sent where, and what a response means.
Rules: a transaction whose end raises the epoch needs WriteTxnMarkers 2, if the broker offers it: without it the broker takes a
late marker for a timely one, as for all other transactions. Markers that were refused or got no response are sent again after
`RETRY_MS` or with the next cluster image, to the leader at that time. The connection to a broker that is no longer in the
image is closed, so that its markers do not wait for a timeout.
Invariants: `done` is called once for each `write` that was neither cancelled nor replaced, and never from inside a change
of the queues. At most one task per broker, and none while there is nothing to send.
Source: KIP-98, KIP-890; Kafka TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from broker.cluster.transactions.marker_queues import (
    EXPECTED_RETRIES,
    ErrorsByProducer,
    MarkerEntry,
    MarkerQueues,
    ResponseSummary,
    request_markers,
)
from broker.cluster.transactions.offered_versions import newest_offered
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest, WriteTxnMarkersResponse
from protocol.transaction_version import EPOCH_BUMPS, MARKERS_SINCE

if TYPE_CHECKING:
    from client.event_loop.broker_client import BrokerClient
    from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
    from metadata.image import ClusterImage, MetadataCache
    from runtime.tasks import TaskScope
    from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

RETRY_MS = 100
_ERRORS = {int(code): code for code in ErrorCode}

AppendLocally = Callable[[Sequence[WritableTxnMarker]], Awaitable[ErrorsByProducer]]


class TransactionMarkerSender:
    """Implements `coordinator.transaction.markers.MarkerWriter`. Owned by the broker; `close` before its tasks end.

    `connect` makes a client for a broker by its id, `append_locally` writes to partitions led here, `version` is that of
    WriteTxnMarkers in this cluster, but for markers of transactions whose end raises the epoch.
    """

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        connect: Callable[[int], BrokerClient],
        append_locally: AppendLocally,
        *,
        version: int,
        timer: Timer,
        tasks: TaskScope,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._connect = connect
        self._append_locally = append_locally
        self._version = version
        self._timer = timer
        self._tasks = tasks
        self._queues = MarkerQueues()
        self._clients: dict[int, BrokerClient] = {}
        self._versions: dict[int, int] = {}  # for markers that need a newer version, by broker
        self._retry: TimerEntry | None = None
        self._is_closed = False
        metadata.subscribe(self._on_image)

    @property
    def unknown_destination_count(self) -> int:
        """The number of transactions that wait for a live leader of a partition."""
        return self._queues.unknown_count

    def write(self, markers: TransactionMarkers, done: Callable[[MarkerOutcome], None]) -> None:
        """Implement `MarkerWriter.write`. Pending markers of the same transactional id are forgotten."""
        self._queues.add(markers, done, self._metadata.image)
        self._go_on()

    def cancel(self, coordinator_partition: int) -> None:
        """Implement `MarkerWriter.cancel`."""
        self._queues.cancel(coordinator_partition)

    def close(self) -> None:
        """Close the connections, and stop sending."""
        self._is_closed = True
        self._metadata.unsubscribe(self._on_image)
        if self._retry is not None:
            self._retry.cancel()
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # --- sending ---

    def _go_on(self) -> None:
        """Report the transactions that have ended, and begin the requests that can begin."""
        while (ended := self._queues.next_ended()) is not None:
            pending, outcome = ended
            pending.done(outcome)
        if self._is_closed or self._tasks.is_closed:
            return
        for broker_id in self._queues.ready():
            entries = self._queues.take(broker_id)
            self._tasks.spawn(self._exchange(broker_id, entries), name=f"transaction markers to broker {broker_id}")
        if self._queues.has_refused:
            self._schedule_retry(RETRY_MS)

    async def _exchange(self, broker_id: int, entries: list[MarkerEntry]) -> None:
        """Send one request and process its response; the next request is a task of its own."""
        try:
            errors = await self._send(broker_id, request_markers(entries))
        except OSError as error:
            logger.debug("transaction markers not answered: broker=%d error=%s", broker_id, error)
            self._queues.on_lost(broker_id)
        else:
            self._report(broker_id, self._queues.on_response(broker_id, errors))
        self._go_on()

    async def _send(self, broker_id: int, markers: list[WritableTxnMarker]) -> ErrorsByProducer:
        """Send `markers`; return each partition's error, by producer. Raises OSError without a response."""
        if broker_id == self._broker_id:
            return await self._append_locally(markers)
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self._connect(broker_id)
        version = await self._version_for(broker_id, client, markers)
        response = await client.send(WriteTxnMarkersRequest(markers=markers), version, WriteTxnMarkersResponse)
        return {
            marker.producer_id: {
                (topic.name, row.partition_index): _ERRORS.get(row.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
                for topic in marker.topics
                for row in topic.partitions
            }
            for marker in response.markers
        }

    async def _version_for(self, broker_id: int, client: BrokerClient, markers: list[WritableTxnMarker]) -> int:
        """Raises OSError."""
        if not any(marker.transaction_version >= EPOCH_BUMPS for marker in markers):
            return self._version
        version = self._versions.get(broker_id, -1)
        if version < MARKERS_SINCE or not client.is_connected:  # the broker may have learned of the feature level since
            newest = await newest_offered(client, WriteTxnMarkersRequest)
            version = self._versions[broker_id] = MARKERS_SINCE if newest >= MARKERS_SINCE else self._version
        return version

    def _report(self, broker_id: int, summary: ResponseSummary) -> None:
        for error, partitions in summary.retried.items():
            logger.log(
                logging.DEBUG if error in EXPECTED_RETRIES else logging.WARNING,
                "transaction markers refused, retrying: broker=%d partitions=%d example=%s-%d error=%s",
                broker_id, len(partitions), *partitions[0], error.name,
            )  # fmt: skip

    # --- retries ---

    def _schedule_retry(self, delay_ms: int) -> None:
        """Look up leaders again after `delay_ms`, or earlier if that is scheduled already."""
        if self._retry is not None:
            if delay_ms:
                return
            self._retry.cancel()
        self._retry = self._timer.schedule(delay_ms, self._on_retry)

    def _on_retry(self) -> None:
        self._retry = None
        self._queues.reroute(self._metadata.image)
        self._go_on()

    def _on_image(self, image: ClusterImage) -> None:
        for broker_id in self._clients.keys() - image.brokers.keys():
            self._clients.pop(broker_id).close()
        if self._queues.has_waiting:
            self._schedule_retry(0)
