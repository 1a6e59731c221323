"""The transactional batches of a Produce request: which of them begin a transaction in their partition, and whether they may.

A partition in which the transaction has begun accepts its next batches. For all other partitions of the request the
transaction's coordinator verifies the transaction first, in one request, and a verification guard of the log ensures that
nothing has changed when the batch is appended. A batch without a guard begins no transaction. From version 12 on the client
does not add the partitions itself: the coordinator is asked to, whether transactions are verified or not.
Errors: the coordinator's errors are mapped to those that producers know: INVALID_TXN_STATE if the partition was not added to
the transaction (TRANSACTION_ABORTABLE from version 11 on), NOT_ENOUGH_REPLICAS if it could not be verified, so that the
producer retries without a metadata request. Producers of version 12 know CONCURRENT_TRANSACTIONS.
Source: KIP-890; Kafka ReplicaManager.handleProduceAppend, maybeStartTransactionVerificationForPartitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import holds_transaction, producer_of
from protocol.transaction_version import PRODUCE_SINCE
from storage.log.producers.transaction_verifications import ONGOING, VerificationGuard
from storage.log.validation import RequestRejected

if TYPE_CHECKING:
    from broker.services import Services
    from protocol.messages.produce import TopicProduceData
    from protocol.topic_partition import TopicPartition

# From this version on producers know TRANSACTION_ABORTABLE.
ABORTABLE_VERSION = 11
# How often the coordinator is asked to add a partition whose guard a marker has made void meanwhile: that of the
# transaction before comes once.
ADD_ATTEMPTS = 3
_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionStart:
    """The transaction of one request, made before its first append. If `is_decided`, `verify` need not be awaited."""

    __slots__ = (
        "_adds",
        "_api_version",
        "_errors",
        "_guards",
        "_producer",
        "_sequences",
        "_services",
        "_transactional_id",
        "is_decided",
    )

    def __init__(
        self, services: Services, transactional_id: str, topics: list[TopicProduceData], api_version: int
    ) -> None:
        self._services = services
        self._transactional_id = transactional_id
        self._api_version = api_version
        self._adds = api_version >= PRODUCE_SINCE
        self._guards: dict[TopicPartition, VerificationGuard] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._errors: dict[TopicPartition, KafkaError] = {}
        self._producer = (-1, -1)  # `produce_checks` says that there is only one
        for topic in topics:
            for data in topic.partition_data:
                if data.records is not None and holds_transaction(data.records):
                    self._begin((topic.name, data.index), data.records)
        self.is_decided = not self._guards or (not self._adds and self._is_decided_here())

    def _begin(self, key: TopicPartition, records: bytes | bytearray | memoryview) -> None:
        producer_id, epoch, sequence = producer_of(records)
        partition = self._services.partitions.find(*key)
        if partition is None or producer_id < 0:
            return  # the append refuses it with the right error
        try:
            guard = partition.begin_verification(producer_id, epoch, sequence, bumps_epoch=self._adds)
        except KafkaError as error:
            is_late = error.code is ErrorCode.INVALID_PRODUCER_EPOCH
            self._errors[key] = RequestRejected(error.code, error.message) if is_late else error.again()
            return
        if guard is not ONGOING:
            self._guards[key] = guard
            self._sequences[key] = sequence
            self._producer = producer_id, epoch

    def _is_decided_here(self) -> bool:
        found = self._services.transaction_verification.verify_here(
            self._transactional_id, *self._producer, self._guards.keys()
        )
        if found is not None:
            self._take_over(found)
        return found is not None

    async def verify(self) -> None:
        """Verify with the coordinator on another broker, or add the partitions with any."""
        verification = self._services.transaction_verification
        if not self._adds:
            self._take_over(await verification.verify(self._transactional_id, *self._producer, self._guards.keys()))
            return
        keys = list(self._guards)
        for attempt in range(ADD_ATTEMPTS):
            if attempt:
                keys = [key for key in keys if key not in self._errors and self._is_void(key) and self._is_renewed(key)]
            if keys:
                self._take_over(await verification.add(self._transactional_id, *self._producer, keys))

    def _is_void(self, key: TopicPartition) -> bool:
        """Whether the marker of the transaction before has come while the coordinator was asked, which made the guard void."""
        partition = self._services.partitions.find(*key)
        return partition is not None and not partition.log.producers.is_current(self._producer[0], self._guards[key])

    def _is_renewed(self, key: TopicPartition) -> bool:
        """Take another guard; False, with an error, when there is none."""
        partition = self._services.partitions.find(*key)
        assert partition is not None, "it was there without a pause"
        try:
            self._guards[key] = partition.begin_verification(*self._producer, self._sequences[key], bumps_epoch=True)
        except KafkaError as error:
            self._errors[key] = error.again()
            return False
        return self._guards[key] is not ONGOING

    def _take_over(self, found: dict[TopicPartition, ErrorCode]) -> None:
        for key, error in found.items():
            if error is not ErrorCode.NONE:
                self._errors[key] = self._refusal(error)

    def _refusal(self, error: ErrorCode) -> KafkaError:
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._api_version < ABORTABLE_VERSION:
            error = ErrorCode.INVALID_TXN_STATE
        if error is ErrorCode.INVALID_TXN_STATE:
            return RequestRejected(error, "Partition was not added to the transaction")
        if error in _RETRIABLE and not (self._adds and error is ErrorCode.CONCURRENT_TRANSACTIONS):
            return RequestRejected(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
            )
        return RequestRejected(error)

    def guard(self, key: TopicPartition) -> VerificationGuard:
        """Return the guard with which the batch is appended to its partition. Raises KafkaError."""
        error = self._errors.get(key)
        if error is not None:
            raise error.again()
        return self._guards.get(key, ONGOING)
