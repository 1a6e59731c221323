"""Transactions that never stop while brokers come and go, and the check of their history.

Each producer, of librdkafka, writes one record to every partition of a topic in a transaction, and commits or aborts it.
A record's value says whose it is, `<transactional id> <number of the transaction>`. `check` compares what was answered with
what a reader of committed records finds in the end: a transaction that was acknowledged is whole, an aborted one invisible,
one without an answer is one or the other, nothing is there twice, and the order of a producer is kept.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaException, Producer

from tests.interop.cluster.cluster_load import QUICK
from tests.interop.kafka_directory import Seen, read
from tests.interop.retried_requests import bounds
from tests.oracle.process import wait_until

PATIENCE_S = 60.0
ABORT_EVERY = 4


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Ended(NamedTuple):
    transactional_id: str
    number: int
    outcome: Outcome
    at_s: float


class TransactionLoad:
    """Runs between `__enter__` and `__exit__`. Each of `transactional_ids` has a producer in a thread of its own."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, transactional_ids: Sequence[str]) -> None:
        self.topic = topic
        self.partitions = partitions
        self.ended: list[Ended] = []
        self.failed: list[str] = []
        """Errors that no fault of one broker explains."""
        self._bootstrap_servers = bootstrap_servers
        self._ids = transactional_ids
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(name,), daemon=True) for name in transactional_ids]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.wait_for_commits(3)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
        alive = [thread for thread in self._threads if thread.is_alive()]
        assert kind is not None or not alive, "a producer does not end"

    # --- clients ---

    def _run(self, name: str) -> None:
        number = 0
        while not self._stop.is_set():
            producer = Producer(
                {
                    **QUICK,
                    "bootstrap.servers": self._bootstrap_servers,
                    "transactional.id": name,
                    "transaction.timeout.ms": 60_000,
                    "message.timeout.ms": 60_000,
                    "socket.timeout.ms": 10_000,
                    "linger.ms": 0,
                }
            )
            try:
                retried(lambda p=producer: p.init_transactions(PATIENCE_S))  # type: ignore[misc]
                while not self._stop.is_set():
                    number += 1
                    self._transact(producer, name, number)
            except KafkaException as error:
                self.ended.append(Ended(name, number, Outcome.UNKNOWN, time.monotonic()))
                self.failed.append(f"{name} {number}: {error}")

    def _transact(self, producer: Producer, name: str, number: int) -> None:
        producer.begin_transaction()
        for partition in range(self.partitions):
            producer.produce(self.topic, b"%s %d" % (name.encode(), number), partition=partition)
        try:
            if number % ABORT_EVERY:
                retried(lambda: producer.commit_transaction(PATIENCE_S))
                self.ended.append(Ended(name, number, Outcome.COMMITTED, time.monotonic()))
                return
            # Without it the abort drops the records, and its EndTxn is fatal with Apache Kafka, too, if a killed coordinator
            # did not store the partitions: no transaction is open.
            producer.flush(PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        retried(lambda: producer.abort_transaction(PATIENCE_S))
        self.ended.append(Ended(name, number, Outcome.ABORTED, time.monotonic()))

    # --- waiting and measures ---

    def commits(self) -> Counter[str]:
        return Counter(one.transactional_id for one in list(self.ended) if one.outcome is Outcome.COMMITTED)

    def wait_for_commits(self, count: int, timeout_s: float = 90) -> None:
        """Until every producer has committed so many more transactions than now."""
        before = self.commits()

        def are_there() -> bool:
            now = self.commits()
            return bool(self.failed) or all(now[name] >= before[name] + count for name in self._ids)

        done = wait_until(are_there, timeout_s)
        assert not self.failed, self.failed[:5]
        assert done, f"commits do not go on: {before} before, {self.commits()} after {timeout_s:g} s"

    def longest_gap_s(self) -> float:
        """The longest time in which some producer had nothing committed."""
        moments: dict[str, list[float]] = defaultdict(list)
        for one in self.ended:
            if one.outcome is Outcome.COMMITTED:
                moments[one.transactional_id].append(one.at_s)
        return max(later - sooner for each in moments.values() for sooner, later in pairwise(each))


def retried(call: Callable[[], object]) -> None:
    """Until it is done; librdkafka wants to be asked again after an error that may pass."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def check(load: TransactionLoad, bootstrap_servers: str) -> None:
    """Raises AssertionError at the first thing that must not be."""
    assert not load.failed, load.failed[:5]
    found: list[list[tuple[str, int]]] = []
    for partition in range(load.partitions):
        values = [
            (each.value or b"").decode().split() for each in read_decided(bootstrap_servers, load.topic, partition)
        ]
        found.append([(name, int(number)) for name, number in values])
    verify(load.ended, found)


def verify(ended: Sequence[Ended], found: Sequence[Sequence[tuple[str, int]]]) -> None:
    """Compare what was answered with what is found in each partition. Raises AssertionError at the first difference."""
    counted = [Counter(each) for each in found]
    twice = [one for each in counted for one, count in each.items() if count > 1]
    assert not twice, f"there twice: {twice[:5]}"
    for one in ended:
        there = [each[one.transactional_id, one.number] for each in counted]
        if one.outcome is Outcome.COMMITTED:
            assert all(there), f"acknowledged and not whole: {one}, in {there}"
        elif one.outcome is Outcome.ABORTED:
            assert not any(there), f"aborted and visible: {one}, in {there}"
        else:
            assert len(set(there)) == 1, f"torn: {one}, in {there}"
    known = {(one.transactional_id, one.number) for one in ended}
    assert not set().union(*counted) - known, "records of transactions that nobody ended"
    for each in found:
        numbers: dict[str, int] = {}
        for name, number in each:
            assert number > numbers.get(name, 0), f"out of order: {name} {number}"
            numbers[name] = number


def read_decided(bootstrap_servers: str, topic: str, partition: int) -> list[Seen]:
    """Every committed record, once no transaction is open: the last markers are written after the answer."""
    assert wait_until(lambda: is_decided(bootstrap_servers, topic, partition), PATIENCE_S, 0.2), (
        f"a transaction hangs in {topic}-{partition}"
    )
    return read(bootstrap_servers, topic, partition, "read_committed")


def is_decided(bootstrap_servers: str, topic: str, partition: int) -> bool:
    """Whether a partition ends where its last stable offset is."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "measures", "isolation.level": isolation}
        consumer = Consumer({**QUICK, **settings})
        try:
            ends.append(bounds(consumer, topic, partition)[1])
        finally:
            consumer.close()
    return ends[0] == ends[1]
