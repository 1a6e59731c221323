"""Drives a `TransactionShard`, and asks it as clients do. Markers wait in `markers` until a test says what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any

from coordinator.runtime.contract import (
    Command,
    CoordinatorRecord,
    Effect,
)
from coordinator.transaction.completion import TransactionEnd
from coordinator.transaction.markers import CancelMarkers, MarkerOutcome, TransactionMarkers, WriteMarkers
from coordinator.transaction.producer_ids import AllocateProducerId
from coordinator.transaction.producer_registration import ProducerIdAndEpoch, ProducerInit
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.transaction import Transaction, TransactionResponse
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH
from tests.coordinator.driver import Batch, ShardDriver

PARTITION = 3
ORDERS = ("orders", 0)
PAYMENTS = ("payments", 1)


class TransactionDriver(ShardDriver[TransactionShard]):
    """`markers`: asked for and not written yet."""

    def __init__(self, settings: TransactionSettings | None = None, **options: Any) -> None:
        self.settings = settings or TransactionSettings()
        self.epoch = 0
        self.markers: list[TransactionMarkers] = []
        self._waiters = count()
        self.last_waiter = -1
        self._producer_ids = count(1000)
        self.level = 0
        self._asking_for_ids: list[str] = []
        super().__init__(**options)

    def new_shard(self) -> TransactionShard:
        return TransactionShard(PARTITION, self.epoch, self.settings, lambda: self.level)

    # --- requests ---

    def ask(self, operation: Callable[[TransactionShard, int, int], list[Effect]]) -> Any:
        """Run an operation with a waiter and return its response; None while there is none."""
        waiter = self.last_waiter = next(self._waiters)
        self.carry_out(operation(self.shard, waiter, self.now_ms))
        return self.response_of(waiter)

    def response_of(self, waiter: int) -> Any:
        found = [response for each, response in self.responses if each == waiter]
        assert len(found) <= 1, found
        return found[0] if found else None

    def init(
        self, name: str = "t", *, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000
    ) -> tuple[ErrorCode, int, int] | None:
        """(error, producer id, epoch); None while it waits."""
        had = None if expected is None else ProducerIdAndEpoch(*expected)
        fresh = next(self._producer_ids) if self.shard.needs_producer_id(name, had) else None
        request = ProducerInit(name, timeout_ms, had, fresh)
        response = self.ask(lambda shard, waiter, now_ms: shard.init_producer_id(request, waiter, now_ms))
        if response is None:
            return None
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch

    def begin(self, name: str = "t", **options: Any) -> TransactionalProducer:
        """A producer that may begin a transaction."""
        answer = self.init(name, **options)
        assert answer is not None
        error, producer_id, epoch = answer
        assert error is ErrorCode.NONE
        return TransactionalProducer(name, producer_id, epoch)

    def add(
        self,
        producer: TransactionalProducer,
        partitions: Iterable[TopicPartition] = (ORDERS,),
        version: int = ONE_EPOCH,
    ) -> ErrorCode | None:
        chosen = tuple(partitions)
        return self._error(
            lambda shard, waiter, now_ms: shard.add_partitions(producer, chosen, waiter, now_ms, version)
        )

    def end(
        self, producer: TransactionalProducer, *, commit: bool = True, version: int = ONE_EPOCH
    ) -> ErrorCode | None:
        response = self.end_in_full(producer, commit=commit, version=version)
        return None if response is None else ErrorCode(response.error_code)

    def end_in_full(
        self, producer: TransactionalProducer, *, commit: bool = True, version: int = EPOCH_BUMPS
    ) -> TransactionResponse | None:
        """The response with the next id and epoch; None while it waits."""
        request = TransactionEnd(producer, commit, version)
        if self.shard.needs_next_producer_id(request):
            request = replace(request, fresh_producer_id=next(self._producer_ids))
        found: TransactionResponse | None = self.ask(
            lambda shard, waiter, now_ms: shard.end_transaction(request, waiter, now_ms)
        )
        return found

    def _error(self, operation: Callable[[TransactionShard, int, int], list[Effect]]) -> ErrorCode | None:
        response = self.ask(operation)
        return None if response is None else ErrorCode(response.error_code)

    def write_markers(self, outcome: MarkerOutcome = MarkerOutcome.COMPLETE) -> None:
        """All markers that were asked for are written, or refused."""
        asked, self.markers = self.markers, []
        for markers in asked:
            self.carry_out(self.shard.on_markers_written(markers, outcome, self.now_ms))

    def abort_overdue(self) -> None:
        for name in self.shard.open_ids():
            self.carry_out(self.shard.abort_overdue(name, self.now_ms))
        asking, self._asking_for_ids = self._asking_for_ids, []
        for name in asking:
            self.carry_out(self.shard.abort_overdue(name, self.now_ms, next(self._producer_ids)))

    def expire(self) -> None:
        for names in self.shard.id_chunks():
            self.carry_out(self.shard.expire(names, self.now_ms))

    def store(self, record: CoordinatorRecord) -> bool:
        """Whether a record could be put into the log, behind all others, as if the shard had written it."""
        if self.is_anything_in_flight:
            return False
        self.log.append(Batch(self._next_offset, (record,)))
        self._next_offset += 1
        self._replay(self.shard, self.log[-1])
        return True

    def stored(self, name: str = "t") -> Transaction:
        return self.shard.durable_state()[name]

    def state(self, name: str = "t") -> str:
        return self.stored(name).state.value

    # --- the context's part ---

    def command(self, command: Command) -> None:
        match command:
            case WriteMarkers(markers):
                self.markers.append(markers)
            case CancelMarkers():
                self.markers.clear()
            case AllocateProducerId(transactional_id):
                self._asking_for_ids.append(transactional_id)
            case _:
                raise AssertionError(command)

    def release(self) -> None:
        self.is_holding = False
        super().release()

    def fail(self, error: ErrorCode) -> None:
        self.is_holding = False
        super().fail(error)

    def reelect(self) -> None:
        self.epoch += 1
        self.carry_out(self.shard.on_reelected(self.epoch, self.now_ms))

    def unload(self) -> None:
        """The next leadership has a higher epoch; what is not committed is lost, or was not."""
        super().unload()
        self.markers.clear()
        self.epoch += 1
