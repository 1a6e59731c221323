"""Consume, process, produce: members of a group that write what they read, with their offsets, in one transaction."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from tests.interop.transactions.clients.interface import AbortableError, Client, Member, Producer, Record
from tests.interop.transactions.clients.servers import Topic
from tests.oracle.process import wait_until

PARTITIONS = 3
"""Of the topics that are read and written."""
PATIENCE_S = 90.0


class Worker:
    """A member of a group with a producer of its own, in a thread, from `__enter__` to `leave` or `__exit__`.

    `before_commit` is called between what a transaction writes and its offsets.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        source: Topic,
        target: Topic,
        before_commit: Callable[[], None] = lambda: None,
        max_poll_interval_ms: int = 300_000,
        transactional_id: str | None = None,
    ) -> None:
        self.processed: list[Record] = []
        """What is in a committed transaction."""
        self.aborts = 0
        self.transactional_id = transactional_id or f"{group}-{uuid.uuid4().hex[:8]}"
        self._client = client
        self._group = group
        self._source = source
        self._target = target
        self._before_commit = before_commit
        self._max_poll_interval_ms = max_poll_interval_ms
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._end: Future[None] | None = None

    def __enter__(self) -> Self:
        self._end = self._pool.submit(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if kind is None or self.has_ended:  # what ended it comes before what has missed it
            self.leave()

    def leave(self) -> None:
        """Returns when it has left; raises what ended it."""
        self._stop.set()
        assert self._end is not None
        self._end.result(PATIENCE_S)
        self._pool.shutdown()

    @property
    def has_ended(self) -> bool:
        return self._end is not None and self._end.done()

    def _run(self) -> None:
        producer = self._client.producer(self.transactional_id)
        try:
            producer.init()
            member = self._client.member(self._group, self._source.name, self._max_poll_interval_ms)
            try:
                while not self._stop.is_set():
                    records = member.poll()
                    if records:
                        self._process(records, producer, member)
            finally:
                member.close()
        finally:
            producer.close()

    def _process(self, records: list[Record], producer: Producer, member: Member) -> None:
        try:
            producer.begin()
            for partition in sorted({each.partition for each in records}):
                values = [each.value for each in records if each.partition == partition]
                producer.send(self._target.name, partition, *values)
            self._before_commit()
            ends = {(self._source.name, each.partition): each.offset + 1 for each in records}
            producer.send_offsets(ends, member)
            producer.commit()
        except AbortableError:
            producer.abort()
            self.aborts += 1
            member.rewind()
        else:
            self.processed += records


class Feed:
    """Writes numbered records to all partitions and waits until they are processed."""

    def __init__(self, client: Client, source: Topic) -> None:
        self._source = source
        self._producer = client.producer(f"feeds-{source.name}")
        self._producer.init()
        self.values: list[list[str]] = [[] for _ in range(PARTITIONS)]

    def write(self, count: int) -> None:
        self._producer.begin()
        for partition, known in enumerate(self.values):
            values = [f"{partition}-{len(known) + number}" for number in range(count)]
            self._producer.send(self._source.name, partition, *values)
            known += values
        self._producer.commit()

    def write_until(self, condition: Callable[[], bool]) -> None:
        def write_and_see() -> bool:
            self.write(5)
            return condition()

        assert wait_until(write_and_see, PATIENCE_S, 0.3)

    def wait_until_processed(self, *workers: Worker) -> None:
        wanted = sum(map(len, self.values))

        def processed() -> int:
            return sum(len(each.processed) for each in workers)

        assert wait_until(lambda: processed() >= wanted, PATIENCE_S), f"{processed()} of {wanted} are processed"

    def close(self) -> None:
        self._producer.close()


def assert_processed_once(client: Client, feed: Feed, target: Topic) -> None:
    """Also in order: a partition has one reader at a time, who goes on where the one before it has committed."""
    assert wait_until(lambda: client.read(target.name, "read_committed") == feed.values, PATIENCE_S), target
