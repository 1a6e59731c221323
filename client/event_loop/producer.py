"""An idempotent producer on an event loop, with transactions where it has a transactional id: the shell of `client.producing`.

    await producer.initialize()               once, for transactions
    producer.begin()
    delivery = await producer.send(...)       waits for memory; the future says what became of the record
    offsets = await producer.send_many(...)   many records of one partition, with one future, in less time
    await producer.send_offsets(...)          what was consumed, as a part of the transaction
    await producer.commit()                   or abort(), behind an AbortableError as well

Rules: one task decides; each request is a task. Acknowledgements of all in-sync replicas. Records without a partition go by the
murmur2 hash of their key, as with Java's clients; without a key to one partition for a batch, then to another. Bounded: records
without an answer take at most `buffer_memory_bytes`, `send` waits for it; a record has at most `max_record_bytes`, and what the
topic allows is the broker's to say. A cancelled `commit`, `abort`, `initialize` or
`send_offsets` goes on: call it again to wait for it.
Errors: AbortableError, FatalError; KafkaError in the future of a record.
Source: Kafka KafkaProducer, Sender, BuiltInPartitioner.
"""

from __future__ import annotations

import asyncio
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from client.backoff import Backoff
from client.producing.core import ProducerCore, ProducerLimits, size_of
from client.producing.transaction import State
from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode, KafkaError
from protocol.key_hashes import by_murmur2
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.compression import Compression
from protocol.records.record import Record
from protocol.transaction_version import PRODUCE_SINCE
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from client.committing import GroupMembership, OffsetAndMetadata
    from client.event_loop.cluster_client import AsyncClusterClient
    from client.producing.batch import Finished, ProducerBatch
    from client.producing.transaction import CoordinatorRequest
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

BACKOFF: Final = Backoff(100, 1_000)
LIMITS: Final = ProducerLimits()
MAX_REQUEST_BYTES: Final = 1 << 20
"""Of a request with several batches; a larger batch, of one record, goes alone."""
BUFFER_MEMORY_BYTES: Final = 32 << 20
ACKS_TIMEOUT_MS: Final = 25_000
"""How long a leader waits for the replicas; less than a client waits for the leader."""


class Delivered(NamedTuple):
    """Where a record is. `offset` is -1 when only a repeated attempt was acknowledged, by a broker that did not say it.
    `timestamp_ms` is the record's own, or the broker's where the topic takes that (`message.timestamp.type=LogAppendTime`)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class _One(NamedTuple):
    """Who waits for one record."""

    future: asyncio.Future[Delivered]
    size_bytes: int

    def delivered(self, key: TopicPartition, offset: int, timestamp_ms: int) -> None:
        self.future.set_result(Delivered(*key, offset, timestamp_ms))


class _Many(NamedTuple):
    """Who waits for many records, at one of them. Offsets are set as they come; the last one ends the waiting."""

    future: asyncio.Future[array[int]]
    size_bytes: int
    offsets: array[int]
    left: list[int]
    """How many have no answer yet, as its only element."""
    at: int

    def delivered(self, _key: TopicPartition, offset: int, _timestamp_ms: int) -> None:
        self.offsets[self.at] = offset
        self.left[0] -= 1
        if not self.left[0]:
            self.future.set_result(self.offsets)


_Waiter = _One | _Many


class AsyncProducer:
    """`cluster` stays the caller's, who closes it; no other client of it waits for anything at a broker. `wall_ms` is the
    time of records that bring none."""

    def __init__(
        self,
        cluster: AsyncClusterClient,
        wall_ms: Callable[[], int],
        randomness: Randomness,
        *,
        transactional_id: str | None = None,
        limits: ProducerLimits = LIMITS,
        compression: Compression = Compression.NONE,
        buffer_memory_bytes: int = BUFFER_MEMORY_BYTES,
        max_record_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.core: ProducerCore[_Waiter] = ProducerCore(
            transactional_id, limits, lambda attempts: round(BACKOFF.pause_ms(max(attempts, 1), randomness))
        )
        self._cluster = cluster
        self._wall_ms = wall_ms
        self._randomness = randomness
        self._limits = limits
        self._compression = compression
        self._buffer_memory_bytes = buffer_memory_bytes
        self._max_record_bytes = min(max_record_bytes, buffer_memory_bytes)
        self._used_bytes = 0
        self._flushes_count = 0
        self._sticky: dict[str, tuple[int, int]] = {}  # by topic: a partition, and how many bytes went to it
        self._wake = asyncio.Event()
        self._watchers: list[asyncio.Future[None]] = []
        self._tasks = TaskScope(f"producer {transactional_id or ''}".rstrip())
        self._tasks.spawn(self._run(), name="sender")

    @property
    def is_fatal(self) -> bool:
        """Whether it may do nothing any more: another is to take its place."""
        return self.core.transaction.state is State.FATAL_ERROR

    async def close(self) -> None:
        """End at once: what has no answer fails. `flush` or `commit` comes before, where it must not."""
        await self._tasks.close()
        error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")
        self._finish(self.core.close(error))

    # --- records ---

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Delivered]:
        """Take a record; return when there is memory for it. Raises AbortableError, FatalError; KafkaError for a record that is
        too large or a topic that cannot be written."""
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        record = Record(0, timestamp_ms, key, value, list(headers))
        size_bytes = self._size_of(record)
        if partition is None:
            partition = self._partition(topic, key, await self._cluster.partition_count(topic), size_bytes)
        delivery: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        await self._take((topic, partition), [(record, size_bytes, _One(delivery, size_bytes))], size_bytes)
        return delivery

    async def send_many(self, topic: str, partition: int, records: Sequence[Record]) -> asyncio.Future[array[int]]:
        """Take records for a partition, in their order; return when there is memory for all. Their own offsets say nothing, and
        they are not changed meanwhile. The future has the offset of each, as `Delivered` has it, or fails as the first that
        fails. Raises AbortableError, FatalError; KafkaError for a record that is too large: then none is taken, unless they are
        more than `buffer_memory_bytes`."""
        future: asyncio.Future[array[int]] = asyncio.get_running_loop().create_future()
        offsets, left = array("q", bytes(8 * len(records))), [len(records)]
        if not records:
            future.set_result(offsets)
        sizes = [self._size_of(each) for each in records]
        limit_bytes = max(self._buffer_memory_bytes // 2, self._max_record_bytes)
        entries: list[tuple[Record, int, _Waiter]] = []
        part_bytes = 0
        for index, (record, size_bytes) in enumerate(zip(records, sizes, strict=True)):
            if part_bytes + size_bytes > limit_bytes:
                await self._take((topic, partition), entries, part_bytes)
                entries, part_bytes = [], 0
            entries.append((record, size_bytes, _Many(future, size_bytes, offsets, left, index)))
            part_bytes += size_bytes
        await self._take((topic, partition), entries, part_bytes)
        return future

    def _size_of(self, record: Record) -> int:
        """Raises KafkaError for one that is too large."""
        size_bytes = size_of(record)
        if size_bytes > self._max_record_bytes:
            reason = f"the record has {size_bytes} bytes, and {self._max_record_bytes} is the limit"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, reason)
        return size_bytes

    async def _take(self, key: TopicPartition, entries: list[tuple[Record, int, _Waiter]], size_bytes: int) -> None:
        """Take records when there is memory for them. Raises AbortableError, FatalError."""
        if self._used_bytes + size_bytes > self._buffer_memory_bytes:
            await self._until(lambda: self._used_bytes + size_bytes <= self._buffer_memory_bytes)
        self.core.append(key, entries, self._now_ms())
        self._used_bytes += size_bytes
        self._wake.set()

    async def flush(self) -> None:
        """Return when every record has its answer. Raises AbortableError, FatalError."""
        self._flushes_count += 1
        self.core.is_flushing = True
        try:
            transaction = self.core.transaction
            await self._until(lambda: not self.core.has_batches or transaction.error is not None)
            transaction.check_sound()
        finally:
            self._flushes_count -= 1
            self.core.is_flushing = self._flushes_count > 0

    # --- transactions ---

    async def initialize(self) -> None:
        """Get an epoch, which ends the transactions of whoever had the transactional id before. Raises FatalError."""
        self.core.transaction.initialize()
        await self._settled(State.INITIALIZING)

    def begin(self) -> None:
        """Raises FatalError."""
        self.core.transaction.begin(self._cluster.transaction_version)

    async def send_offsets(self, group: GroupMembership, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit the offsets of a group with the transaction. Raises AbortableError, FatalError."""
        transaction = self.core.transaction
        pending = transaction.add_offsets(group, dict(offsets))
        await self._until(lambda: not transaction.has_offsets(pending))
        transaction.check_sound()

    async def commit(self) -> None:
        """Return when the transaction is committed. Raises AbortableError when it is not, FatalError."""
        self.core.transaction.commit()
        await self._settled(State.COMMITTING)

    async def abort(self) -> None:
        """Return when the transaction is aborted, and another may begin. Raises FatalError."""
        self._finish(self.core.abort())
        await self._settled(State.ABORTING, State.INITIALIZING)

    async def _settled(self, *states: State) -> None:
        transaction = self.core.transaction
        await self._until(lambda: transaction.state not in states)
        transaction.check_sound()

    # --- the task that decides ---

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = self._now_ms()
            self._finish(self.core.expire(now_ms))
            self._send_batches(self.core.take(now_ms), now_ms)
            ask = self.core.next_ask(now_ms)
            if ask is not None:
                self._tasks.spawn(self._ask(ask), name=ask.request.api_name)
            self._notify()
            wakeup_ms = self.core.wakeup_ms(now_ms)
            if self._wake.is_set():
                continue
            try:
                async with asyncio.timeout(None if wakeup_ms is None else (wakeup_ms - now_ms) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _send_batches(self, batches: list[ProducerBatch[_Waiter]], now_ms: int) -> None:
        """Send batches to their leaders: in each request at most one of a partition."""
        requests: dict[int, list[dict[TopicPartition, ProducerBatch[_Waiter]]]] = {}
        for batch in batches:
            leader = self._cluster.leader_of(batch.key)
            if leader is None:
                self._finish(self.core.unanswered(batch, "no leader is known", now_ms, was_sent=False))
                self._wake.set()
                continue
            parts = requests.setdefault(leader, [{}])
            size_bytes = sum(each.size_bytes for each in parts[-1].values())
            if batch.key in parts[-1] or size_bytes + batch.size_bytes > MAX_REQUEST_BYTES:
                parts.append({})
            parts[-1][batch.key] = batch
        for leader, parts in requests.items():
            for part in parts:
                self._tasks.spawn(self._produce(leader, part), name=f"produce to {leader}")

    async def _produce(self, leader: int, batches: dict[TopicPartition, ProducerBatch[_Waiter]]) -> None:
        left = dict(batches)
        try:
            request, max_version = self._request(batches), PRODUCE_SINCE if self.core.transaction.bumps_epoch else None
            response = await self._cluster.send(leader, request, ProduceResponse, max_version=max_version)
        except OSError as error:
            reason = str(error)
        except KafkaError as error:
            for key in batches:
                self._answered(left.pop(key), error.code, error.message, -1)
            reason = error.message
        else:
            for topic in response.responses:
                for row in topic.partition_responses:
                    batch = left.pop((topic.name, row.index), None)
                    if batch is not None:
                        batch.log_append_time_ms = row.log_append_time_ms
                        self._answered(batch, ErrorCode.of(row.error_code), row.error_message, row.base_offset)
            reason = "the response does not name the partition"
        for batch in left.values():
            self._finish(self.core.unanswered(batch, reason, self._now_ms(), was_sent=True))
        self._wake.set()

    def _request(self, batches: Mapping[TopicPartition, ProducerBatch[_Waiter]]) -> ProduceRequest:
        transactional_id = self.core.transaction.transactional_id
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), batch in batches.items():
            content = batch.encode(self._compression, is_transactional=transactional_id is not None)
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=content))
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=ACKS_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=rows) for name, rows in topics.items()],
        )

    def _answered(self, batch: ProducerBatch[_Waiter], code: ErrorCode, message: str | None, base_offset: int) -> None:
        if remedy_of(code) is Remedy.REFRESH_METADATA:
            self._cluster.forget_topics([batch.key[0]])
        self._finish(self.core.answered(batch, code, message, base_offset, self._now_ms()))

    async def _ask(self, ask: CoordinatorRequest) -> None:
        transaction, request = self.core.transaction, ask.request
        try:
            if ask.coordinator is None:
                response = await self._cluster.send_to_any(request, request.response_type)
            else:
                response = await self._cluster.send_to_coordinator(
                    *ask.coordinator, request, request.response_type, max_version=ask.max_version
                )
        except OSError:
            transaction.unanswered(ask, self._now_ms())
        except KafkaError as error:
            transaction.refused(ask, error)
        else:
            if transaction.answered(ask, response, self._now_ms()) and ask.coordinator is not None:
                self._cluster.forget_coordinator(*ask.coordinator)
        self._wake.set()

    # --- what became of records ---

    def _finish(self, batches: Sequence[Finished[_Waiter]]) -> None:
        for finished in batches:
            key, appended_ms = finished.batch.key, finished.batch.log_append_time_ms
            for index, (record, waiter) in enumerate(finished.batch.entries):
                self._used_bytes -= waiter.size_bytes
                if waiter.future.done():
                    continue  # whoever sent it does not wait any more, or has seen another record fail
                if finished.error is None:
                    offset = finished.base_offset + index if finished.base_offset >= 0 else -1
                    waiter.delivered(key, offset, appended_ms if appended_ms >= 0 else record.timestamp)
                else:
                    waiter.future.set_exception(finished.error.again())
                    waiter.future.exception()  # a commit fails as well: nobody has to look
        transaction = self.core.transaction
        if transaction.state is State.FATAL_ERROR and transaction.error is not None and self.core.has_waiting:
            self._finish(self.core.stop(transaction.error))
        if batches:
            self._wake.set()

    def _partition(self, topic: str, key: bytes | None, count: int, size_bytes: int) -> int:
        if key is not None:
            return by_murmur2(key, count)
        partition, sent_bytes = self._sticky.get(topic, (-1, 0))
        if partition < 0 or sent_bytes + size_bytes > self._limits.batch_size_bytes:
            partition, sent_bytes = self._randomness.randrange(0, count), 0
        self._sticky[topic] = partition, sent_bytes + size_bytes
        return partition

    # --- waiting ---

    async def _until(self, predicate: Callable[[], bool]) -> None:
        """Return when `predicate` holds, which is looked at after each event."""
        self._wake.set()
        while not predicate():
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    def _notify(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)
