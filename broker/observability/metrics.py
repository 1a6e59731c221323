"""The counters of the broker: topics, replication, requests, groups. They are read at each scrape.

Rules: counting is adding to plain ints of slotted objects on the event loop: no locks, no clock except one read at each
end of a request, no allocation after the first request of a kind.
Invariants: the number of counters is bounded by topics, API versions, error codes and reasons that exist; a name that
a client sent without such a topic existing never becomes a label.
Source: Kafka BrokerTopicStats, RequestChannel.Metrics, GroupCoordinatorMetrics, ZooKeeperClient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from broker.observability.authentication_metrics import AuthenticationCounters
from broker.observability.counter_rate import CounterRate
from broker.observability.request_metrics import RequestMetrics
from broker.observability.share_metrics import ShareMetrics
from metadata.store.port import SessionEvent
from protocol.errors import ErrorCode
from protocol.records.invalid import Fault, InvalidBatch
from runtime.distribution import Distribution
from runtime.monitoring.metric import Sample, summary_samples
from storage.log.record_errors import RecordsRejected, RecordsTooLarge

if TYPE_CHECKING:
    from metadata.store.store_use import StoreUse
    from protocol.errors import KafkaError
    from runtime.clock import Clock

NS_PER_MS = 1_000_000
ALL_TOPICS = ("",)
"""The labels of a sum over all topics, as in Kafka: none."""
_RARE = frozenset({
    table.FAILED_PRODUCE, table.FAILED_FETCH, table.BYTES_REJECTED, table.TOTAL_SHARE_FETCH, table.TOTAL_SHARE_ACKNOWLEDGE,
})  # fmt: skip
"""As in Kafka, a topic has these from the first time on."""
_NOT_ASKED = frozenset(
    {
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of requests that ask for no append, as in Kafka."""
_EXPECTED = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors of appends that do not count as failures, as in Kafka's ReplicaManager.appendToLocalLog."""


class _TopicCounters:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "share_acknowledges",
        "share_fetches",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = self.produces = self.fetches = 0
        self.bytes_rejected = self.failed_fetches = self.failed_produces = 0
        self.share_fetches = self.share_acknowledges = 0

    def add(self, other: _TopicCounters) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Conversions:
    """The counters of conversions for one kind of request."""

    __slots__ = ("records_count", "request", "times")

    def __init__(self, request: str) -> None:
        self.request = request
        self.records_count = 0
        self.times = Distribution()

    def add(self, records_count: int, time_ms: int) -> None:
        self.records_count += records_count
        self.times.add(time_ms * NS_PER_MS)


class BrokerMetrics:
    """The counters. Implements `coordinator.group_observation.GroupMetrics`, `replication.dependencies.ReplicationMetrics`
    and `replication.followers.fetcher.CopyMetrics`."""

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        self.requests = RequestMetrics(clock)
        self.shares = ShareMetrics()
        self.authentication = AuthenticationCounters()
        self.authorization_rate, self.allowed_rate, self.denied_rate = CounterRate(), CounterRate(), CounterRate()
        self._deleted_topics = _TopicCounters()  # the sums over all topics do not fall when one is deleted
        self._topics: dict[str, _TopicCounters] = {}
        self._produce_conversions, self._fetch_conversions = _Conversions("Produce"), _Conversions("Fetch")
        self._keyless = 0
        self._faults: Counter[Fault] = Counter()
        self._expired_consumer_fetches = self._expired_follower_fetches = 0
        self._replication_bytes_in = self._reassignment_bytes_in = 0
        self._replication_bytes_out = self._reassignment_bytes_out = 0
        self._session_events: Counter[SessionEvent] = Counter()
        self._session_state: SessionEvent | None = None
        self._store_use: StoreUse | None = None
        self._isr_expands = self._isr_shrinks = self._isr_failures = 0
        self._failed_verifications = 0
        self._verifications = Distribution()
        self._rebalances: Counter[str] = Counter()
        self._rebalances_completed = 0
        self._offsets_committed = self._offsets_expired = self._offsets_deleted = self._consumer_group_rebalances = 0
        self._share_group_rebalances = 0

    # --- topics ---

    def produced(self, topic: str, size_bytes: int, records_count: int) -> None:
        """Count an append to one partition of an existing topic; `records_count` is 0 for a repeated batch."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = _TopicCounters()
        counters.produces += 1
        counters.bytes_in += size_bytes
        counters.messages_in += records_count

    def produce_failed(self, error: KafkaError, topic: str | None) -> None:
        """Count an append that was refused; `topic` is None where this broker holds no such partition."""
        code = error.code
        if topic is not None and code not in _NOT_ASKED:
            counters = self._topics.get(topic)
            if counters is None:
                counters = self._topics[topic] = _TopicCounters()
            counters.produces += 1
            counters.failed_produces += code not in _EXPECTED
            if isinstance(error, RecordsTooLarge):
                counters.bytes_rejected += error.size_bytes
        if isinstance(error, InvalidBatch):
            if error.fault is not None:
                self._faults[error.fault] += 1
        elif isinstance(error, RecordsRejected):
            self._keyless += error.keyless_count

    def fetch_failed(self, topic: str) -> None:
        """Count a partition that could not be read, for a reason that is neither the client's nor the cluster's."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = _TopicCounters()
        counters.failed_fetches += 1

    def fetch_expired(self, *, is_replica: bool) -> None:
        """Count a fetch whose wait has ended before there were enough bytes."""
        if is_replica:
            self._expired_follower_fetches += 1
        else:
            self._expired_consumer_fetches += 1

    def fetched(self, topic: str, size_bytes: int) -> None:
        """Count records of one partition of an existing topic that are sent to a client."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = _TopicCounters()
        counters.fetches += 1
        counters.bytes_out += size_bytes

    def share_fetched(self, topic: str, size_bytes: int) -> None:
        """As `fetched`, for a member of a share group."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = _TopicCounters()
        counters.share_fetches += 1
        counters.bytes_out += size_bytes

    def share_acknowledged(self, topic: str) -> None:
        """Count the acknowledgements of one partition of an existing topic in a request."""
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = _TopicCounters()
        counters.share_acknowledges += 1

    def produce_converted(self, records_count: int, time_ms: int) -> None:
        """Count records of one partition that were converted to the format of the log."""
        self._produce_conversions.add(records_count, time_ms)

    def fetch_converted(self, records_count: int, time_ms: int) -> None:
        """Count records of one partition that were converted to the format of an old client."""
        self._fetch_conversions.add(records_count, time_ms)

    def keep_topics(self, existing: Iterable[str]) -> None:
        """Remove the counters of topics that no longer exist; the sums over all topics keep them."""
        for topic in self._topics.keys() - set(existing):
            self._deleted_topics.add(self._topics.pop(topic))

    # --- replication ---

    def isr_expanded(self) -> None:
        self._isr_expands += 1

    def isr_shrunk(self) -> None:
        self._isr_shrinks += 1

    def isr_change_failed(self) -> None:
        self._isr_failures += 1

    def sent_to_replica(self, size_bytes: int, *, is_reassignment: bool) -> None:
        self._replication_bytes_out += size_bytes
        if is_reassignment:
            self._reassignment_bytes_out += size_bytes

    def copied(self, size_bytes: int, *, is_reassignment: bool) -> None:
        self._replication_bytes_in += size_bytes
        if is_reassignment:
            self._reassignment_bytes_in += size_bytes

    # --- transactions ---

    def verification_failed(self, partitions_count: int) -> None:
        """A transaction's coordinator did not confirm these partitions."""
        self._failed_verifications += partitions_count

    def verified(self, time_ms: int) -> None:
        """A transaction's coordinator has answered, or could not be asked."""
        self._verifications.add(time_ms * NS_PER_MS)

    # --- the coordination store ---

    def use_store(self, use: StoreUse) -> None:
        """Show what this store's client measures."""
        self._store_use = use

    def on_store_session(self, event: SessionEvent) -> None:
        """Count an event of the store's session. Without any there are no such metrics: the store has no sessions."""
        self._session_events[event] += 1
        self._session_state = event

    # --- groups ---

    def rebalance_started(self, reason: str) -> None:
        self._rebalances[reason] += 1

    def rebalance_completed(self) -> None:
        self._rebalances_completed += 1

    def consumer_group_rebalanced(self) -> None:
        self._consumer_group_rebalances += 1

    def share_group_rebalanced(self) -> None:
        self._share_group_rebalances += 1

    def offsets_committed(self, count: int) -> None:
        self._offsets_committed += count

    def offsets_expired(self, count: int) -> None:
        self._offsets_expired += count

    def offsets_deleted(self, count: int) -> None:
        self._offsets_deleted += count

    # --- reading ---

    def samples(self) -> Iterator[Sample]:
        """Yield all counters, those of one metric together."""
        yield from self._topic_samples()
        yield Sample(table.REPLICATION_IN, (), self._replication_bytes_in)
        yield Sample(table.REASSIGNMENT_IN, (), self._reassignment_bytes_in)
        yield Sample(table.REPLICATION_OUT, (), self._replication_bytes_out)
        yield Sample(table.REASSIGNMENT_OUT, (), self._reassignment_bytes_out)
        yield Sample(table.ISR_SHRINKS, (), self._isr_shrinks)
        yield Sample(table.ISR_EXPANDS, (), self._isr_expands)
        yield Sample(table.FAILED_ISR_UPDATES, (), self._isr_failures)
        yield Sample(table.VERIFICATION_FAILURES, (), self._failed_verifications)
        now_ms = self._now_ms()
        yield from summary_samples(table.VERIFICATION_TIME, [((), self._verifications)], now_ms)
        yield from self._session_samples(now_ms)
        yield from self.requests.samples(now_ms)
        yield from self._conversion_samples(now_ms)
        for metric, labels, value in self.authentication.values(now_ms):
            yield Sample(metric, labels, value)
        yield Sample(table.EXPIRED_KILLED, (), self.authentication.killed_count)
        yield Sample(table.OFFSET_COMMITS, (), self._offsets_committed)
        yield Sample(table.OFFSET_EXPIRATIONS, (), self._offsets_expired)
        yield Sample(table.OFFSET_DELETIONS, (), self._offsets_deleted)
        yield Sample(table.REBALANCES_DONE, (), self._rebalances_completed)
        yield Sample(table.CONSUMER_REBALANCES, (), self._consumer_group_rebalances)
        yield Sample(table.SHARE_REBALANCES, (), self._share_group_rebalances)
        yield from self.shares.samples(now_ms)
        for reason, count in list(self._rebalances.items()):
            yield Sample(table.REBALANCES, (reason,), count)

    def _topic_samples(self) -> Iterator[Sample]:
        topics = list(self._topics.items())
        for metric, attribute in (
            (table.MESSAGES_IN, "messages_in"),
            (table.BYTES_IN, "bytes_in"),
            (table.BYTES_OUT, "bytes_out"),
            (table.TOTAL_PRODUCE, "produces"),
            (table.TOTAL_FETCH, "fetches"),
            (table.FAILED_PRODUCE, "failed_produces"),
            (table.FAILED_FETCH, "failed_fetches"),
            (table.BYTES_REJECTED, "bytes_rejected"),
            (table.TOTAL_SHARE_FETCH, "share_fetches"),
            (table.TOTAL_SHARE_ACKNOWLEDGE, "share_acknowledges"),
        ):
            deleted = getattr(self._deleted_topics, attribute)
            yield Sample(metric, ALL_TOPICS, deleted + sum(getattr(counters, attribute) for _, counters in topics))
            for topic, counters in topics:
                count = getattr(counters, attribute)
                if count or metric not in _RARE:
                    yield Sample(metric, (topic,), count)
        yield Sample(table.INVALID_CRC, (), self._faults[Fault.CRC])
        yield Sample(table.INVALID_MAGIC, (), self._faults[Fault.MAGIC])
        yield Sample(table.INVALID_SEQUENCE, (), self._faults[Fault.OFFSET_OR_SEQUENCE])
        yield Sample(table.KEYLESS, (), self._keyless)
        yield Sample(table.FETCHES_EXPIRED, ("consumer",), self._expired_consumer_fetches)
        yield Sample(table.FETCHES_EXPIRED, ("follower",), self._expired_follower_fetches)
        yield Sample(table.PRODUCE_CONVERSIONS, (), self._produce_conversions.records_count)
        yield Sample(table.FETCH_CONVERSIONS, (), self._fetch_conversions.records_count)

    def _session_samples(self, now_ms: int) -> Iterator[Sample]:
        if self._session_state is None:
            return
        yield Sample(table.SESSION_STATE, (), int(self._session_state is SessionEvent.CONNECTED))
        for metric, event in (
            (table.SESSION_CONNECTS, SessionEvent.CONNECTED),
            (table.SESSION_DISCONNECTS, SessionEvent.SUSPENDED),
            (table.SESSION_EXPIRES, SessionEvent.EXPIRED),
        ):
            yield Sample(metric, (), self._session_events[event])
        use = self._store_use
        if use is not None:
            yield Sample(table.STORE_AUTHENTICATIONS, (), use.authentications_count)
            yield Sample(table.STORE_FAILURES, (), use.authentication_failures_count)
            yield from summary_samples(table.STORE_LATENCY, [((), use.latencies)], now_ms)

    def _conversion_samples(self, now_ms: int) -> Iterator[Sample]:
        """Of all requests, most of which convert nothing."""
        counts, distributions = self.requests.counts(), []
        for conversions in (self._produce_conversions, self._fetch_conversions):
            name, times = conversions.request, conversions.times
            if name in counts or times.count:
                distributions.append(((name,), times.with_zeros(counts.get(name, 0))))
        yield from summary_samples(table.CONVERSIONS_TIME, distributions, now_ms)
