"""A lane: some source partitions, and the one producer that does their transactions, one after the other.

All sources begin in the main lane. One whose target does not take records gets a lane of its own, where it waits for the target
without holding up others, until a transaction of it has succeeded.

Rules: one transaction has the copies, the index records, the delivered records and the offsets of its sources, with the
generation of the group's member: so a process that the group has replaced commits nothing. What is in memory follows a commit,
never precedes it. When it is unknown how a transaction has ended, everything is read anew from the logs (`on_lost`).
Source: KIP-98, KIP-447.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from client.backoff import Backoff
from client.committing import OffsetAndMetadata
from client.errors import AbortableError, FatalError
from client.event_loop.producer import AsyncProducer
from client.producing.core import ProducerLimits
from protocol.errors import ErrorCode, KafkaError
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record
from relay.relaying.needs import needs_text
from relay.relaying.trouble import BACKOFF as TARGET_BACKOFF
from relay.relaying.trouble import OF_RECORDS, OF_TOPICS, Trouble
from relay.relaying.work import RECORDS_MAX, Outgoing, SourceWork, WaitingRecord, plan

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from client.committing import GroupMembership
    from client.event_loop.cluster_client import AsyncClusterClient
    from protocol.topic_partition import TopicPartition
    from relay.figures import RelayFigures
    from relay.names import RelayNames
    from relay.relaying.contents import Contents
    from relay.relaying.source import SourcePartition
    from relay.relaying.work import Terms
    from relay.surroundings import RelaySurroundings

TRANSACTION_RECORDS_MAX: Final = 4_000
"""About so many records go out in one transaction, of all sources together."""
BACKOFF: Final = Backoff(50, 2_000)
LIMITS_BATCH_BYTES: Final = 500_000
BUFFER_BYTES: Final = 128 << 20
DELIVERY_TIMEOUT_MS: Final = 5_000
"""How long a target may keep the records of all others waiting, once: then it has a lane of its own."""
KEEP_MS: Final = 3_000
"""What is due within this time when it is taken in stays in memory, if there is room."""
ASIDE_LOG_MS: Final = 10_000
ABORT_S: Final = 2.0
LONGEST_SLEEP_MS: Final = 500
"""How late a jump of the clock is noticed at most."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LaneParts:
    """What lanes share. `membership` tells who commits; `starved` is called when contents are missing; `troubled` gets the
    source topic whose target fails, with the error; `recovered` is told when a transaction of a troubled one has succeeded."""

    names: RelayNames
    terms: Terms
    contents: Contents
    figures: RelayFigures
    surroundings: RelaySurroundings
    membership: Callable[[], GroupMembership]
    starved: Callable[[], None]
    troubled: Callable[[str, KafkaError], None]
    recovered: Callable[[str], None]
    on_lost: Callable[[str], None]
    transaction_timeout_ms: int


class _Failure(NamedTuple):
    """Records of one plan for one partition of a topic of its rule, of which at least one was not taken."""

    work: SourceWork
    records: list[Outgoing]
    error: KafkaError


@dataclass(slots=True)
class _Sent:
    """What was produced for topics of rules, and what becomes of it: the records of one plan for one partition together."""

    parts: list[tuple[SourceWork, list[Outgoing], asyncio.Future[Any]]] = field(default_factory=list)

    def failures(self) -> list[_Failure]:
        """Return what has failed up to now."""
        found = []
        for work, records, delivery in self.parts:
            error = delivery.exception() if delivery.done() and not delivery.cancelled() else None
            if isinstance(error, KafkaError):
                found.append(_Failure(work, records, error))
        return found

    def check(self) -> None:
        """Raises AbortableError where a record was not even sent."""
        for failure in self.failures():
            raise AbortableError(failure.error.code, failure.error.message)


class Lane:
    """`cluster` is this lane's alone, and the caller's to close. `trouble` is that of the one source topic of a lane that is
    not the main one."""

    def __init__(
        self, transactional_id: str, cluster: AsyncClusterClient, parts: LaneParts, trouble: Trouble | None = None
    ) -> None:
        self.trouble = trouble
        self.sources: dict[TopicPartition, SourcePartition] = {}
        self._transactional_id = transactional_id
        self._cluster = cluster
        self._parts = parts
        self._producer: AsyncProducer | None = None
        self._wake = asyncio.Event()
        self._is_free = asyncio.Lock()
        self._producers_count = 0
        self._failures = 0
        self._turn = 0
        self._aside: dict[str, tuple[int, int]] = {}
        """By source topic: how many records were put aside since the last log line, and when that was."""

    # --- sources ---

    def add(self, source: SourcePartition) -> None:
        self.sources[source.key] = source
        self._wake.set()

    async def release(self, keys: list[TopicPartition]) -> list[SourcePartition]:
        """Give sources back, when the transaction that is under way has ended."""
        async with self._is_free:
            return [self.sources.pop(key) for key in keys if key in self.sources]

    def wake(self) -> None:
        """Something was read, or has become due."""
        self._wake.set()

    async def close(self) -> None:
        """End at once; what was not committed is not done."""
        if self._producer is not None:
            await self._producer.close()

    # --- the loop ---

    async def run(self) -> None:
        """Do transactions until cancelled."""
        while True:
            self._wake.clear()
            async with self._is_free:
                works = self._plan()
                if works:
                    await self._transact(works)
            if works:
                await asyncio.sleep(self._pause_s())
                continue
            try:
                async with asyncio.timeout(self._sleep_s()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _plan(self) -> list[SourceWork]:
        """Return what is to be done now, beginning with another source each time."""
        now_ms = self._parts.surroundings.clock.wall_ms()
        sources = list(self.sources.values())
        self._turn = (self._turn + 1) % max(len(sources), 1)
        works: list[SourceWork] = []
        left, is_starved = TRANSACTION_RECORDS_MAX, False
        for source in (*sources[self._turn :], *sources[: self._turn]):
            if not self._may_work(source) or (works and source.limit is not None):
                continue
            try:
                work = plan(source, self._parts.contents, now_ms, self._parts.terms, min(RECORDS_MAX, left))
            except InvalidBatch as error:
                self._parts.troubled(source.key[0], KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{source.key}: {error}"))
                continue
            is_starved |= work.is_starved
            if work.is_empty:
                continue
            works.append(work)
            left -= work.counts.taken_in + len(work.ended)
            if left <= 0 or source.limit is not None:  # batches of others would hide whose record is not taken
                break
        if is_starved:
            self._parts.starved()
        return works

    def _may_work(self, source: SourcePartition) -> bool:
        """Whether a source is served now. One whose target is not known goes to a lane of its own; there it is held while the
        target is waited for, and takes in records nevertheless."""
        topic, problem = source.key[0], self._problem_of(source.rule.target)
        if self.trouble is None:
            source.is_held, source.refusal = False, None
            if problem is not None:
                self._parts.troubled(topic, problem)
            return problem is None
        now_ms = self._now_ms()
        if problem is not None:
            self.trouble.failed(problem, now_ms)
        source.refusal = self.trouble.refusal(now_ms, is_known=problem is None)
        source.is_held = problem is not None and source.refusal is None
        return True

    def _problem_of(self, target: str) -> KafkaError | None:
        """Return why a target cannot take records, as far as it is known without asking it. A transaction with a partition
        that has no leader could not be ended."""
        terms = self._parts.terms
        if target not in terms.partitions:
            reason = f"topic {target} does not exist, or the relay may not see it"
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        if target in terms.offline:
            return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"a partition of topic {target} has no leader")
        return None

    def _sleep_s(self) -> float:
        """Return until something is due at the latest."""
        now_ms = self._parts.surroundings.clock.wall_ms()
        due = [found for each in self.sources.values() if (found := each.index.next_due_ms()) is not None]
        left_ms = min([LONGEST_SLEEP_MS, *(each - now_ms for each in due if each > now_ms)])
        return max(left_ms, 1) / 1000

    def _pause_s(self) -> float:
        if not self._failures:
            return 0.0
        backoff = BACKOFF if self.trouble is None else TARGET_BACKOFF
        return backoff.pause_ms(self._failures, self._parts.surroundings.randomness) / 1000

    # --- a transaction ---

    async def _transact(self, works: list[SourceWork]) -> None:
        membership = self._parts.membership()
        if membership.generation_id < 0:  # out of the group: without a generation nothing would fence what is committed
            self._failures += 1
            return
        sent = _Sent()
        try:
            producer = await self._ready_producer()
            producer.begin()
            try:
                await self._send(producer, works, sent)
                await producer.send_offsets(membership, _offsets(works))
                sent.check()
                await producer.commit()
            except FatalError:
                raise
            except (KafkaError, OSError) as error:
                failed = sent.failures()  # before the abort, which fails whatever is left
                await self._abort(producer)
                self._aborted(error, failed, is_alone=len(works) == 1)
                return
        except FatalError as error:
            await self._lose(error)
            return
        except (KafkaError, OSError) as error:  # there is no producer yet
            self._failures += 1
            logger.warning("relay cannot begin a transaction: transactional_id=%s reason=%s", self._current_id, error)
            return
        self._committed(works)

    async def _abort(self, producer: AsyncProducer) -> None:
        """Abort a transaction. Its end waits for all partitions that it has written to: one that does not answer must not hold
        up the others, so that a producer with another transactional id goes on. Raises FatalError."""
        try:
            async with asyncio.timeout(ABORT_S):
                await producer.abort()
        except TimeoutError:
            logger.warning(
                "a transaction does not end, another producer goes on: transactional_id=%s", self._current_id
            )
            await producer.close()
            self._producer = None
            self._producers_count += 1

    @property
    def _current_id(self) -> str:
        """The transactional id of this producer, of several that this lane may have had."""
        return f"{self._transactional_id}-{self._producers_count}" if self._producers_count else self._transactional_id

    async def _ready_producer(self) -> AsyncProducer:
        """Raises KafkaError, OSError."""
        if self._producer is None:
            parts = self._parts
            self._producer = AsyncProducer(
                self._cluster,
                parts.surroundings.clock.wall_ms,
                parts.surroundings.randomness,
                transactional_id=self._current_id,
                limits=ProducerLimits(
                    batch_size_bytes=LIMITS_BATCH_BYTES,
                    delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
                    transaction_timeout_ms=parts.transaction_timeout_ms,
                ),
                buffer_memory_bytes=BUFFER_BYTES,
                max_record_bytes=BUFFER_BYTES,
            )
            await self._producer.initialize()
        return self._producer

    async def _send(self, producer: AsyncProducer, works: list[SourceWork], sent: _Sent) -> None:
        """Produce what the plans say. Raises KafkaError, OSError."""
        names = self._parts.names
        copies: list[tuple[SourceWork, list[WaitingRecord], asyncio.Future[array[int]]]] = []
        for work in works:
            for tier, waiting in _by_tier(work.copies).items():
                records = [Record(0, work.now_ms, each.record.key, each.record.value, each.headers) for each in waiting]
                bucket, partition = names.buckets[tier - 1], work.source.log_partition
                copies.append((work, waiting, await producer.send_many(bucket, partition, records)))
        for work, waiting, delivery in copies:
            for each, offset in zip(waiting, await delivery, strict=True):
                if offset < 0:
                    raise AbortableError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker does not say where a copy is")
                work.copied(each.record.offset, offset)
        for work in works:
            for some in _by_partition(work.sends):
                sent.parts.append((work, some, await self._send_some(producer, some)))
            index = [Record(0, work.now_ms, key, value) for key, value in work.index_records()]
            if index:
                await producer.send_many(names.log, work.source.log_partition, index)

    @staticmethod
    async def _send_some(producer: AsyncProducer, some: list[Outgoing]) -> asyncio.Future[Any]:
        topic, partition, record = some[0].topic, some[0].partition, some[0].record
        try:
            if partition is not None:
                return await producer.send_many(topic, partition, [each.record for each in some])
            return await producer.send(
                topic, record.value, record.key, headers=record.headers, timestamp_ms=record.timestamp
            )
        except (AbortableError, FatalError):
            raise
        except KafkaError as error:  # of these records or their topic alone, and told with the others
            failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            failed.exception()
            return failed

    def _committed(self, works: list[SourceWork]) -> None:
        parts = self._parts
        self._failures = 0
        parts.figures.commits += 1
        for work in works:
            for place in work.ended:
                parts.contents.drop(work.source.key, place)
            work.committed()
            self._keep_contents(work)
            parts.figures.add(work.counts)
            parts.figures.add_late(work.lateness_ms)
            if work.reasons:
                self._tell_of_dead_letters(work)
            if self.trouble is not None and work.counts.delivered:
                parts.recovered(work.source.key[0])

    def _tell_of_dead_letters(self, work: SourceWork) -> None:
        """Log that records are put aside, not more often than every ASIDE_LOG_MS for a source topic."""
        topic, now_ms = work.source.key[0], self._now_ms()
        records, logged_ms = self._aside.get(topic, (0, now_ms - ASIDE_LOG_MS))
        records += len(work.reasons)
        if now_ms - logged_ms >= ASIDE_LOG_MS:
            logger.warning("records are put aside: topic=%s records=%d reason=%s", topic, records, work.reasons[-1])
            records, logged_ms = 0, now_ms
        self._aside[topic] = records, logged_ms

    def _keep_contents(self, work: SourceWork) -> None:
        """Keep the contents of what is due soon, so that they need not be read again."""
        contents = self._parts.contents
        for waiting in work.near:
            if waiting.due_ms - work.now_ms <= KEEP_MS and contents.has_room_for(work.source.key):
                contents.add(work.source.key, waiting.place, waiting.record)

    def _aborted(self, error: KafkaError | OSError, failed: Sequence[_Failure], *, is_alone: bool) -> None:
        """Find out whose fault it was, so that it holds up nobody else. `is_alone`: the transaction had one source."""
        self._failures += 1
        self._parts.figures.aborts += 1
        blamed: dict[str, KafkaError] = {}
        counts: dict[SourcePartition, int] = {}
        for work, records, found in failed:
            source = work.source
            is_for_target, is_of_records = records[0].is_for_target, found.code in OF_RECORDS
            if is_of_records and source.limit != 1 and not (is_alone and len(records) == 1):
                counts[source] = max(counts.get(source, 0), len(records))
            elif is_of_records and is_for_target:
                source.refused[records[0].place] = found.message
            elif is_of_records or (not is_for_target and found.code in OF_TOPICS):
                self._without(source, records[0], found)
            else:
                blamed[source.key[0]] = found
        for source, count in counts.items():
            source.failed(count)
        for topic, found in blamed.items():
            if self.trouble is None:
                self._parts.troubled(topic, found)
            else:
                self._tell(topic, found)
        if not failed and self._failures > 1:
            logger.warning("transaction was aborted: transactional_id=%s reason=%s", self._current_id, error)

    def _tell(self, topic: str, error: KafkaError) -> None:
        assert self.trouble is not None
        if self.trouble.failed(error, self._now_ms()):
            logger.warning("target does not take records: topic=%s reason=%s", topic, error.message)

    def _without(self, source: SourcePartition, failed: Outgoing, error: KafkaError) -> None:
        """A topic for dead letters or results is missing, or does not take a record: the relay's own takes dead letters,
        results are left out."""
        if failed.topic == self._parts.names.dead_letters or failed.topic in source.avoided:
            return
        source.avoided.add(failed.topic)
        logger.warning("topic of a rule is not used: topic=%s reason=%s", failed.topic, error.message)

    async def _lose(self, error: FatalError) -> None:
        """It is unknown how the transaction has ended, or another has the transactional id."""
        self._failures += 1
        if self._producer is not None:
            await self._producer.close()
            self._producer = None
        self._parts.on_lost(f"{self._transactional_id}: {error}")

    def _now_ms(self) -> int:
        return self._parts.surroundings.clock.monotonic_ms()


def _by_tier(copies: list[WaitingRecord]) -> dict[int, list[WaitingRecord]]:
    found: dict[int, list[WaitingRecord]] = {}
    for each in copies:
        found.setdefault(each.tier, []).append(each)
    return found


def _by_partition(sends: list[Outgoing]) -> list[list[Outgoing]]:
    """Return records by their partitions, in their order; those whose partition the producer chooses come singly."""
    found: dict[tuple[str, int], list[Outgoing]] = {}
    alone: list[list[Outgoing]] = []
    for each in sends:
        if each.partition is None:
            alone.append([each])
        else:
            found.setdefault((each.topic, each.partition), []).append(each)
    return [*found.values(), *alone]


def _offsets(works: list[SourceWork]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        work.source.key: OffsetAndMetadata(work.position.offset, work.position.leader_epoch, needs_text(work.needs))
        for work in works
    }
