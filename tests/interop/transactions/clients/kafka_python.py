"""Transactions with kafka-python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import kafka
import kafka.errors

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
from tests.kafka_python_members import member_of

T = TypeVar("T")


def _kafka_python(call: Callable[[], T]) -> T:
    try:
        return call()
    except (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError) as error:
        raise FencedError(repr(error)) from error
    except (
        kafka.errors.CommitFailedError,
        kafka.errors.IllegalGenerationError,
        kafka.errors.UnknownMemberIdError,
        kafka.errors.RebalanceInProgressError,
        kafka.errors.TransactionAbortableError,
    ) as error:
        raise AbortableError(repr(error)) from error


class KafkaPythonProducer(Producer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=1,
            value_serializer=str.encode,
        )

    def init(self) -> None:
        _kafka_python(self._producer.init_transactions)

    def begin(self) -> None:
        _kafka_python(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, *values: str) -> None:
        def call() -> None:
            futures = [self._producer.send(topic, value, partition=partition) for value in values]
            for future in futures:
                future.get(PATIENCE_S)

        _kafka_python(call)

    def send_offsets(self, offsets: Offsets, member: Member) -> None:
        assert isinstance(member, KafkaPythonMember)
        places = {
            kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for (topic, partition), offset in offsets.items()
        }
        metadata = member.consumer.group_metadata()
        _kafka_python(lambda: self._producer.send_offsets_to_transaction(places, metadata))

    def commit(self) -> None:
        _kafka_python(self._producer.commit_transaction)

    def abort(self) -> None:
        _kafka_python(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)


class KafkaPythonMember(Member):
    def __init__(self, bootstrap: str, group: str, topic: str, max_poll_interval_ms: int) -> None:
        self.consumer = member_of(
            group,
            topic,
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            heartbeat_interval_ms=300,
            session_timeout_ms=min(SESSION_TIMEOUT_MS, max_poll_interval_ms),
            max_poll_interval_ms=max_poll_interval_ms,
            fetch_max_wait_ms=100,
            max_poll_records=20,
        )

    def poll(self) -> list[Record]:
        batches = self.consumer.poll(timeout_ms=int(POLL_S * 1000)).values()
        return [Record(one.partition, one.offset, one.value.decode()) for batch in batches for one in batch]

    def rewind(self) -> None:
        for place in self.consumer.assignment():
            offset = self.consumer.committed(place)
            if offset is None:
                self.consumer.seek_to_beginning(place)
            else:
                self.consumer.seek(place, offset)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonClient(Client):
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Producer:
        return KafkaPythonProducer(self._bootstrap, transactional_id, timeout_ms)

    def member(self, group: str, topic: str, max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS) -> Member:
        return KafkaPythonMember(self._bootstrap, group, topic, max_poll_interval_ms)

    def read(self, topic: str, isolation: str) -> list[list[str]]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=self._bootstrap, isolation_level=isolation)
        try:
            places = [kafka.TopicPartition(topic, one) for one in sorted(consumer.partitions_for_topic(topic))]
            ends = consumer.end_offsets(places)
            consumer.assign(places)
            consumer.seek_to_beginning()
            values: dict[Any, list[str]] = {place: [] for place in places}
            while any(consumer.position(place) < ends[place] for place in places):
                for place, batch in consumer.poll(timeout_ms=200).items():
                    values[place] += [one.value.decode() for one in batch if one.offset < ends[place]]
            return [values[place] for place in places]
        finally:
            consumer.close()

    def close(self) -> None:
        """Nothing is kept."""
