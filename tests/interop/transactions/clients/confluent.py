"""Transactions with confluent-kafka, that is librdkafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from tests.interop.retried_requests import answered, bounds
from tests.interop.transactions.clients.interface import (
    MAX_POLL_INTERVAL_MS,
    PATIENCE_S,
    POLL_S,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    AbortableError,
    Client,
    FencedError,
    Member,
    Offsets,
    Producer,
    Record,
)

T = TypeVar("T")
_FENCED_CODES = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_QUICK = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


def _called(call: Callable[[], T]) -> T:
    """What `call` returns. The library may run a callback while it has an error to raise: Python makes that a SystemError."""
    try:
        return call()
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


def _confluent(call: Callable[[], T]) -> T:
    """What `call` returns; where it may be asked again, it is."""
    for attempt in itertools.count():
        try:
            return _called(call)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.txn_requires_abort():
                raise AbortableError(str(error)) from error
            if reason.code() in _FENCED_CODES:
                raise FencedError(str(error)) from error
            if not reason.retriable() or attempt >= 5:
                raise
    raise AssertionError


class ConfluentProducer(Producer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = confluent_kafka.Producer(
            {
                **_QUICK,
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 30_000),
                "linger.ms": 1,
            }
        )

    def init(self) -> None:
        _confluent(lambda: self._producer.init_transactions(PATIENCE_S))

    def begin(self) -> None:
        _confluent(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, *values: str) -> None:
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failed.append(error)

        for value in values:
            _confluent(
                lambda one=value: self._producer.produce(  # type: ignore[misc]
                    topic, one.encode(), partition=partition, on_delivery=on_delivery
                )
            )
        assert _confluent(lambda: self._producer.flush(PATIENCE_S)) == 0
        if failed:
            _confluent(lambda: _raise(KafkaException(failed[0])))

    def send_offsets(self, offsets: Offsets, member: Member) -> None:
        assert isinstance(member, ConfluentMember)
        places = [
            confluent_kafka.TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()
        ]
        metadata = member.consumer.consumer_group_metadata()
        _confluent(lambda: self._producer.send_offsets_to_transaction(places, metadata, PATIENCE_S))

    def commit(self) -> None:
        _confluent(lambda: self._producer.commit_transaction(PATIENCE_S))

    def abort(self) -> None:
        _confluent(lambda: self._producer.abort_transaction(PATIENCE_S))

    def close(self) -> None:
        self._producer.purge()
        with suppress(KafkaException):  # what has been fenced says so once more
            self._producer.flush(0)


def _raise(error: Exception) -> None:
    raise error


class ConfluentMember(Member):
    def __init__(self, bootstrap: str, group: str, topic: str, max_poll_interval_ms: int) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                **_QUICK,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "heartbeat.interval.ms": 300,
                "session.timeout.ms": min(SESSION_TIMEOUT_MS, max_poll_interval_ms),
                "max.poll.interval.ms": max_poll_interval_ms,
                "fetch.wait.max.ms": 100,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self) -> list[Record]:
        records = []
        for message in self.consumer.consume(20, POLL_S):
            if message.error() is not None:
                assert message.error().retriable() or message.error().code() == KafkaError._MAX_POLL_EXCEEDED, (
                    message.error()
                )
                continue
            records.append(Record(message.partition() or 0, message.offset() or 0, (message.value() or b"").decode()))
        return records

    def rewind(self) -> None:
        assigned = self.consumer.assignment()
        for place in answered(lambda: self.consumer.committed(assigned, PATIENCE_S)) if assigned else ():
            if place.offset < 0:
                place.offset = confluent_kafka.OFFSET_BEGINNING
            self.consumer.seek(place)

    def close(self) -> None:
        self.consumer.close()


class ConfluentClient(Client):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Producer:
        return ConfluentProducer(self._bootstrap, transactional_id, timeout_ms)

    def member(self, group: str, topic: str, max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS) -> Member:
        return ConfluentMember(self._bootstrap, group, topic, max_poll_interval_ms)

    def close(self) -> None:
        """Nothing is kept."""

    def read(self, topic: str, isolation: str) -> list[list[str]]:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reads", "isolation.level": isolation}
        consumer = confluent_kafka.Consumer({**_QUICK, **settings, "enable.partition.eof": True})
        try:
            count = len(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
            return [self._read(consumer, topic, partition) for partition in range(count)]
        finally:
            consumer.close()

    def _read(self, consumer: confluent_kafka.Consumer, topic: str, partition: int) -> list[str]:
        values: list[str] = []
        _, end = bounds(consumer, topic, partition)
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        while end:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic}-{partition}: nothing more after {len(values)} of {end}"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return values
            values.append((message.value() or b"").decode())
        return values
