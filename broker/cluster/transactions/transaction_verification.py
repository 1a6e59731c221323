"""Asks transaction coordinators whether partitions belong to a transaction, before its first write there, or to add them.

The coordinator on this broker is called in process, any other one by AddPartitionsToTxn: one request at a time to a broker,
with all its waiting verifications. `broker.cluster.transactions.verification_queues` decides what a response means.
A coordinator that is writing the markers of the transaction before cannot add yet (CONCURRENT_TRANSACTIONS): it is asked again
for `ADD_TIME_MS`, since that does not take long.
Rules: a new connection begins with ApiVersions. If a broker cannot verify (before Apache Kafka 3.5), everything counts as
verified, as in Apache Kafka; it cannot add either, and the producer is to try again. The connection to a broker that is no
longer in the image is closed, and its verifications fail.
Invariants: every verification gets an outcome, after `request.timeout.ms` or when the broker stops at the latest.
Source: KIP-890; Kafka AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend (retries), AddPartitionsToTxnConfig.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Protocol

from broker.cluster.transactions.offered_versions import newest_offered
from broker.cluster.transactions.verification_queues import (
    PendingVerification,
    VerificationErrors,
    VerificationQueues,
    as_producers_know,
    verification_errors,
    verification_request,
)
from coordinator.runtime.partitioner import partition_for
from metadata.image import TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from client.event_loop.broker_client import BrokerClient
    from metadata.image import ClusterImage, MetadataCache
    from runtime.clock import Clock
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

# Requests between brokers begin with this version of AddPartitionsToTxn.
FIRST_BROKER_VERSION = 4
LATEST_BROKER_VERSION = 5
ADD_PAUSES_MS = (1, 2, 4, 8, 16, 20, 20, 20)
"""Before a coordinator that is busy is asked again. Apache Kafka waits for 20 ms each time, up to 100 in all."""

AddLocally = Callable[[str, int, int, Collection[TopicPartition]], Awaitable[ErrorCode]]
"""Adds to a transaction of the coordinator on this broker."""
VerifyLocally = Callable[[str, int, int, Collection[TopicPartition]], VerificationErrors]
"""Verifies with the coordinator on this broker: transactional id, producer id, producer epoch, partitions."""


class VerificationMetrics(Protocol):
    def verification_failed(self, partitions_count: int) -> None: ...

    def verified(self, time_ms: int) -> None: ...


class CoordinatorVerification:
    """Implements `coordinator.transaction.verification.TransactionVerification`. Owned by the broker; `close` before its
    tasks end. `connect` makes a client for a broker by its id."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        connect: Callable[[int], BrokerClient],
        verify_locally: VerifyLocally,
        add_locally: AddLocally,
        *,
        clock: Clock,
        tasks: TaskScope,
        metrics: VerificationMetrics,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._connect = connect
        self._verify_locally = verify_locally
        self._add_locally = add_locally
        self._clock = clock
        self._tasks = tasks
        self._metrics = metrics
        self._queues = VerificationQueues()
        self._clients: dict[int, BrokerClient] = {}
        # The version of AddPartitionsToTxn by broker: None when the broker cannot verify.
        self._versions: dict[int, int | None] = {}
        self._is_closed = False
        metadata.subscribe(self._on_image)

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> VerificationErrors:
        """Implement `TransactionVerification.verify`."""
        here = self.verify_here(transactional_id, producer_id, producer_epoch, partitions)
        if here is not None:
            return here
        return await self._ask_coordinator(transactional_id, producer_id, producer_epoch, partitions, adds=False)

    async def add(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> VerificationErrors:
        """Implement `TransactionVerification.add`."""
        pauses_ms = iter(ADD_PAUSES_MS)
        while True:
            errors = await self._add_once(transactional_id, producer_id, producer_epoch, partitions)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values() or (pause_ms := next(pauses_ms, None)) is None:
                return errors
            await asyncio.sleep(pause_ms / 1000)

    async def _add_once(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> VerificationErrors:
        coordinator_id = self._coordinator_of(transactional_id)
        if coordinator_id is None or self._tasks.is_closed:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator_id != self._broker_id:
            return await self._ask_coordinator(transactional_id, producer_id, producer_epoch, partitions, adds=True)
        since_ms = self._clock.monotonic_ms()
        error = await self._add_locally(transactional_id, producer_id, producer_epoch, partitions)
        errors = dict.fromkeys(partitions, as_producers_know(error))
        self._count(errors, self._clock.monotonic_ms() - since_ms)
        return errors

    async def _ask_coordinator(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> VerificationErrors:
        """Ask the coordinator on another broker."""
        waiter: asyncio.Future[VerificationErrors] = asyncio.get_running_loop().create_future()
        asked = PendingVerification(
            transactional_id, producer_id, producer_epoch, tuple(partitions), self._clock.monotonic_ms(), waiter, adds
        )
        coordinator_id = self._coordinator_of(transactional_id)
        assert coordinator_id is not None  # the caller has looked
        displaced = self._queues.add(coordinator_id, asked)
        if displaced is not None:
            self._answer(displaced[0], displaced[0].all(displaced[1]))
        self._send_waiting(coordinator_id)
        return await waiter

    def verify_here(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> VerificationErrors | None:
        """Return the outcome if no request to another broker is needed; else None."""
        coordinator_id = self._coordinator_of(transactional_id)
        if coordinator_id is None or self._tasks.is_closed:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator_id != self._broker_id:
            return None
        found = self._verify_locally(transactional_id, producer_id, producer_epoch, partitions)
        errors = {partition: as_producers_know(error) for partition, error in found.items()}
        self._count(errors, 0)
        return errors

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """Return the live leader of the transactional id's partition of `__transaction_state`, or None."""
        image = self._metadata.image
        count = image.partitions_count(TRANSACTION_STATE_TOPIC)
        if count is None:
            return None
        found = image.partition(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, count))
        return None if found is None or found.leader not in image.brokers else found.leader

    def close(self) -> None:
        """Close the connections; waiting verifications get NETWORK_EXCEPTION."""
        self._is_closed = True
        self._metadata.unsubscribe(self._on_image)
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # --- requests ---

    def _send_waiting(self, broker_id: int) -> None:
        asked = self._queues.take(broker_id)
        if asked:
            self._tasks.spawn(self._exchange(broker_id, asked), name=f"verify transactions at broker {broker_id}")

    async def _exchange(self, broker_id: int, asked: list[PendingVerification]) -> None:
        """Send requests to one broker until no verification waits for it."""
        while asked:
            try:
                outcomes = await self._ask(broker_id, asked)
            except OSError as error:
                logger.debug("transactions not verified: broker=%d error=%s", broker_id, error)
                outcomes = [each.all(ErrorCode.NETWORK_EXCEPTION) for each in asked]
            self._queues.finish(broker_id)
            for each, errors in zip(asked, outcomes, strict=True):
                self._answer(each, errors)
            asked = self._queues.take(broker_id)

    async def _ask(self, broker_id: int, asked: list[PendingVerification]) -> list[VerificationErrors]:
        """Send one request; return the outcome of each verification. Raises OSError without a response."""
        if self._is_closed:
            raise ConnectionError("the broker is stopping")
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self._connect(broker_id)
        if not client.is_connected:
            self._versions[broker_id] = await self._version_of(broker_id, client)
        version = self._versions[broker_id]
        if version is None:
            return [each.all(ErrorCode.COORDINATOR_NOT_AVAILABLE if each.adds else ErrorCode.NONE) for each in asked]
        return verification_errors(
            asked, await client.send(verification_request(asked), version, AddPartitionsToTxnResponse)
        )

    async def _version_of(self, broker_id: int, client: BrokerClient) -> int | None:
        """Return the broker's version of AddPartitionsToTxn; None when it cannot verify. Raises OSError."""
        newest = await newest_offered(client, AddPartitionsToTxnRequest)
        if newest < FIRST_BROKER_VERSION:
            logger.warning("broker cannot verify transactions, they are taken unverified: broker=%d", broker_id)
            return None
        return min(newest, LATEST_BROKER_VERSION)

    def _answer(self, asked: PendingVerification, errors: VerificationErrors) -> None:
        self._count(errors, self._clock.monotonic_ms() - asked.since_ms)
        if not asked.waiter.done():  # the caller may be cancelled
            asked.waiter.set_result(errors)

    def _count(self, errors: VerificationErrors, time_ms: int) -> None:
        failures = sum(error is not ErrorCode.NONE for error in errors.values())
        if failures:
            self._metrics.verification_failed(failures)
        self._metrics.verified(time_ms)

    def _on_image(self, image: ClusterImage) -> None:
        for broker_id in self._clients.keys() - image.brokers.keys():
            self._clients.pop(broker_id).close()
