"""Produce (key 0): append record batches to the partitions this broker leads.

Behaviour: every partition answers for itself. acks=1 answers when the batch is written, acks=-1 when every in-sync
replica has it (or after `timeout_ms`), acks=0 never: a failure then closes the connection, which is all such a client
can notice. The records are patched in the request's own buffer and go to the log from there, without a copy.
Versions: below 3 a v2 batch is taken as Kafka takes it; older message formats are answered
UNSUPPORTED_FOR_MESSAGE_FORMAT. v8 adds an error message and the offending records (KIP-467), v10 the new leader (KIP-951).
Source: Kafka KafkaApis.handleProduceRequest, ReplicaManager.appendRecords, DelayedProduce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.context import CloseConnection, Deferred, RequestContext
from broker.dispatch import handles
from broker.handlers.partition_lookup import held_partition
from metadata.image import INTERNAL_TOPICS
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batch import holds_transaction
from storage.log import AppendOrigin
from storage.validation import RecordsRejected, RequestRejected

if TYPE_CHECKING:
    from replication.partition import Partition
    from runtime.timer import TimerEntry

ALL_REPLICAS = -1
NO_ANSWER = 0
NO_OFFSET = -1
LEADER_HINT_VERSION = 10
# The client id with which Apache Kafka's own tools may write to internal topics.
ADMIN_CLIENT = "__admin_client"
# Refusals that come before the log has said where it starts.
UNKNOWN_START_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NO_ERROR = ErrorCode.NONE  # the look-up in an enum's class is not free


@handles(ProduceRequest)
def produce(request: ProduceRequest, context: RequestContext) -> ProduceResponse | Deferred[ProduceResponse] | None:
    append = _ProduceAppend(request, context)
    by_name: dict[str, list[PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        rows = by_name.get(topic.name)
        if rows is None:  # a topic named twice is answered once
            rows = by_name[topic.name] = []
            append.topics.append(TopicProduceResponse(name=topic.name, partition_responses=rows))
        for data in topic.partition_data:
            try:
                rows.append(append.append(topic.name, data))
            except KafkaError as error:
                rows.append(append.failed(topic.name, data.index, error))
    if request.acks == NO_ANSWER:
        if append.first_error is not None:
            raise CloseConnection(f"produce with acks=0 failed: {append.first_error}")
        return None
    return append.response() if append.waiting_count == 0 else append.park()


class _ProduceAppend:
    """One produce request from its first append to its answer."""

    __slots__ = (
        "_acks",
        "_context",
        "_now_ms",
        "_parked",
        "_request",
        "_services",
        "_timer",
        "deferred",
        "first_error",
        "topics",
        "waiting_count",
    )

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self._request = request
        self._acks = request.acks
        self._context = context
        self._services = services = context.services
        self._now_ms = services.clock.wall_ms()
        self._parked: dict[int, tuple[Partition, int, PartitionProduceResponse]] = {}
        self._timer: TimerEntry | None = None
        self.deferred: Deferred[ProduceResponse] | None = None
        self.first_error: KafkaError | None = None
        self.topics: list[TopicProduceResponse] = []
        self.waiting_count = 0

    def append(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append to one partition; its row of the answer, to be completed later when it has to wait. Raises KafkaError."""
        services = self._services
        acks = self._acks
        if not ALL_REPLICAS <= acks <= 1:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}: must be -1, 0 or 1.")
        index, records = data.index, data.records
        if topic in INTERNAL_TOPICS and self._context.client_id != ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to the internal topic {topic}.")
        partition = services.partitions.find(topic, index) or held_partition(services, topic, index)
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "The request holds no records for this partition.")
        if holds_transaction(records):
            self._check_transaction()
        result = partition.append(
            records,
            origin=AppendOrigin.CLIENT,
            acks=acks,
            now_ms=self._now_ms,
            produce_version=self._context.api_version,
        )
        services.metrics.produced(topic, len(records), 0 if result.duplicate else result.records_count)
        row = PartitionProduceResponse(
            index=index,
            error_code=NO_ERROR,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        end_offset = result.last_offset + 1
        done = partition.is_committed(end_offset) if acks == ALL_REPLICAS else partition.is_written(end_offset)
        if not done and acks != NO_ANSWER:
            self._wait(partition, end_offset, row)
        return row

    def _check_transaction(self) -> None:
        """Whether the batch's transaction is known. Until there is a transaction coordinator, none is."""
        if self._request.transactional_id is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch needs a transactional id."
            )
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            "Underlying error: COORDINATOR_NOT_AVAILABLE",
        )

    def failed(self, topic: str, index: int, error: KafkaError) -> PartitionProduceResponse:
        """The row of a partition that took nothing."""
        if self.first_error is None:
            self.first_error = error
        self._services.metrics.produce_failed(topic)
        row = PartitionProduceResponse(
            index=index, error_code=error.code, base_offset=NO_OFFSET, error_message=error.message
        )
        partition = self._services.partitions.find(topic, index)
        if partition is not None and error.code not in UNKNOWN_START_ERRORS and not isinstance(error, RequestRejected):
            row.log_start_offset = partition.log.log_start_offset
        if isinstance(error, RecordsRejected):
            row.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index_in_batch, batch_index_error_message=message)
                for index_in_batch, message in error.record_errors
            ]
        return row

    # --- waiting ---

    def _wait(self, partition: Partition, end_offset: int, row: PartitionProduceResponse) -> None:
        self.waiting_count += 1
        key = self.waiting_count

        def on_result(error: ErrorCode) -> None:
            del self._parked[key]
            self._resolve(row, error)

        if self._acks == ALL_REPLICAS:
            ticket = partition.when_committed(end_offset, on_result)
        else:
            ticket = partition.when_written(end_offset, on_result)
        self._parked[key] = (partition, ticket, row)

    def _resolve(self, row: PartitionProduceResponse, error: ErrorCode) -> None:
        if error != ErrorCode.NONE:
            row.error_code, row.base_offset = error, NO_OFFSET
            row.log_append_time_ms = row.log_start_offset = NO_OFFSET
        self.waiting_count -= 1
        if self.waiting_count == 0:
            if self._timer is not None:
                self._timer.cancel()
            assert self.deferred is not None
            self.deferred.complete(self.response())

    def park(self) -> Deferred[ProduceResponse]:
        """Some partitions wait: the answer comes when the last of them is through."""
        self.deferred = Deferred()
        if self._acks == ALL_REPLICAS:
            timeout_ms = max(self._request.timeout_ms, 0)
            self._timer = self._services.timer.schedule(timeout_ms, self._expire)
        self.deferred.on_abandon(self._abandon)
        return self.deferred

    def _expire(self) -> None:
        for row in self._forget_all():
            self._resolve(row, ErrorCode.REQUEST_TIMED_OUT)

    def _abandon(self) -> None:
        """The client is gone: the records stay, nobody waits for them."""
        if self._timer is not None:
            self._timer.cancel()
        self._forget_all()

    def _forget_all(self) -> list[PartitionProduceResponse]:
        parked, self._parked = list(self._parked.values()), {}
        for partition, ticket, _ in parked:
            if self._acks == ALL_REPLICAS:
                partition.commit_waiters.cancel(ticket)
            else:
                partition.forget_written(ticket)
        return [row for _, _, row in parked]

    # --- answering ---

    def response(self) -> ProduceResponse:
        response = ProduceResponse(responses=self.topics)
        if self._context.api_version >= LEADER_HINT_VERSION:
            self._name_leaders(response)
        return response

    def _name_leaders(self, response: ProduceResponse) -> None:
        context, advertised = self._context, self._services.advertised
        image = self._services.metadata.image
        leaders: set[int] = set()
        for topic in self.topics:
            for row in topic.partition_responses:
                if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                known = image.partition(topic.name, row.index)
                if known is not None:
                    row.current_leader = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
                    leaders.add(known.leader)
        for broker in sorted(leaders):
            address = advertised.endpoint(image, broker, context.listener, context.local_address)
            if address is not None:
                rack = image.brokers[broker].rack
                response.node_endpoints.append(
                    NodeEndpoint(node_id=broker, host=address.host, port=address.port, rack=rack)
                )
