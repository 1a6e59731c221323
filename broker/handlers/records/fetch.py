"""Fetch (key 1): records from the replicas of this broker, for consumers and for followers.

Behaviour: sessions (KIP-227) decide which partitions are read and which rows are sent; the fetch is parked until
`min_bytes` are readable, or its limits are reached, or `max_wait_ms` have passed; the first batch of the first partition
that has one is returned whatever its size. An error ends the wait immediately. A follower reads to the log end; its fetch
offset is its log end. A consumer that names its rack may be sent to a replica there (KIP-392), which serves it up to the
high watermark that the replica knows.
Rights: consumers read by topic, followers all or nothing, as the cluster. A session looks at all of its partitions again when
the rights of its client may have changed.
Versions below 4 need records down-converted (`fetch_message_sets`).
Source: KIP-74, 98, 227, 320, 392, 516, 595; Kafka KafkaApis.handleFetchRequest, DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.handlers.records.fetch_response import refused, response_bytes, response_of, throttled_response
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from replication.fetch_read import (
    NO_ERROR,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchReader,
    PartitionRead,
    available_bytes,
    fill,
    fill_cold,
    first_batch_bytes,
    inspect,
    reader_of,
    record_follower,
    watch,
)
from replication.fetch_sessions import NO_SESSION, FetchItem, FetchRights, ResolvedFetch
from runtime.slices import SHORT_ROWS, Slices
from security.access import CLUSTER_NAME, Operation, ResourceType, on_each

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from broker.services import Services
    from replication.partition import Partition
    from runtime.timer import TimerEntry

ZSTD_VERSION = 10
FIRST_VERSION_WITH_A_WHOLE_BATCH = 3
# A fetch of more partitions yields to other requests: checking one takes two microseconds, its row in the response five.
LONG_FETCH_ITEMS = 2 * SHORT_ROWS
STEP_ITEMS = 100
# A wait may last a sixty-fourth longer, up to this bound, so that the waits of many idle consumers end together.
LONGEST_SLACK_MS = 64
EVERYBODY: FetchRights = ()
"""The rights of all clients, where everybody may do everything."""


def slack_ms(max_wait_ms: int) -> int:
    return min(max_wait_ms // 64, LONGEST_SLACK_MS)


def rights_of(context: RequestContext) -> FetchRights:
    """Return what the client is and may, as far as it can change."""
    return context.principal, context.client_host, context.services.authorizer.changes_count


def fetch_all(
    request: FetchRequest,
    context: RequestContext,
    may_act: Rights,
    may_read: Rights,
    *,
    parked_type: Callable[..., ParkedFetch] | None = None,
    long_type: type[LongFetch] | None = None,
) -> FetchResponse | Deferred[FetchResponse]:
    services = context.services
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        return refused(request, context.api_version, ErrorCode.INVALID_REQUEST)
    rights = EVERYBODY if may_read.are_open else rights_of(context)
    resolved = services.fetch_sessions.resolve(request, context.api_version, services.clock.monotonic_ms(), rights)
    if resolved.error is not NO_ERROR:
        return FetchResponse(error_code=resolved.error, session_id=NO_SESSION, responses=[])
    if len(resolved.items) > LONG_FETCH_ITEMS:
        return (long_type or LongFetch)(request, context, resolved, may_act, may_read).begin(request.max_wait_ms)
    parked = (parked_type or ParkedFetch)(request, context, resolved, may_act, may_read)
    has_enough = parked.check(resolved.items)
    parked.record_follower()
    if (
        has_enough
        or request.max_wait_ms <= 0
        or not parked.is_interesting
        or (request.min_bytes > 1 and parked.is_enough_with_first_batch())
    ):
        return parked.answer()
    parked.park(request.max_wait_ms)
    return parked.deferred


FETCH_ACCESS = (
    on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),  # of followers
    on_each(Operation.READ, ResourceType.TOPIC),  # of consumers
)
fetch = handles(FetchRequest, FETCH_ACCESS, versions="4-18", errors=refused)(fetch_all)


def _readable(may_act: Rights, may_read: Rights, reader: FetchReader) -> Callable[[str], bool]:
    """Return whether the client may read a topic: as a follower all topics, or none."""
    if not reader.is_replica:
        return may_read.now
    is_broker = may_act(CLUSTER_NAME)
    return lambda _topic: is_broker


class ParkedFetch:
    """One fetch from its plan to its response, parked or not. It checks the touched partitions of its session when it
    arrives and while it waits. It completes once."""

    __slots__ = (
        "_available_bytes",
        "_context",
        "_max_bytes",
        "_may_read",
        "_min_bytes",
        "_reader",
        "_reads",
        "_resolved",
        "_services",
        "_takes_ranges",
        "_timer",
        "deferred",
        "is_interesting",
    )

    def __init__(
        self, request: FetchRequest, context: RequestContext, resolved: ResolvedFetch, may_act: Rights, may_read: Rights
    ) -> None:
        services = context.services
        self._context = context
        self._services: Services = services
        self._resolved = resolved
        self._takes_ranges = context.connection.takes_ranges
        self._reader = reader_of(request, context.api_version)
        max_bytes = min(request.max_bytes, services.settings.fetch_max_bytes)
        if services.quotas.fetch.is_on and not self._reader.is_replica:
            max_bytes = int(min(max_bytes, max(services.quotas.largest_fetch_bytes(context), 0)))
        self._max_bytes = max_bytes
        min_bytes = request.min_bytes
        self._min_bytes = min_bytes if min_bytes < max_bytes else max_bytes
        self._may_read = None if may_read.are_open else _readable(may_act, may_read, self._reader)
        self._reads: dict[FetchItem, PartitionRead] = {}
        self._available_bytes = 0
        self._timer: TimerEntry | None = None
        # Whether there is a partition to wait for: partitions that are not touched are watched.
        self.is_interesting = len(resolved.items) < len(resolved.session.items)

    # --- checking partitions ---

    def check(self, items: Sequence[FetchItem]) -> bool:
        """Check `items`; return whether the fetch can complete now. Partitions without records are watched from then on."""
        reads, is_parked, ends_waiting = self._reads, self._timer is not None, False
        for item in items:
            read = self._inspect(item)
            if is_parked and item in reads:
                self._available_bytes -= reads[item].available_bytes
            reads[item] = read
            if read.ends_waiting:  # an unreadable partition does, if it was removed meanwhile
                ends_waiting = ends_waiting or is_parked or not read.is_unread
            else:
                self.is_interesting = True
                self._available_bytes += read.available_bytes
                if not read.has_records:
                    watch(read, self._reader)
        if ends_waiting or self._available_bytes >= self._min_bytes:
            return True
        if is_parked:
            self._watch_for_more(reads[item] for item in items)
        return False

    def is_enough_with_first_batch(self) -> bool:
        """Return whether the first batch, which is returned whatever its size, makes `min_bytes`, before the wait begins; a
        cold batch is assumed to. A fetch that waits already counts up to the partitions' limits, as Kafka does."""
        if self._context.api_version < FIRST_VERSION_WITH_A_WHOLE_BATCH:
            return False
        for read in self._reads.values():
            if read.available_bytes == 0:
                continue
            if read.available_bytes < read.item.max_bytes:
                return False  # all readable bytes are counted already
            try:
                first_bytes = first_batch_bytes(read)
            except KafkaError:
                return True  # the response must report it
            if first_bytes == 0:
                continue  # the records up to the end of reading were compacted away
            return first_bytes is None or self._available_bytes - read.available_bytes + first_bytes >= self._min_bytes
        return False

    def record_follower(self, reads: Iterable[PartitionRead] | None = None) -> None:
        """Record the follower's log ends from its fetch offsets: once, when the fetch has arrived and was checked."""
        if self._reader.is_replica:
            now_ms = self._services.clock.monotonic_ms()
            for read in self._reads.values() if reads is None else reads:
                record_follower(read, self._reader, now_ms)

    def _inspect(self, item: FetchItem) -> PartitionRead:
        partitions = self._services.partitions
        if item.topic:
            partition = partitions.find(item.topic, item.partition)
        else:
            partition = partitions.find_by_id(item.topic_id, item.partition)
        if partition is None:
            return PartitionRead(item, None, self._missing(item))
        item.known_topic = partition.topic
        if self._may_read is not None and not self._may_read(partition.topic):
            return PartitionRead(item, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = self._refusal(item, partition)
        if error is not None:
            refused = PartitionRead(item, partition, error)
            if refused.is_unread:
                refused.records = None
            return refused
        read = inspect(item, partition, self._reader)
        if self._reader.rack and read.error is NO_ERROR and partition.may_redirect:
            self._redirect_to_rack(read, partition)
        read.available_bytes = available_bytes(read, exactly=self._min_bytes > 1)
        return read

    def _redirect_to_rack(self, read: PartitionRead, partition: Partition) -> None:
        """Send the consumer to a replica in its rack, if that replica has the fetch offset."""
        image, listener = self._services.metadata.image, self._context.listener

        def rack_of(broker_id: int) -> str | None:
            return None if image.endpoint(broker_id, listener) is None else image.brokers[broker_id].rack

        preferred = partition.preferred_read_replica(
            self._reader.rack, read.item.fetch_offset, rack_of, self._services.clock.monotonic_ms()
        )
        if preferred is not None:
            read.redirect(preferred)

    def _refusal(self, item: FetchItem, partition: Partition) -> ErrorCode | None:
        """Return why a local partition is not read for this request, or None."""
        if self._max_bytes < 0 or item.max_bytes < 0:
            return ErrorCode.INVALID_REQUEST
        if self._context.api_version < ZSTD_VERSION and partition.log.config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    def _missing(self, item: FetchItem) -> ErrorCode:
        """Return the error for a partition without a replica on this broker."""
        image = self._services.metadata.image
        name = item.topic or image.names_by_id.get(item.topic_id, "")
        if self._may_read is not None and (name or self._reader.is_replica) and not self._may_read(name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = image.topics.get(name)
        if topic is None:
            if not item.topic and item.known_topic in image.topics:
                return ErrorCode.INCONSISTENT_TOPIC_ID  # deleted and created again under its name
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if item.topic else ErrorCode.UNKNOWN_TOPIC_ID
        if item.partition not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._services.partitions.is_offline(topic.name, item.partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- waiting ---

    deferred: Deferred[FetchResponse]
    """There is one when it waits."""

    def park(self, max_wait_ms: int) -> None:
        self.deferred = Deferred(abandoned=self._abandon, expedited=self._on_deadline)
        if self._available_bytes or self._min_bytes > 1:  # else no partition has records
            self._watch_for_more(self._reads.values())
        self._resolved.session.parked = self
        self._timer = self._services.timer.schedule(max_wait_ms, self._on_deadline, slack_ms(max_wait_ms))

    def _watch_for_more(self, reads: Iterable[PartitionRead]) -> None:
        """Watch partitions that have records, but not enough."""
        for read in reads:
            if read.has_records:
                watch(read, self._reader)

    def on_progress(self) -> None:
        """Partitions advanced or were removed: complete if that is enough, else keep waiting."""
        session = self._resolved.session
        if session.parked is self and self.check(session.take()):
            self._complete()

    def _on_deadline(self) -> None:
        if self._timer is None:
            return  # expedited while its response is being built
        self._services.metrics.fetch_expired(is_replica=self._reader.is_replica)
        if self._services.fetch_sessions.is_current(self._resolved):
            self.check(self._resolved.session.take())
        self._complete()

    def _complete(self) -> None:
        self._stop_waiting()
        answer = self.answer()
        if isinstance(answer, FetchResponse):
            self.deferred.complete(answer)
        else:
            self.deferred.on_abandon(answer.abandon)
            answer.then(self.deferred.complete)

    def _abandon(self) -> None:
        self._stop_waiting()
        self._services.fetch_sessions.end(self._resolved)

    def _stop_waiting(self) -> None:
        session = self._resolved.session
        if session.parked is self:
            session.parked = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- the response ---

    def answer(self) -> FetchResponse | Deferred[FetchResponse]:
        """Read the records and build the response; it is deferred when memory is short, or when records are cold."""
        reads = list(self._reads.values())
        if len(reads) > 1:
            reads.sort(key=_answering_order)
        response_memory = self._services.response_memory
        room = response_memory.room()
        if room > 0 or not any(read.has_records for read in reads):
            return self._read(reads, room)
        later: Deferred[FetchResponse] = Deferred()
        ticket = response_memory.wait(lambda: self._read_into(reads, later))

        def leave_queue() -> None:
            response_memory.leave_queue(ticket)
            self._services.fetch_sessions.end(self._resolved)

        later.on_abandon(leave_queue)
        return later

    def _read_into(self, reads: list[PartitionRead], later: Deferred[FetchResponse]) -> None:
        answer = self._read(reads, self._services.response_memory.room())
        if isinstance(answer, FetchResponse):
            later.complete(answer)
        else:
            answer.then(later.complete)

    def _read(self, reads: list[PartitionRead], room: int) -> FetchResponse | Deferred[FetchResponse]:
        left = allowed = min(self._max_bytes, room)
        at_least_one = True
        for index, read in enumerate(reads):
            count = fill(read, left, at_least_one=at_least_one, takes_ranges=self._takes_ranges)
            if count < 0:
                cold = partial(self._answer_cold, reads, index, left, at_least_one)
                return self._answer_later(cold, allowed - left + self._may_take(reads, left), "cold fetch")
            if count:
                left, at_least_one = left - count, False
        return self._response(reads)

    def _may_take(self, reads: list[PartitionRead], left: int) -> int:
        return max(min(left, sum(max(read.item.max_bytes, 0) for read in reads)), 0)  # a request for less is refused

    def _answer_later(
        self, work: Callable[[], Awaitable[FetchResponse]], reserved: int, name: str
    ) -> Deferred[FetchResponse]:
        """Run `work` in a task and complete with its response. The bytes already read and those it may read stay reserved
        until it ends: fetches that begin together must not reserve the same memory twice."""
        later: Deferred[FetchResponse] = Deferred()
        budget = self._services.response_memory.budget

        async def answer() -> None:
            try:
                response = await work()
            finally:
                budget.release(reserved)
            later.complete(response)

        self._services.tasks.spawn(answer(), name=name)
        budget.reserve_anyway(reserved)
        return later

    async def _answer_cold(
        self, reads: list[PartitionRead], start: int, left: int, at_least_one: bool
    ) -> FetchResponse:
        """Read from `reads[start]` on, whose records are cold, and respond."""
        for index, read in enumerate(reads[start:]):
            count = fill(read, left, at_least_one=at_least_one, takes_ranges=self._takes_ranges) if index else -1
            if count < 0:
                count = await fill_cold(read, left, at_least_one=at_least_one)
            if count:
                left, at_least_one = left - count, False
        return self._response(reads)

    def _throttled(self, reads: list[PartitionRead]) -> FetchResponse | None:
        """Charge a consumer for what was read; return a response without records if it is above its quota."""
        services, context = self._services, self._context
        if self._reader.is_replica or not services.fetch_sessions.is_current(self._resolved):
            return None
        throttle_time_ms = services.quotas.throttle_fetch(context, response_bytes(reads))
        if not throttle_time_ms:
            return None
        services.fetch_sessions.withdraw(self._resolved)
        return throttled_response(self._resolved, throttle_time_ms)

    def _response(self, reads: list[PartitionRead]) -> FetchResponse:
        if self._services.quotas.counts_fetches:
            throttled = self._throttled(reads)
            if throttled is not None:
                return throttled
        return response_of(reads, self._resolved, self._reader, self._context)


class LongFetch(ParkedFetch):
    """A fetch of many partitions: it yields to other requests while it checks them, and while it builds its response."""

    __slots__ = ()

    def begin(self, max_wait_ms: int) -> Deferred[FetchResponse]:
        checking = self._services.tasks.spawn(self._check_all(max_wait_ms), name="long fetch")

        def leave() -> None:
            checking.cancel()
            self._services.fetch_sessions.end(self._resolved)

        def expedite() -> None:
            self._min_bytes = 0  # it will not wait

        self.deferred = Deferred(abandoned=leave, expedited=expedite)
        return self.deferred

    async def _check_all(self, max_wait_ms: int) -> None:
        """Check all partitions, then complete or park. A checked one is watched: it may change before the last is checked."""
        resolved, has_enough = self._resolved, False
        items, sessions = resolved.items, self._services.fetch_sessions
        async with self._line(len(items)) as slices:
            for at in range(0, len(items), STEP_ITEMS):
                if not sessions.is_current(resolved):
                    break  # its client has sent another fetch, and may have removed these
                some = items[at : at + STEP_ITEMS]
                has_enough |= self.check(some)
                reads = [self._reads[item] for item in some]
                self.record_follower(reads)
                self._watch_for_more(reads)
                await slices.yield_if_due()
        may_wait = max_wait_ms > 0 and self._min_bytes > 0 and self.is_interesting and sessions.is_current(resolved)
        if has_enough or not may_wait or (self._min_bytes > 1 and self.is_enough_with_first_batch()):
            self._complete()
            return
        begun = self.deferred
        self.park(max_wait_ms)
        begun.follow(self.deferred)
        if resolved.session.touched:
            self.on_progress()

    def _line(self, rows_count: int) -> AbstractAsyncContextManager[Slices]:
        """Large responses are built one at a time, except those for the few followers: producers wait for them."""
        return self._services.serial_queue.begin(0 if self._reader.is_replica else rows_count)

    def _read(self, reads: list[PartitionRead], room: int) -> FetchResponse | Deferred[FetchResponse]:
        left = min(self._max_bytes, room)
        return self._answer_later(partial(self._answer_all, reads, left), self._may_take(reads, left), "long fetch")

    async def _answer_all(self, reads: list[PartitionRead], left: int) -> FetchResponse:
        at_least_one = self._context.api_version >= FIRST_VERSION_WITH_A_WHOLE_BATCH
        async for read in Slices(self._services.clock).over(reads):
            count = fill(read, left, at_least_one=at_least_one, takes_ranges=self._takes_ranges)
            if count < 0:
                count = await fill_cold(read, left, at_least_one=at_least_one)
            if count:
                left, at_least_one = left - count, False
            if read.error is NO_ERROR:
                await self._convert(read)
        return await self._response_of_all(reads)

    async def _convert(self, read: PartitionRead) -> None:
        """Convert the batches to the format of the client's version: from version 4 on there is nothing to convert."""

    async def _response_of_all(self, reads: list[PartitionRead]) -> FetchResponse:
        if len(reads) <= LONG_FETCH_ITEMS:
            return self._response(reads)
        response = self._throttled(reads) if self._services.quotas.counts_fetches else None
        if response is not None:
            return response
        async with self._line(len(reads)) as slices:
            for at in range(0, len(reads), STEP_ITEMS):
                some, is_last = reads[at : at + STEP_ITEMS], at + STEP_ITEMS >= len(reads)
                response = response_of(some, self._resolved, self._reader, self._context, response, is_last=is_last)
                await slices.yield_if_due()
        assert response is not None
        return response


def _answering_order(read: PartitionRead) -> tuple[bool, int]:
    """Sort key: unreadable partitions come first, as in Kafka; then the session's order of reading."""
    return not read.is_unread, read.item.place
