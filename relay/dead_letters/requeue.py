"""Brings dead letters back, in transactions: the shell of `relay.dead_letters.fates`.

    work = Requeue(rule, marks, ...)
    await work.look()          what would become of each letter
    await work.bring_back()    bring letters back

Rules: a transaction holds letters in their topics, and the marks that say so. Marks are read after the producer has its epoch,
which ends the transaction of a run that was killed. So a letter is brought back once, whatever happens to runs, and whichever
letters they are about; of two runs at a time the earlier one is fenced. Marks are read to the end of their topic, behind
transactions that are still open.
Bounded: a transaction has up to TRANSACTION_LETTERS letters, or TRANSACTION_BYTES.
Errors: KafkaError, FatalError among them when another run has begun.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from client.errors import AbortableError, FatalError
from client.event_loop.producer import AsyncProducer
from client.producing.core import ProducerLimits, size_of
from protocol.errors import KafkaError
from relay.dead_letters.fates import Fate, RequeueRule
from relay.dead_letters.marks import MARKS_TOPIC, Marks
from relay.dead_letters.marks_topic import read_marks
from relay.dead_letters.scan import RangeScan

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from client.event_loop.cluster_client import AsyncClusterClient
    from client.event_loop.producer import Delivered
    from client.letters.headers import Letter
    from client.reading.positions import ReadRecord
    from protocol.topic_partition import TopicPartition
    from runtime.clock import Clock
    from runtime.randomness import Randomness

TRANSACTION_LETTERS: Final = 1_000
TRANSACTION_BYTES: Final = 16 << 20
LIMITS: Final = ProducerLimits(batch_size_bytes=128 << 10)
BUFFER_MEMORY_BYTES: Final = 256 << 20
MAX_RECORD_BYTES: Final = 128 << 20


@dataclass
class _Transaction:
    """What the open one holds."""

    offsets: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    deliveries: list[tuple[asyncio.Future[Delivered], str]] = field(default_factory=list)
    targets: Counter[str] = field(default_factory=Counter)
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.deliveries) >= TRANSACTION_LETTERS or self.size_bytes >= TRANSACTION_BYTES


@dataclass
class Requeue:
    """One run. `starts` and `ends` bound what is looked at; `progress` is told how many letters were looked at. `new_client`
    makes clients, which whoever made it closes."""

    rule: RequeueRule
    marks: Marks
    first: Mapping[TopicPartition, int]
    """Where the partitions begin."""
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    new_client: Callable[[], AsyncClusterClient]
    clock: Clock
    randomness: Randomness
    limit: int | None = None
    progress: Callable[[Requeue], None] = lambda _: None
    moved: Callable[[], None] = lambda: None
    """Called when an answer has come."""
    fates: Counter[Fate] = field(default_factory=Counter)
    """How many letters of each kind were looked at."""
    targets: Counter[str] = field(default_factory=Counter)
    """How many letters were brought back, or would be, by their topics."""
    missing: Counter[str] = field(default_factory=Counter)
    """How many are for each topic that does not exist."""
    _scan: RangeScan | None = None
    _counts: dict[str, int | None] = field(default_factory=dict)  # partitions of targets; None: there is no such topic

    @property
    def looked(self) -> int:
        return self.fates.total()

    @property
    def _is_full(self) -> bool:
        return self.limit is not None and self.fates[Fate.REQUEUED] >= self.limit

    @property
    def transactional_id(self) -> str:
        return f"barnabas-dlq-{self.rule.topic}"

    async def look(self) -> None:
        """Count, and change nothing."""
        client = self.new_client()
        await read_marks(client, self.randomness, self.marks)
        async with aclosing(self._begin_scan(client).batches()) as batches:
            async for records in batches:
                for read in records:
                    if self._is_full:
                        return
                    letter = await self._chosen(client, read)
                    if letter is not None:
                        self.targets[self.rule.target(letter) or ""] += 1
                self.progress(self)

    async def bring_back(self) -> None:
        """Bring the letters back. The topic of marks exists."""
        client = self.new_client()
        producer = AsyncProducer(
            self.new_client(),
            self.clock.wall_ms,
            self.randomness,
            transactional_id=self.transactional_id,
            limits=LIMITS,
            buffer_memory_bytes=BUFFER_MEMORY_BYTES,
            max_record_bytes=MAX_RECORD_BYTES,
        )
        try:
            await producer.initialize()
            await read_marks(client, self.randomness, self.marks)
            await self._remove_obsolete(producer)
            await self._bring_back(client, producer)
        finally:
            await producer.close()

    async def _bring_back(self, client: AsyncClusterClient, producer: AsyncProducer) -> None:
        held = _Transaction()
        async with aclosing(self._begin_scan(client).batches()) as batches:
            async for records in batches:
                for read in records:
                    if self._is_full:
                        break
                    letter = await self._chosen(client, read)
                    if letter is not None:
                        await self._send(producer, held, read, letter)
                    if held.is_full:
                        await self._commit(producer, held)
                        held = _Transaction()
                if held.deliveries:
                    await self._commit(producer, held)
                    held = _Transaction()
                self.progress(self)
                if self._is_full:
                    return

    async def _chosen(self, client: AsyncClusterClient, read: ReadRecord) -> Letter | None:
        """Count a letter; return what it says if it is to be brought back."""
        fate, letter = self.rule.fate(read.partition, read.record, self.marks, self.clock.wall_ms())
        if fate is Fate.REQUEUED:
            target = self.rule.target(letter)
            assert target is not None
            if await self._partition_count(client, target) is None:
                fate = Fate.NO_TARGET
                self.missing[target] += 1
        self.fates[fate] += 1
        return letter if fate is Fate.REQUEUED else None

    async def _send(self, producer: AsyncProducer, held: _Transaction, read: ReadRecord, letter: Letter) -> None:
        record, target = read.record, self.rule.target(letter)
        assert target is not None
        where = f"{read.topic}-{read.partition} at {record.offset} cannot go to {target}"
        if not held.deliveries:
            producer.begin()
        partition = self.rule.partition(letter, record.key, self._counts[target] or 1)
        try:
            delivery = await producer.send(
                target, record.value, record.key, headers=self.rule.headers(record), partition=partition
            )
        except FatalError:
            raise
        except AbortableError as error:
            await self._give_up(producer, held, error)
            raise
        except KafkaError as error:
            await producer.abort()
            raise KafkaError(error.code, f"{where}: {error.message}") from error
        held.deliveries.append((delivery, where))
        held.offsets[read.partition].append(record.offset)
        held.targets[target] += 1
        held.size_bytes += size_of(record)

    async def _commit(self, producer: AsyncProducer, held: _Transaction) -> None:
        try:
            marks = [self.marks.record(partition, offsets) for partition, offsets in held.offsets.items()]
            for key, value in marks:
                held.deliveries.append((await producer.send(MARKS_TOPIC, value, key), f"no mark in {MARKS_TOPIC}"))
            await producer.commit()
        except AbortableError as error:
            await self._give_up(producer, held, error)
            raise
        for key, value in marks:
            self.marks.replay(key, value)
        self.targets.update(held.targets)

    @staticmethod
    async def _give_up(producer: AsyncProducer, held: _Transaction, error: AbortableError) -> None:
        """Abort. Raises KafkaError that names the letter that failed, where one is known."""
        await producer.abort()
        for delivery, where in held.deliveries:
            failure = delivery.exception() if delivery.done() and not delivery.cancelled() else None
            if isinstance(failure, KafkaError) and failure.code is error.code:
                raise KafkaError(failure.code, f"{where}: {failure.message}") from error

    # --- marks ---

    async def _remove_obsolete(self, producer: AsyncProducer) -> None:
        keys = self.marks.obsolete({partition: offset for (_, partition), offset in self.first.items()})
        if keys:
            producer.begin()
            for key in keys:
                await producer.send(MARKS_TOPIC, None, key)
            await producer.commit()

    # --- topics ---

    def left(self) -> list[int]:
        """Return the partitions that are not read to their ends."""
        return [] if self._scan is None else self._scan.left()

    def _begin_scan(self, client: AsyncClusterClient) -> RangeScan:
        self._scan = RangeScan(client, self.randomness, self.starts, self.ends, self.moved)
        return self._scan

    async def _partition_count(self, client: AsyncClusterClient, topic: str) -> int | None:
        if topic not in self._counts:
            found = (await client.topics([topic])).get(topic)
            self._counts[topic] = None if found is None else len(found.partitions)
        return self._counts[topic]
