"""Fetch (key 1): records from the partitions this broker leads.

Behaviour: sessions (KIP-227) decide which partitions are read and which answers are sent; the fetch is parked until
`min_bytes` are readable or `max_wait_ms` have passed; the first batch of the first partition that has one is answered
however large it is. Errors end the wait at once.
Versions below 4 need records converted down and are not served.
Source: KIP-74, 98, 227, 320, 392, 516, 595; Kafka KafkaApis.handleFetchRequest, DelayedFetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.context import Deferred, RequestContext
from broker.dispatch import handles
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from replication.fetch_read import UNKNOWN_EPOCH, PartitionRead, available_bytes, fill, fill_cold, inspect
from replication.fetch_sessions import NO_SESSION, FetchItem, ResolvedFetch

if TYPE_CHECKING:
    from broker.services import Services
    from replication.partition import Partition
    from runtime.timer import TimerEntry

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
CONSUMER = -1
NO_OFFSET = -1
ZSTD_VERSION = 10
TOPIC_IDS_VERSION = 13
LEADER_HINT_VERSION = 16
# Errors that are found before the partition is looked at.
UNREAD_ERRORS = frozenset({ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
# Errors after which a client must look for another leader: the answer names it (KIP-951).
LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@handles(FetchRequest, versions="4-17")
def fetch(request: FetchRequest, context: RequestContext) -> FetchResponse | Deferred[FetchResponse]:
    services = context.services
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        return _refused(request, ErrorCode.INVALID_REQUEST, context.api_version)
    resolved = services.fetch_sessions.resolve(request, context.api_version, services.clock.monotonic_ms())
    if resolved.error != ErrorCode.NONE:
        return FetchResponse(error_code=resolved.error, session_id=NO_SESSION, responses=[])
    parked = ParkedFetch(request, context, resolved)
    if parked.has_enough() or request.max_wait_ms <= 0 or not parked.is_interesting:
        return parked.answer()
    parked.park(request.max_wait_ms)
    return parked.deferred


def _refused(request: FetchRequest, error: ErrorCode, version: int) -> FetchResponse:
    """A request that makes no sense: partitions by name answer so too, since versions below 7 have no other error."""
    topics = request.topics if version < TOPIC_IDS_VERSION else []
    return FetchResponse(
        error_code=error,
        session_id=NO_SESSION,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=row.partition,
                        error_code=error,
                        high_watermark=NO_OFFSET,
                        last_stable_offset=NO_OFFSET,
                        log_start_offset=NO_OFFSET,
                        records=None,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


class ParkedFetch:
    """One fetch from its plan to its answer, parked or not. Answers once, then stands in no list."""

    __slots__ = (
        "_context",
        "_items",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_read_committed",
        "_reads",
        "_replica_id",
        "_resolved",
        "_services",
        "_timer",
        "deferred",
        "is_interesting",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, resolved: ResolvedFetch) -> None:
        services = context.services
        self._context = context
        self._services: Services = services
        self._resolved = resolved
        self._items = resolved.items
        self._min_bytes = request.min_bytes
        self._max_bytes = min(request.max_bytes, services.settings.fetch_max_bytes)
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._replica_id = max(request.replica_id, request.replica_state.replica_id)
        self._reads: list[PartitionRead] = []
        self._timer: TimerEntry | None = None
        self.deferred: Deferred[FetchResponse] = Deferred()
        self.is_interesting = False

    # --- waiting ---

    def has_enough(self) -> bool:
        """Look at every partition again; whether the answer can be given now."""
        self._reads = reads = []
        min_bytes, exactly = self._min_bytes, self._min_bytes > 1
        read_committed = self._read_committed
        available, ends_waiting, is_interesting = 0, False, False
        for item in self._items:
            read = self._inspect(item, read_committed)
            reads.append(read)
            if read.partition is None:
                continue
            is_interesting = True
            if read.ends_waiting:
                ends_waiting = True
            else:
                available += available_bytes(read, exactly=exactly)
        self.is_interesting = is_interesting
        return ends_waiting or available >= min_bytes

    def _inspect(self, item: FetchItem, read_committed: bool) -> PartitionRead:
        partitions = self._services.partitions
        if item.topic:
            partition = partitions.find(item.topic, item.partition)
        else:
            partition = partitions.find_by_id(item.topic_id, item.partition)
        if partition is None:
            return PartitionRead(item, None, self._missing(item))
        item.known_topic = partition.topic
        error = self._refusal(item, partition)
        if error is not None:
            refused = PartitionRead(item, None if error in UNREAD_ERRORS else partition, error)
            if error in UNREAD_ERRORS:
                refused.records = None
            return refused
        return inspect(item, partition, read_committed=read_committed)

    def _refusal(self, item: FetchItem, partition: Partition) -> ErrorCode | None:
        """Why a partition that is here is not read for this request."""
        if self._max_bytes < 0 or item.max_bytes < 0:
            return ErrorCode.INVALID_REQUEST
        if self._replica_id > CONSUMER and (
            self._replica_id == self._services.broker_id or self._replica_id not in partition.replicas
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._context.api_version < ZSTD_VERSION and partition.log.config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    def _missing(self, item: FetchItem) -> ErrorCode:
        """Why this broker does not hold the partition."""
        image = self._services.metadata.image
        topic = image.topics.get(item.topic or image.names_by_id.get(item.topic_id, ""))
        if topic is None:
            if not item.topic and item.known_topic in image.topics:
                return ErrorCode.INCONSISTENT_TOPIC_ID  # deleted and made anew under its name
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if item.topic else ErrorCode.UNKNOWN_TOPIC_ID
        if item.partition not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def park(self, max_wait_ms: int) -> None:
        for read in self._reads:
            if read.partition is not None:
                read.partition.park_fetch(self, read_committed=self._read_committed)
        self._timer = self._services.timer.schedule(max_wait_ms, self._on_deadline)
        self.deferred.on_abandon(self._leave)
        self.deferred.on_hurry(self._on_deadline)

    def on_progress(self) -> None:
        """A partition moved or went away: answer if that is enough, else wait on."""
        waited_for = [read.partition for read in self._reads]
        if self.has_enough() or [read.partition for read in self._reads] != waited_for:
            self._complete()

    def _on_deadline(self) -> None:
        self.has_enough()
        self._complete()

    def _complete(self) -> None:
        self._leave()
        answer = self.answer()
        if isinstance(answer, FetchResponse):
            self.deferred.complete(answer)
        else:
            self.deferred.on_abandon(answer.abandon)
            answer.then(self.deferred.complete)

    def _leave(self) -> None:
        for read in self._reads:
            if read.partition is not None:
                read.partition.leave_fetch(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- answering ---

    def answer(self) -> FetchResponse | Deferred[FetchResponse]:
        """Read the records and build the response; deferred when memory is short, or some of them are cold."""
        answers = self._services.answers
        room = answers.room()
        if room > 0 or not self._has_records():
            return self._read(room)
        later: Deferred[FetchResponse] = Deferred()
        ticket = answers.wait(lambda: self._read_into(later))
        later.on_abandon(lambda: answers.leave_line(ticket))
        return later

    def _has_records(self) -> bool:
        return any(read.item.fetch_offset < read.limit_offset for read in self._reads)

    def _read_into(self, later: Deferred[FetchResponse]) -> None:
        answer = self._read(self._services.answers.room())
        if isinstance(answer, FetchResponse):
            later.complete(answer)
        else:
            answer.then(later.complete)

    def _read(self, room: int) -> FetchResponse | Deferred[FetchResponse]:
        left, at_least_one = min(self._max_bytes, room), True
        for index, read in enumerate(self._reads):
            count = fill(read, left, at_least_one=at_least_one)
            if count < 0:
                later: Deferred[FetchResponse] = Deferred()
                self._services.tasks.spawn(self._answer_cold(index, left, at_least_one, later), name="cold fetch")
                return later
            if count:
                left, at_least_one = left - count, False
        return self._response()

    async def _answer_cold(self, start: int, left: int, at_least_one: bool, later: Deferred[FetchResponse]) -> None:
        """What may be read is reserved meanwhile: reads that wait for the disk together must not take it twice."""
        budget = self._services.answers.budget
        reserved = min(left, sum(max(read.item.max_bytes, 0) for read in self._reads))
        budget.reserve_anyway(reserved)
        try:
            for read in self._reads[start:]:
                count = fill(read, left, at_least_one=at_least_one)
                if count < 0:
                    count = await fill_cold(read, left, at_least_one=at_least_one)
                if count:
                    left, at_least_one = left - count, False
        finally:
            budget.release(reserved)
        later.complete(self._response())

    def _response(self) -> FetchResponse:
        sessions = self._services.fetch_sessions
        resolved = self._resolved
        if not sessions.is_current(resolved):
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=resolved.session_id, responses=[]
            )
        topics: list[FetchableTopicResponse] = []
        topic_key: str | bytes | None = None
        leaders: set[int] = set()
        version = self._context.api_version
        reads = self._reads
        if any(read.partition is None for read in reads):  # as Kafka: first what could not be read at all
            reads = sorted(reads, key=lambda read: read.partition is not None)
        for read in reads:
            row = _row(read, read_committed=self._read_committed)
            if version >= LEADER_HINT_VERSION and read.error in LEADER_ERRORS:
                self._name_leader(read, row, leaders)
            records_bytes = len(read.records or b"")
            if not sessions.include(resolved, read.item, row, records_bytes):
                continue
            if records_bytes:
                self._services.metrics.fetched(self._topic_name(read), records_bytes)
            item = read.item
            if topic_key != item.key[0]:
                topic_key = item.key[0]
                topics.append(FetchableTopicResponse(topic=item.topic, topic_id=item.topic_id, partitions=[]))
            topics[-1].partitions.append(row)
        return FetchResponse(
            error_code=ErrorCode.NONE,
            session_id=resolved.session_id,
            responses=topics,
            node_endpoints=self._endpoints(leaders) if leaders else [],
        )

    def _topic_name(self, read: PartitionRead) -> str:
        return read.item.topic if read.partition is None else read.partition.topic

    def _name_leader(self, read: PartitionRead, row: PartitionData, leaders: set[int]) -> None:
        known = self._services.metadata.image.partition(self._topic_name(read), read.item.partition)
        if known is not None:
            row.current_leader = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
            leaders.add(known.leader)

    def _endpoints(self, leaders: set[int]) -> list[NodeEndpoint]:
        image, context = self._services.metadata.image, self._context
        endpoints: list[NodeEndpoint] = []
        for broker in sorted(leaders):
            address = self._services.advertised.endpoint(image, broker, context.listener, context.local_address)
            if address is not None:
                rack = image.brokers[broker].rack
                endpoints.append(NodeEndpoint(node_id=broker, host=address.host, port=address.port, rack=rack))
        return endpoints


def _row(read: PartitionRead, *, read_committed: bool) -> PartitionData:
    if read.partition is None:
        has_list = read.error != ErrorCode.INCONSISTENT_TOPIC_ID
    else:
        has_list = read_committed and read.error == ErrorCode.NONE
    row = PartitionData(
        partition_index=read.item.partition,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=[] if has_list else None,
        records=read.records,
    )
    if read.diverging_epoch != UNKNOWN_EPOCH:
        row.diverging_epoch = EpochEndOffset(epoch=read.diverging_epoch, end_offset=read.diverging_end_offset)
    return row
