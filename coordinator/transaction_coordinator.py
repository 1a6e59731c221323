"""The transaction coordinator of this broker: the requests of handlers, passed to the shards of their transactional ids.

Handlers call it with decoded requests. It finds the shard of the transactional id, refuses when that is on another broker or
still loading, and waits for the response, which the shard decides. It has markers written for its shards, and returns their
outcome to the shard that requested them.

Rules: everything runs on the event loop that serves requests, periodic work too.
Invariant: the outcome of markers reaches only the shard that requested them, and never after its leadership.
Source: Kafka TransactionCoordinator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from coordinator.runtime.contract import Command, Effect
from coordinator.runtime.coordinator_runtime import (
    CoordinatorDependencies,
    CoordinatorRuntime,
    PeriodicTask,
    RespondingOperation,
)
from coordinator.runtime.shard_context import Operation, ShardContext, ShardPorts, ShardState
from coordinator.transaction.completion import TransactionEnd
from coordinator.transaction.descriptions import TransactionFilter, described_error
from coordinator.transaction.markers import (
    CancelMarkers,
    MarkerOutcome,
    MarkerWriter,
    TransactionMarkers,
    WriteMarkers,
)
from coordinator.transaction.producer_ids import AllocateProducerId
from coordinator.transaction.producer_registration import ProducerIdAndEpoch, ProducerInit
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.transaction import TransactionResponse
from coordinator.transaction.transaction_partitions import TransactionalProducer
from coordinator.transaction_observation import observe
from metadata.features import CurrentLevels
from metadata.image import TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode, KafkaError
from protocol.messages import describe_transactions, list_transactions
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import ONE_EPOCH
from runtime.slices import Slices

TransactionContext: TypeAlias = ShardContext[TransactionShard]


@dataclass(frozen=True, slots=True)
class TransactionCoordinatorSettings:
    """`request.timeout.ms` (for commits of the coordinator's records),
    `transaction.abort.timed.out.transaction.cleanup.interval.ms`,
    `transaction.remove.expired.transaction.cleanup.interval.ms`; and those of the shards."""

    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    commit_timeout_ms: int = 30_000
    abort_check_interval_ms: int = 10_000
    expiry_check_interval_ms: int = 3_600_000


class TransactionCoordinator:
    """Owned by the broker. `start` before the first request, `close` after the last; elections may precede `start`.

    `next_producer_id` returns an unused id. Raises: KafkaError when none can be allocated.
    """

    def __init__(
        self,
        settings: TransactionCoordinatorSettings,
        dependencies: CoordinatorDependencies,
        markers: MarkerWriter,
        next_producer_id: Callable[[], Awaitable[int]],
        features: CurrentLevels,
    ) -> None:
        self._transactions = settings.transactions
        self._clock = dependencies.clock
        self._markers = markers
        self._next_producer_id = next_producer_id
        self._tasks = dependencies.tasks
        ports: ShardPorts[TransactionShard] = ShardPorts(
            topic=TRANSACTION_STATE_TOPIC,
            clock=dependencies.clock,
            timer=dependencies.timer,
            writer=dependencies.writer,
            reader=dependencies.reader,
            observe=observe,
            carry_out=self._carry_out,
            commit_timeout_ms=settings.commit_timeout_ms,
        )
        self.runtime = CoordinatorRuntime(
            lambda partition, leader_epoch: TransactionShard(
                partition, leader_epoch, settings.transactions, lambda: features.levels.transaction
            ),
            ports,
            dependencies.tasks,
            dependencies.partitions_count,
            [
                PeriodicTask("abort transactions", settings.abort_check_interval_ms, _abort_overdue),
                PeriodicTask("expire transactional ids", settings.expiry_check_interval_ms, _expire),
            ],
        )

    def start(self) -> None:
        self.runtime.start()

    def close(self) -> None:
        """Respond to all waiting requests, and cancel pending markers: the next coordinator writes them."""
        led = [context.partition for context in self.runtime.contexts()]
        self.runtime.close()
        for partition in led:
            self._markers.cancel(partition)

    def partition_for(self, transactional_id: str) -> int | None:
        """Return the id's partition of `__transaction_state`, None as long as the topic is not known."""
        return self.runtime.partition_for(transactional_id)

    # --- elections -------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self.runtime.topic

    def on_leadership(self, partition: int, leader_epoch: int) -> None:
        """Begin to coordinate the partition, or continue under the new leader epoch."""
        self.runtime.on_leadership(partition, leader_epoch)

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """Unload the partition, and cancel its pending markers: the next coordinator writes them."""
        self.runtime.on_resignation(partition, leader_epoch)
        if all(context.partition != partition for context in self.runtime.contexts()):
            self._markers.cancel(partition)

    # --- markers ---------------------------------------------------------------------------------------------------

    def _carry_out(self, command: Command, context: TransactionContext) -> None:
        match command:
            case WriteMarkers(markers):
                self._markers.write(markers, partial(_on_markers_written, context, markers))
            case CancelMarkers():
                self._markers.cancel(context.partition)
            case AllocateProducerId(transactional_id):
                self._tasks.spawn(self._abort_with_id(transactional_id, context), name="producer id after a timeout")
            case _:
                raise AssertionError(f"not a command of a transaction: {command}")

    async def _abort_with_id(self, transactional_id: str, context: TransactionContext) -> None:
        try:
            fresh_id = await self._next_producer_id()
        except KafkaError:
            return  # the next check for overdue transactions asks again
        context.run(lambda shard, now_ms: shard.abort_overdue(transactional_id, now_ms, fresh_id))

    # --- producers -------------------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> TransactionResponse:
        """Return when the producer's epoch is stored. `expected` is the previous id and epoch that the producer names."""
        if not transactional_id:
            return TransactionResponse(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._transactions.max_timeout_ms:
            return TransactionResponse(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        context = self.runtime.shard_of(transactional_id)
        if isinstance(context, ErrorCode):
            return TransactionResponse(context)
        fresh_id: int | None = None
        if context.shard.needs_producer_id(transactional_id, expected):
            try:
                fresh_id = await self._next_producer_id()
            except KafkaError as error:
                return TransactionResponse(error.code)
        request = ProducerInit(transactional_id, timeout_ms, expected, fresh_id)
        return await self._run(  # in the shard of this moment: it may have moved meanwhile
            transactional_id, lambda shard, waiter, now_ms: shard.init_producer_id(request, waiter, now_ms)
        )

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        client_version: int = ONE_EPOCH,
    ) -> TransactionResponse:
        """Return when the partitions, which must exist, are stored as part of the transaction."""
        producer = TransactionalProducer(transactional_id, producer_id, producer_epoch)
        return await self._run(
            transactional_id,
            lambda shard, waiter, now_ms: shard.add_partitions(producer, partitions, waiter, now_ms, client_version),
        )

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for each partition that is in the open transaction of this producer, else an error."""
        context = self._shard_of(transactional_id)
        if isinstance(context, ErrorCode):
            return dict.fromkeys(partitions, context)
        producer = TransactionalProducer(transactional_id, producer_id, producer_epoch)
        return context.shard.verify_partitions(producer, partitions)

    async def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        client_version: int = ONE_EPOCH,
    ) -> TransactionResponse:
        """Return when the outcome is stored; the markers are written afterwards."""
        producer = TransactionalProducer(transactional_id, producer_id, producer_epoch)
        request = TransactionEnd(producer, is_commit, client_version)
        context = self._shard_of(transactional_id)
        if not isinstance(context, ErrorCode) and context.shard.needs_next_producer_id(request):
            try:
                request = replace(request, fresh_producer_id=await self._next_producer_id())
            except KafkaError as error:
                return TransactionResponse(error.code)
        return await self._run(
            transactional_id, lambda shard, waiter, now_ms: shard.end_transaction(request, waiter, now_ms)
        )

    async def _run(
        self, transactional_id: str, operation: RespondingOperation[TransactionShard, TransactionResponse]
    ) -> TransactionResponse:
        context = self._shard_of(transactional_id)
        if isinstance(context, ErrorCode):
            return TransactionResponse(context)
        return await self.runtime.run(context, operation)

    # --- administration --------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        if not self.runtime.is_active:
            return described_error(transactional_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        context = self._shard_of(transactional_id)
        if isinstance(context, ErrorCode):
            return described_error(transactional_id, context)
        return context.shard.describe(transactional_id)

    async def list_transactions(
        self, wanted: TransactionFilter
    ) -> tuple[ErrorCode, list[list_transactions.TransactionState]]:
        """Return the transactions of all partitions led here; none while one of them is being loaded."""
        if not self.runtime.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        contexts = self.runtime.contexts()
        if any(context.state is ShardState.LOADING for context in contexts):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []
        now_ms = self._clock.wall_ms()
        slices = Slices(self._clock)
        rows: list[list_transactions.TransactionState] = []
        for context in contexts:
            if context.state is ShardState.ACTIVE:
                async for transactional_id in slices.over(context.shard.stored_keys()):
                    row = context.shard.list_row(transactional_id, wanted, now_ms)
                    if row is not None:
                        rows.append(row)
        return ErrorCode.NONE, rows

    def waiting_completions(self) -> int:
        """The transactions whose markers are written and whose completion the log has refused."""
        return sum(shard.waiting_completions for shard in self.runtime.active_shards())

    def ids_count(self) -> int:
        """The transactional ids that this broker coordinates."""
        return sum(shard.ids_count for shard in self.runtime.active_shards())

    # --- routing ----------------------------------------------------------------------------------------

    def _shard_of(self, transactional_id: str) -> TransactionContext | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self.runtime.shard_of(transactional_id)


def _on_markers_written(context: TransactionContext, markers: TransactionMarkers, outcome: MarkerOutcome) -> None:
    context.run(lambda shard, now_ms: shard.on_markers_written(markers, outcome, now_ms))


def _abort_overdue(shard: TransactionShard) -> Iterator[Operation[TransactionShard]]:
    for transactional_id in shard.open_ids():
        yield partial(_abort_one, transactional_id)


def _abort_one(transactional_id: str, shard: TransactionShard, now_ms: int) -> list[Effect]:
    return shard.abort_overdue(transactional_id, now_ms)


def _expire(shard: TransactionShard) -> Iterator[Operation[TransactionShard]]:
    for transactional_ids in shard.id_chunks():
        yield partial(_expire_chunk, transactional_ids)


def _expire_chunk(transactional_ids: list[str], shard: TransactionShard, now_ms: int) -> list[Effect]:
    return shard.expire(transactional_ids, now_ms)
