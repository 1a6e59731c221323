"""Transactions with Apache Kafka's Java clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.interop.clients.java_clients import JavaClients, JavaError
from tests.interop.transactions.clients.interface import (
    MAX_POLL_INTERVAL_MS,
    POLL_S,
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
# The last one is that of a transaction of the second version which its coordinator has aborted.
_FENCED_KINDS = {"ProducerFencedException", "InvalidProducerEpochException", "InvalidTxnStateException"}
_ABORTABLE_KINDS = {
    "CommitFailedException",
    "TransactionAbortableException",
    "KafkaException",
    "IllegalGenerationException",
}
_names = itertools.count()


def _java(call: Callable[[], T]) -> T:
    try:
        return call()
    except JavaError as error:
        if error.kind in _FENCED_KINDS:
            raise FencedError(str(error)) from error
        if error.kind in _ABORTABLE_KINDS:
            raise AbortableError(str(error)) from error
        raise


class JavaProducer(Producer):
    def __init__(self, clients: JavaClients, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._clients = clients
        self._name = f"producer-{next(_names)}"
        config = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "retry.backoff.ms": 20,
        }
        self._ask("producer", config=config)

    def _ask(self, do: str, **rest: Any) -> Any:
        return _java(lambda: self._clients.ask(self._name, do, **rest))

    def init(self) -> None:
        self._ask("init")

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, *values: str) -> None:
        self._ask("send", topic=topic, partition=partition, values=values)

    def send_offsets(self, offsets: Offsets, member: Member) -> None:
        assert isinstance(member, JavaMember)
        rows = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._ask("send offsets", member=member.name, offsets=rows)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close producer")


class JavaMember(Member):
    def __init__(self, clients: JavaClients, bootstrap: str, group: str, topic: str, max_poll_interval_ms: int) -> None:
        self.name = f"member-{next(_names)}"
        self._clients = clients
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "heartbeat.interval.ms": "300",
            "max.poll.interval.ms": str(max_poll_interval_ms),
            "fetch.max.wait.ms": "100",
            "max.poll.records": "20",
        }
        self._clients.ask(self.name, "consumer", config=config)
        self._clients.ask(self.name, "subscribe", topic=topic)

    def poll(self) -> list[Record]:
        rows: Sequence[tuple[int, int, str]] = self._clients.ask(self.name, "poll", timeout_ms=int(POLL_S * 1000))
        return [Record(*row) for row in rows]

    def rewind(self) -> None:
        self._clients.ask(self.name, "rewind")

    def close(self) -> None:
        self._clients.ask(self.name, "close consumer")


class JavaClient(Client):
    shortest_poll_interval_ms = 1_000

    def __init__(self, clients: JavaClients, version: str, bootstrap: str) -> None:
        self.name = f"Java {version}"
        self._clients = clients
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Producer:
        return JavaProducer(self._clients, self._bootstrap, transactional_id, timeout_ms)

    def member(self, group: str, topic: str, max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS) -> Member:
        return JavaMember(self._clients, self._bootstrap, group, topic, max_poll_interval_ms)

    def read(self, topic: str, isolation: str) -> list[list[str]]:
        name = f"reader-{next(_names)}"
        config = {"bootstrap.servers": self._bootstrap, "isolation.level": isolation, "enable.auto.commit": "false"}
        self._clients.ask(name, "consumer", config=config)
        try:
            values: list[list[str]] = self._clients.ask(name, "read", topic=topic)
            return values
        finally:
            self._clients.ask(name, "close consumer")

    def close(self) -> None:
        """Nothing is kept."""
