"""A load that never stops while brokers come and go, and the check of its history.

An idempotent producer with acks=all writes numbered records; the members of a group read along and commit. Everything that
was acknowledged, read or committed is remembered. `check` compares it with what the logs hold in the end: nothing
acknowledged is lost, order is kept, nothing is there twice, what was read stays what it was, and the group read it all.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.interop.retried_requests import answered, bounds
from tests.oracle.process import wait_until

QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}
"""How a client looks for brokers that went away: often."""

DELIVERY_TIMEOUT_MS = 120_000
SESSION_TIMEOUT_MS = 6_000
REQUEST_TIMEOUT_MS = 10_000


class Acknowledged(NamedTuple):
    """`offset` is None where the client does not know it: the answer was lost with a broker, and an acknowledgement of later
    records, or a refusal of these as out of order, has told it that they are there."""

    partition: int
    offset: int | None
    number: int
    at_s: float


class Read(NamedTuple):
    partition: int
    offset: int
    number: int
    at_s: float


class Load:
    """Runs between `__enter__` and `__exit__`. `rate` is in records a second."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        *,
        rate: int = 1000,
        members: int = 2,
        group: str = "readers",
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.group = group
        self.acknowledged: list[Acknowledged] = []
        self.read: list[Read] = []
        self.committed: dict[int, int] = {}
        self.failed: list[str] = []
        """Deliveries that ended with an error, and errors and exceptions from poll and commit that a user must handle."""
        self._bootstrap_servers = bootstrap_servers
        self._rate = rate
        self._stop_producing = threading.Event()
        self._stop_reading = threading.Event()
        self._lock = threading.Lock()
        self._producer = threading.Thread(target=self._produce, daemon=True)
        self._members = [threading.Thread(target=self._consume, daemon=True) for _ in range(members)]

    def __enter__(self) -> Self:
        for thread in (self._producer, *self._members):
            thread.start()
        try:
            self.wait_for_acknowledgements(100)
        except AssertionError:
            self._stop_producing.set()
            self._stop_reading.set()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_producing.set()
        self._producer.join(DELIVERY_TIMEOUT_MS / 1000 + 10)
        if kind is None:
            self._wait_until_read()
        self._stop_reading.set()
        for thread in self._members:
            thread.join(30)
        alive = [thread for thread in (self._producer, *self._members) if thread.is_alive()]
        assert kind is not None or not alive, "a client does not end"

    # --- clients ---

    def _produce(self) -> None:
        producer = Producer(
            {
                **QUICK,
                "bootstrap.servers": self._bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            }
        )
        number, started_s = 0, time.monotonic()
        while not self._stop_producing.is_set():
            due = int((time.monotonic() - started_s) * self._rate)
            while number < due:
                try:
                    producer.produce(
                        self.topic, b"%d" % number, partition=number % self.partitions, on_delivery=self._on_delivery
                    )
                except BufferError:  # nobody takes records at the moment
                    break
                number += 1
            producer.poll(0.002)
        left = producer.flush(DELIVERY_TIMEOUT_MS / 1000)
        if left:
            self.failed.append(f"{left} records were neither acknowledged nor refused")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None:
            self.failed.append(f"delivery of {value!r}: {error}")
            return
        assert partition is not None and value is not None
        self.acknowledged.append(Acknowledged(partition, offset, int(value), time.monotonic()))

    def _consume(self) -> None:
        consumer = Consumer(
            {
                **QUICK,
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stop_reading.is_set():
                messages = consumer.consume(500, 0.05)
                self._remember(messages)
                if messages:
                    self._commit(consumer)
        except KafkaException as error:
            self.failed.append(f"poll raised {error}")
        finally:
            consumer.close()

    def _remember(self, messages: list[Message]) -> None:
        now_s = time.monotonic()
        with self._lock:
            for message in messages:
                error, value = message.error(), message.value()
                if error is not None:
                    self.failed.append(f"poll: {error}")
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None and value is not None
                self.read.append(Read(partition, offset, int(value), now_s))

    def _commit(self, consumer: Consumer) -> None:
        """A commit that fails promises nothing: the next one covers it."""
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException:
            return
        with self._lock:
            for place in done or ():
                if place.error is None:
                    self.committed[place.partition] = max(place.offset, self.committed.get(place.partition, 0))

    # --- waiting ---

    def wait_for_acknowledgements(self, count: int, timeout_s: float = 90) -> None:
        """Until so many more records are acknowledged than now."""
        wanted = len(self.acknowledged) + count
        assert wait_until(lambda: len(self.acknowledged) >= wanted or bool(self.failed), timeout_s), (
            f"only {len(self.acknowledged)} of {wanted} acknowledgements after {timeout_s:g} s"
        )
        assert not self.failed, self.failed[:5]

    def wait_for_reads(self, count: int = 1, timeout_s: float = 90) -> None:
        """Until the group has read so many more records than now."""
        wanted = len(self.read) + count
        assert wait_until(lambda: len(self.read) >= wanted, timeout_s), "the group does not go on"

    def _wait_until_read(self) -> None:
        wanted = {(one.partition, one.number) for one in self.acknowledged}
        done = wait_until(lambda: wanted <= {(one.partition, one.number) for one in list(self.read)}, 90, 0.5)
        missing = sorted(wanted - {(one.partition, one.number) for one in self.read})
        assert done, f"the group has not read {len(missing)} acknowledged records, such as {missing[:5]}"

    # --- measures ---

    def longest_gap_s(self, since_s: float = 0.0, until_s: float = float("inf")) -> float:
        """The longest time in which nothing was acknowledged on some partition, counted from its second record."""
        longest = 0.0
        moments: dict[int, list[float]] = defaultdict(list)
        for one in self.acknowledged:
            if since_s <= one.at_s <= until_s:
                moments[one.partition].append(one.at_s)
        for each in moments.values():
            each.sort()
            longest = max([longest, *(later - sooner for sooner, later in pairwise(each))])
        return longest


def stored(bootstrap_servers: str, topic: str, partitions: int) -> dict[int, dict[int, int]]:
    """What the logs hold: partition, offset, number."""
    consumer = Consumer(
        {**QUICK, "bootstrap.servers": bootstrap_servers, "group.id": "checker", "enable.auto.commit": False}
    )
    found: dict[int, dict[int, int]] = {}
    try:
        for partition in range(partitions):
            start, end = bounds(consumer, topic, partition)
            records: dict[int, int] = {}
            found[partition] = records
            consumer.assign([TopicPartition(topic, partition, start)])
            deadline_s = time.monotonic() + 90
            while len(records) < end - start:
                assert time.monotonic() < deadline_s, f"{topic}-{partition}: {len(records)} of {start} to {end}"
                for message in consumer.consume(10_000, 1.0):
                    offset, value = message.offset(), message.value()
                    assert message.error() is None and offset is not None and value is not None, message.error()
                    records[offset] = int(value)
            assert sorted(records) == list(range(start, end)), f"{topic}-{partition} has holes"
    finally:
        consumer.close()
    return found


def check(load: Load, bootstrap_servers: str) -> None:
    """Raises AssertionError at the first thing that must not be."""
    assert not load.failed, load.failed[:5]
    logs = stored(bootstrap_servers, load.topic, load.partitions)
    places = {(partition, number): offset for partition, log in logs.items() for offset, number in log.items()}
    for one in load.acknowledged:
        offset = places.get((one.partition, one.number))
        assert offset is not None, f"acknowledged and lost: {one}"
        assert one.offset in (None, offset), f"acknowledged elsewhere than it is: {one}, at {offset}"
    for partition, records in logs.items():
        numbers = [records[offset] for offset in sorted(records)]
        assert numbers == sorted(set(numbers)), (
            f"{load.topic}-{partition}: out of order or twice: {_first_break(numbers)}"
        )
    for seen in load.read:
        assert logs[seen.partition].get(seen.offset) == seen.number, f"read and changed later: {seen}"
    _check_commits(load, bootstrap_servers)


def _first_break(numbers: list[int]) -> list[int]:
    for index in range(1, len(numbers)):
        if numbers[index] <= numbers[index - 1]:
            return numbers[max(0, index - 3) : index + 3]
    return []


def _check_commits(load: Load, bootstrap_servers: str) -> None:
    consumer = Consumer({**QUICK, "bootstrap.servers": bootstrap_servers, "group.id": load.group})
    try:
        asked = [TopicPartition(load.topic, one) for one in load.committed]
        places = answered(lambda: consumer.committed(asked, timeout=30))
        for place in places:
            assert place.offset >= load.committed[place.partition], f"a committed offset went back: {place}"
    finally:
        consumer.close()
