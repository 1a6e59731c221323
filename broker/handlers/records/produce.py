"""Produce (key 0): append record batches to the partitions this broker leads.

Behaviour: every partition has its own result, unless the whole request is refused (`produce_checks`). With acks=1 the response
is sent when the batch is appended, with acks=-1 when every in-sync replica has it (or after `timeout_ms`), with acks=0 never:
an error closes the connection then, the only thing that such a client can notice. The records are changed in the request's
buffer, and written from there without a copy. Records count in the budget of requests until the log has written them, also
with acks=0 and after the client has disconnected; a request that waits for replicas keeps none of them. Records that take long
to validate (`LongValidation`) are validated in slices; the request is a barrier of its connection then.
Rights: of transactional records, on the transactional id for the whole request; then on each topic. A client does not
learn whether a topic exists that it may not write to. Idempotent records need no right of their own (KIP-679).
Versions: below 3 message sets are possible (`produce_message_sets`). v8 adds an error message and the offending records
(KIP-467), v10 the new leader (KIP-951). v13 names topics by their ids (KIP-516): one that no topic has is UNKNOWN_TOPIC_ID, and
the records of the others are appended.
Source: Kafka KafkaApis.handleProduceRequest, ReplicaManager.appendRecords, DelayedProduce.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker.handlers.partition_lookup import endpoints_of, held_partition, is_known, known_leader
from broker.handlers.records.produce_checks import (
    Refusals,
    check_batch,
    check_producer,
    each_once,
    has_transaction,
    repeats_partitions,
)
from broker.handlers.topic_ids import named
from broker.handlers.transactions.transaction_start import TransactionStart
from broker.network.dispatch import handles
from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.request_context import DENIAL_TEXTS_MAX, RequestContext, Rights
from broker.network.responses.deferred import CloseConnection, Deferred
from broker.network.responses.error_responses import ErrorForm
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
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.transaction_version import PRODUCE_SINCE
from replication.waiting.delayed_operation import DelayedOperation, Wait
from security.access import Operation, ResourceType, on_each
from storage.log.partition_log import AppendOrigin, AppendResult
from storage.log.record_errors import RecordsRejected
from storage.log.threaded_validation import validate_in_thread
from storage.log.validation import LongValidation, RequestRejected, ValidatedRecords

if TYPE_CHECKING:
    from broker.services import Services
    from protocol.schema import Response
    from replication.partition import Partition
    from runtime.disk.filesystem import Buffer
    from storage.log.producers.transaction_verifications import VerificationGuard

ALL_REPLICAS = -1
NO_ANSWER = 0
NO_OFFSET = -1
LEADER_HINT_VERSION = 10
TOPIC_IDS_VERSION = 13
# The client id with which Apache Kafka's own tools may write to internal topics.
ADMIN_CLIENT = "__admin_client"
# Errors that are raised before the log start offset is known.
UNKNOWN_START_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
# The response row of records that wait for acknowledgements, and their size in bytes.
WaitingRow: TypeAlias = tuple[PartitionProduceResponse, int]
NO_ERROR = ErrorCode.NONE  # the look-up in an enum's class is not free
_make_response = ProduceResponse.maker()
_make_topic = TopicProduceResponse.maker()
_make_row = PartitionProduceResponse.maker()

PRODUCE_ACCESS = (
    on_each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),  # of transactional records
    on_each(Operation.WRITE, ResourceType.TOPIC),
)
_in_rows = ErrorForm({"responses": "topic_data"}, base_offset=NO_OFFSET)


def produce_errors(request: ProduceRequest, version: int, code: ErrorCode, message: str | None) -> Response | None:
    """None for a request without acknowledgement: its client learns of errors by the end of the connection."""
    return None if request.acks == NO_ANSWER else _in_rows(request, version, code, message)


@handles(
    ProduceRequest,
    PRODUCE_ACCESS,
    versions="3-13",
    errors=produce_errors,
)
def produce(
    request: ProduceRequest, context: RequestContext, may_use_id: Rights, may_write: Rights
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    """Append to the partitions, and respond. Raises CloseConnection for an error if there is no response."""
    append = ProduceAppend(request, context)
    topics = append.begin(request, may_use_id, may_write)
    if append.start is not None and not append.start.is_decided:
        return append.append_verified(append.start, topics)
    postponed = append.append_all(topics)
    return append.append_apart(postponed) if postponed else append.outcome()


class Postponed(NamedTuple):
    """Records that take long to validate, and the index of their row in the response."""

    topic: str
    data: PartitionProduceData
    rows: list[PartitionProduceResponse]
    at: int

    @classmethod
    def into(cls, rows: list[PartitionProduceResponse], topic: str, data: PartitionProduceData) -> Postponed:
        rows.append(_make_row(index=data.index, error_code=NO_ERROR, base_offset=NO_OFFSET))
        return cls(topic, data, rows, len(rows) - 1)


async def _at_once(postponed: list[Postponed]) -> list[Postponed]:
    return postponed


def _topic_row(topic: TopicProduceData, rows: list[PartitionProduceResponse]) -> TopicProduceResponse:
    return _make_topic(name=topic.name, topic_id=topic.topic_id, partition_responses=rows)


def append_records(
    services: Services,
    partition: Partition,
    records: Buffer,
    acks: int,
    now_ms: int,
    api_version: int,
    checked: ValidatedRecords | None = None,
    guard: VerificationGuard | None = None,
) -> AppendResult:
    """Append the records of one partition, and count them. Raises KafkaError, LongValidation."""
    result = partition.append(
        records, origin=AppendOrigin.CLIENT, acks=acks, now_ms=now_ms, produce_version=api_version, checked=checked,
        guard=guard,
    )  # fmt: skip
    services.metrics.produced(partition.topic, len(records), 0 if result.duplicate else result.records_count)
    return result


def has_arrived(partition: Partition, result: AppendResult, acks: int) -> bool:
    """Whether the records are acknowledged as `acks` requires, and written."""
    if acks == ALL_REPLICAS:
        return partition.is_committed(result.last_offset + 1)
    return partition.is_written(result.last_offset + 1)


def count_until_written(services: Services, partition: Partition, end_offset: int, size_bytes: int) -> None:
    """Keep records that no response waits for in the budget of requests until the log has written them: with acks=0, clients
    could fill the memory while the disk is slow."""
    held_bytes, budget = max(size_bytes, LEAST_WAITING_BYTES), services.requests
    budget.reserve_anyway(held_bytes)
    partition.log.writer.when_written(end_offset, lambda _: budget.release(held_bytes))


class ProduceAppend:
    """One produce request, from its first append to its response."""

    __slots__ = (
        "_acks",
        "_context",
        "_delayed",
        "_refusals",
        "_services",
        "_timeout_ms",
        "_unwritten_count",
        "deferred",
        "first_error",
        "start",
        "topics",
    )

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._context = context
        self._services = context.services
        self._refusals: Refusals = {}
        # The waiting response, from the first partition that waits until it is sent.
        self._delayed: DelayedOperation[WaitingRow] | None = None
        self._unwritten_count = 0  # the awaited partitions whose records the log has not written yet
        self.deferred: Deferred[ProduceResponse] | None = None
        self.first_error: KafkaError | None = None
        # Set for a request with transactional batches while partitions are to be verified.
        self.start: TransactionStart | None = None
        self.topics: list[TopicProduceResponse] = []

    def begin(self, request: ProduceRequest, may_use_id: Rights, may_write: Rights) -> list[TopicProduceData]:
        """Return the records to append, every partition once; none if the whole request is refused."""
        topics, api_version = request.topic_data, self._context.api_version
        if api_version >= TOPIC_IDS_VERSION:
            topics = self._named(topics)
        if repeats_partitions(topics):
            topics, self._refusals = each_once(topics, api_version)
        allowed = topics
        try:
            is_transactional = has_transaction(request)
            if not may_write.are_open:
                transactional_id = request.transactional_id or ""
                if is_transactional and not may_use_id(transactional_id):
                    raise may_use_id.denial(transactional_id)
                allowed = self._allowed(topics, may_write)
            if is_transactional:
                check_producer(self._services, allowed, api_version)
                self._begin_transaction(request.transactional_id, allowed)
        except KafkaError as error:
            self._refusals = {}
            self.topics.clear()
            of_others = KafkaError(error.code) if type(error) is KafkaError else error
            errors = chain(repeat(error, DENIAL_TEXTS_MAX), repeat(of_others))
            for topic in topics:
                rows = [self.failed(topic.name, data.index, next(errors)) for data in topic.partition_data]
                self.topics.append(_topic_row(topic, rows))
            return []
        return allowed

    def _named(self, topics: list[TopicProduceData]) -> list[TopicProduceData]:
        """Return the topics whose ids are known, with their names; of the others the response has errors."""
        known, unknown = named(topics, self._services.metadata.image.names_by_id)
        if unknown:
            error = self.first_error = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            indexes: dict[bytes, dict[int, None]] = {}
            for topic in unknown:
                indexes.setdefault(topic.topic_id, {}).update((data.index, None) for data in topic.partition_data)
            for topic_id, of_topic in indexes.items():
                rows = [_make_row(index=index, error_code=error.code, base_offset=NO_OFFSET) for index in of_topic]
                self.topics.append(_make_topic(topic_id=topic_id, partition_responses=rows))
        return known

    def _allowed(self, topics: list[TopicProduceData], may_write: Rights) -> list[TopicProduceData]:
        """Return the topics that the client may write to; of the others the response has errors."""
        allowed: list[TopicProduceData] = []
        for topic in topics:
            if may_write(topic.name):
                allowed.append(topic)
                continue
            rows = []
            for data in topic.partition_data:
                denied = may_write.denial(topic.name)
                self.first_error = self.first_error or denied
                rows.append(
                    _make_row(
                        index=data.index,
                        error_code=denied.code,
                        base_offset=NO_OFFSET,
                        error_message=denied.own_message,
                    )
                )
            self.topics.append(_topic_row(topic, rows))
            for data in topic.partition_data:
                self._refusals.pop((topic.name, data.index), None)
        return allowed

    def _begin_transaction(self, transactional_id: str | None, topics: list[TopicProduceData]) -> None:
        assert transactional_id is not None, "says `has_transaction`"
        is_verified = self._services.dynamic_settings.settings.transaction_partition_verification_enable
        if is_verified or self._context.api_version >= PRODUCE_SINCE:
            self.start = TransactionStart(self._services, transactional_id, topics, self._context.api_version)

    def append_all(self, topics: list[TopicProduceData]) -> list[Postponed]:
        """Append to one partition after the other. Returns those whose records take long to validate."""
        postponed: list[Postponed] = []
        for topic in topics:
            rows: list[PartitionProduceResponse] = []
            self.topics.append(_topic_row(topic, rows))
            for data in topic.partition_data:
                try:
                    rows.append(self.append(topic.name, data))
                except KafkaError as error:
                    rows.append(self.failed(topic.name, data.index, error))
                except LongValidation:
                    postponed.append(Postponed.into(rows, topic.name, data))
        return postponed

    def append(
        self, topic: str, data: PartitionProduceData, checked: ValidatedRecords | None = None
    ) -> PartitionProduceResponse:
        """Append to one partition; return its row, which is completed later if it has to wait. Raises KafkaError,
        and LongValidation unless the records are `checked`."""
        services, acks = self._services, self._acks
        index, records = data.index, data.records
        guard = None if self.start is None else self.start.guard((topic, index))
        if not ALL_REPLICAS <= acks <= 1 or (topic in INTERNAL_TOPICS and self._context.client_id != ADMIN_CLIENT):
            raise self._refusal(topic, data)
        partition = services.partitions.find(topic, index) or held_partition(services, topic, index)
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "The request holds no records for this partition.")
        now_ms = services.clock.wall_ms()  # not the request's: LogAppendTime does not fall with the offsets
        result = append_records(services, partition, records, acks, now_ms, self._context.api_version, checked, guard)
        return self.appended(index, partition, result, len(records))

    async def append_long(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append records that take long to validate. Raises KafkaError."""
        assert data.records is not None
        log = held_partition(self._services, topic, data.index).log
        checked = await validate_in_thread(
            log, data.records, now_ms=self._services.clock.wall_ms(), produce_version=self._context.api_version
        )
        return self.append(topic, data, checked)

    def append_verified(self, start: TransactionStart, topics: list[TopicProduceData]) -> Deferred[ProduceResponse]:
        """Append after the coordinator on another broker has responded. Later requests of the client are appended after
        these."""

        async def verified() -> list[Postponed]:
            await start.verify()
            return self.append_all(topics)

        return self._go_on_apart(verified(), "transaction verification")

    def append_apart(self, postponed: list[Postponed]) -> Deferred[ProduceResponse]:
        """Validate and append `postponed` in slices. Later requests of the client are appended after these."""
        return self._go_on_apart(_at_once(postponed), "long validation")

    def _go_on_apart(self, first: Coroutine[Any, Any, list[Postponed]], name: str) -> Deferred[ProduceResponse]:
        """Do `first`, then append the batches that it postpones, and respond."""
        answer: Deferred[Any] = Deferred(is_barrier=True)
        abandoned = asyncio.Event()
        answer.on_abandon(abandoned.set)
        self._services.tasks.spawn(self._finish(first, answer, abandoned), name=name)
        return answer

    async def _finish(
        self, first: Coroutine[Any, Any, list[Postponed]], answer: Deferred[Any], abandoned: asyncio.Event
    ) -> None:
        """Respond, or, if the client has left (`abandoned`), append without waiting for replicas."""
        for topic, data, rows, at in await first:
            try:
                rows[at] = await self.append_long(topic, data)
            except KafkaError as error:
                rows[at] = self.failed(topic, data.index, error)
        try:
            outcome = self.outcome()
        except CloseConnection as close:
            answer.complete(close)
            return
        if abandoned.is_set() and isinstance(outcome, Deferred):
            outcome.abandon()
            outcome = None
        answer.follow(outcome)

    def appended(
        self, index: int, partition: Partition, result: AppendResult, size_bytes: int
    ) -> PartitionProduceResponse:
        """Return the row of a partition whose records, of `size_bytes`, were appended."""
        row = _make_row(
            index=index,
            error_code=NO_ERROR,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        if not has_arrived(partition, result, self._acks):
            if self._acks == NO_ANSWER:
                count_until_written(self._services, partition, result.last_offset + 1, size_bytes)
            else:
                self._wait(partition, result.last_offset + 1, size_bytes, row)
        return row

    def _refusal(self, topic: str, data: PartitionProduceData) -> KafkaError:
        """Return why this append is not allowed, if nothing else is wrong. Raises other errors."""
        if not is_known(self._services, topic, data.index):
            held_partition(self._services, topic, data.index)
        check_batch(data, self._context.api_version)
        if not ALL_REPLICAS <= self._acks <= 1:
            return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={self._acks}: must be -1, 0 or 1.")
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to the internal topic {topic}.")

    def failed(self, topic: str, index: int, error: KafkaError) -> PartitionProduceResponse:
        """Return the row of a partition with an error."""
        if self.first_error is None:
            self.first_error = error
        row = PartitionProduceResponse(
            index=index, error_code=error.code, base_offset=NO_OFFSET, error_message=error.message
        )
        partition = self._services.partitions.find(topic, index)
        self._services.metrics.produce_failed(error, None if partition is None else topic)
        if partition is not None and error.code not in UNKNOWN_START_ERRORS and not isinstance(error, RequestRejected):
            row.log_start_offset = partition.log.log_start_offset
        if isinstance(error, RecordsRejected):
            row.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index_in_batch, batch_index_error_message=message)
                for index_in_batch, message in error.record_errors
            ]
        return row

    def outcome(self) -> ProduceResponse | Deferred[ProduceResponse] | None:
        """Return the response when every partition has its row. Raises CloseConnection for an error if there is no response."""
        if self._refusals:
            self._tell_refusals()
        if self._acks == NO_ANSWER:
            if self.first_error is not None:
                raise CloseConnection(f"produce with acks=0 failed: {self.first_error}")
            return None
        delayed = self._delayed
        return self.response() if delayed is None or not delayed.waits else self._park(delayed)

    def _tell_refusals(self) -> None:
        """Return the rows of partitions that are named more than once, for records that were not appended."""
        for topic in self.topics:
            rows = topic.partition_responses
            for at, row in enumerate(rows):
                refusal = self._refusals.get((topic.name, row.index))
                if refusal is not None and row.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    rows[at] = self.failed(topic.name, row.index, refusal)

    # --- waiting ---

    def _wait(self, partition: Partition, end_offset: int, size_bytes: int, row: PartitionProduceResponse) -> None:
        delayed = self._delayed
        if delayed is None:
            delayed = self._delayed = DelayedOperation(self._on_outcome)
        if self._acks == ALL_REPLICAS:
            delayed.wait_until_committed(partition, end_offset, (row, size_bytes))
        else:
            delayed.wait_until_written(partition, end_offset, (row, size_bytes))

    def _on_outcome(self, wait: Wait[WaitingRow], error: ErrorCode) -> None:
        if error is not NO_ERROR:
            row = wait.subject[0]
            row.error_code, row.base_offset = error, NO_OFFSET
            row.log_append_time_ms = row.log_start_offset = NO_OFFSET
            if error is ErrorCode.REQUEST_TIMED_OUT:
                self._wait_no_more(wait)

    def _park(self, delayed: DelayedOperation[WaitingRow]) -> Deferred[ProduceResponse]:
        """Wait for some partitions, and respond after the last of them. The frame is not kept for that, except by the log
        until it is written."""
        self._refusals, self.first_error = {}, None  # their tracebacks refer to the records
        if self._acks == ALL_REPLICAS:
            unwritten = [wait for wait in delayed.waits if not wait.partition.is_written(wait.offset)]
            self._unwritten_count = len(unwritten)
            self.deferred = Deferred(keeps_request=bool(unwritten))
            for wait in unwritten:
                wait.partition.log.writer.when_written(wait.offset, self._on_written)
            delayed.begin(self._complete, self._services.timer, self._timeout_ms)
        else:
            self.deferred = Deferred()
            delayed.begin(self._complete)
        self.deferred.on_abandon(self._abandon)
        return self.deferred

    def _complete(self) -> None:
        self._delayed = None
        assert self.deferred is not None
        self.deferred.complete(self.response())

    def _on_written(self, _: KafkaError | None) -> None:
        self._unwritten_count -= 1
        if self._unwritten_count == 0 and self.deferred is not None:
            self.deferred.release_frame()

    def _abandon(self) -> None:
        """Stop waiting: the client has disconnected. The records remain appended."""
        delayed, self._delayed = self._delayed, None
        if delayed is not None:
            for wait in delayed.cancel():
                self._wait_no_more(wait)

    def _wait_no_more(self, wait: Wait[WaitingRow]) -> None:
        if not wait.partition.is_written(wait.offset):
            count_until_written(self._services, wait.partition, wait.offset, wait.subject[1])

    # --- the response ---

    def response(self) -> ProduceResponse:
        response = _make_response(responses=self.topics)
        if self._context.api_version >= LEADER_HINT_VERSION:
            self._name_leaders(response)
        return response

    def _name_leaders(self, response: ProduceResponse) -> None:
        leaders: set[int] = set()
        for topic in self.topics:
            for row in topic.partition_responses:
                if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                known = known_leader(self._services, topic.name, row.index)
                if known is not None:
                    row.current_leader = LeaderIdAndEpoch(leader_id=known.broker_id, leader_epoch=known.leader_epoch)
                    leaders.add(known.broker_id)
        response.node_endpoints += endpoints_of(leaders, self._context, NodeEndpoint)
