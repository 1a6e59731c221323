"""The load of `transaction_load` by producers of any client library, behind the interface of the tests of transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.interop.clients.java_clients import JavaError
from tests.interop.transactions.clients.interface import AbortableError, Client, FencedError, Producer
from tests.interop.transactions.transaction_load import ABORT_EVERY, Ended, Outcome, TransactionLoad


class DrivenLoad(TransactionLoad):
    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, transactional_ids: Sequence[str], client: Client
    ) -> None:
        super().__init__(bootstrap_servers, topic, partitions, transactional_ids)
        self._client = client

    def _run(self, name: str) -> None:
        number = 0
        while not self._stop.is_set():
            producer = self._client.producer(name, 60_000)
            try:
                asked_again(producer.init)
                while not self._stop.is_set():
                    number += 1
                    outcome = self._transact_one(producer, name, number)
                    self.ended.append(Ended(name, number, outcome, time.monotonic()))
            except (JavaError, FencedError) as error:
                self.ended.append(Ended(name, number, Outcome.UNKNOWN, time.monotonic()))
                self.failed.append(f"{name} {number}: {error}")
            finally:
                producer.close()

    def _transact_one(self, producer: Producer, name: str, number: int) -> Outcome:
        producer.begin()
        try:
            for partition in range(self.partitions):
                producer.send(self.topic, partition, f"{name} {number}")
            if number % ABORT_EVERY:
                asked_again(producer.commit)
                return Outcome.COMMITTED
        except AbortableError:
            pass
        asked_again(producer.abort)
        return Outcome.ABORTED


def asked_again(call: Callable[[], None]) -> None:
    """Java's clients want to be asked again after a timeout."""
    while True:
        try:
            return call()
        except JavaError as error:
            if error.kind != "TimeoutException":
                raise
