"""Bugs of transactions: the coordinator, its markers, the partition side, offsets. Each says which checker is to find it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from broker.cluster.transactions.marker_queues import MarkerQueues
from broker.cluster.transactions.transaction_verification import CoordinatorVerification
from broker.cluster.transactions.verification_queues import VerificationErrors
from coordinator.group.offsets import GroupOffsets
from coordinator.transaction import transaction_partitions
from coordinator.transaction.change_writer import ChangeWriter, _TransactionChange
from coordinator.transaction.completion import TransactionCompletion
from coordinator.transaction.markers import TransactionMarkers
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.transaction import Transaction, TransactionResponse
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from storage.log.producers.producer_state import NO_OFFSET, ProducerStates
from storage.log.reading.log_reading import LogReading
from storage.segments.segment import Segment
from tests.simulation.cluster.world import GROUP_TOPIC
from tests.simulation.mutants import Mutant, Patches


def _aborted_not_told(patches: Patches) -> None:
    patches.replace(LogReading, "aborted_in", lambda original: lambda self, *args: [])


def _aborted_without_lower_bound(patches: Patches) -> None:
    def widen(original: Any) -> Any:
        def find_aborted(self: Segment, start_offset: int, *args: Any) -> Any:
            return original(self, 0, *args)

        return find_aborted

    patches.replace(Segment, "find_aborted", widen)


def _unheard_of_partitions_are_gone(patches: Patches) -> None:
    def forget(original: Any) -> Any:
        def _route(self: MarkerQueues, pending: Any, partitions: Iterable[Any], image: Any) -> None:
            known = [each for each in partitions if image.partition(*each) is not None]
            pending.remaining.difference_update(set(partitions) - set(known))
            original(self, pending, known, image)

        return _route

    patches.replace(MarkerQueues, "_route", forget)


def _decided_commits_resumed_as_aborts(patches: Patches) -> None:
    resumed: list[TransactionMarkers] = []

    def note(original: Any) -> Any:
        def _carry_on(self: TransactionShard, now_ms: int) -> None:
            original(self, now_ms)
            resumed.extend(each.markers for each in self._ids.values() if each.markers is not None)

        return _carry_on

    def turn(original: Any) -> Any:
        def add(self: MarkerQueues, markers: TransactionMarkers, *args: Any) -> None:
            is_resumed = any(each is markers for each in resumed)
            original(self, replace(markers, is_commit=False) if is_resumed else markers, *args)

        return add

    patches.replace(TransactionShard, "_carry_on", note)
    patches.replace(MarkerQueues, "add", turn)


def _decided_not_resumed(patches: Patches) -> None:
    patches.replace(TransactionShard, "_carry_on", lambda original: lambda self, now_ms: None)


def _added_partitions_replace(patches: Patches) -> None:
    def only_new(original: Any) -> Any:
        def with_partitions(self: Transaction, added: Any, *more: Any, **options: Any) -> Transaction:
            return replace(original(self, added, *more, **options), partitions=added)

        return with_partitions

    patches.replace(Transaction, "with_partitions", only_new)


def _batches_appended_twice(patches: Patches) -> None:
    patches.replace(ProducerStates, "check", lambda original: lambda self, header, **options: None)


def _transaction_begins_too_early(patches: Patches) -> None:
    def early(original: Any) -> Any:
        def apply(self: ProducerStates, header: Any, base_offset: int) -> None:
            before = self._states.get(header.producer_id)
            original(self, header, base_offset)
            state = self._states.get(header.producer_id)
            is_new = state is not None and state.current_txn_first_offset == base_offset
            if is_new and before is not None and base_offset > 10 and header.base_sequence > 0:
                assert state is not None
                del self._ongoing[base_offset]
                state.current_txn_first_offset = base_offset - 10
                self._ongoing[base_offset - 10] = header.producer_id

        return apply

    patches.replace(ProducerStates, "apply", early)


def _zombies_add_partitions(patches: Patches) -> None:
    def lenient(original: Any) -> Any:
        def _producer_error(*args: Any) -> ErrorCode:
            error: ErrorCode = original(*args)
            return ErrorCode.NONE if error is ErrorCode.PRODUCER_FENCED else error

        return _producer_error

    patches.replace(transaction_partitions, "_producer_error", lenient)


def _epoch_bumped_by_a_commit(patches: Patches) -> None:
    def bump(original: Any) -> Any:
        def completed(self: Transaction, now_ms: int) -> Transaction:
            done: Transaction = original(self, now_ms)
            return replace(done, producer_epoch=done.producer_epoch + 1)

        return completed

    patches.replace(Transaction, "completed", bump)


def _aborted_offsets_committed(patches: Patches) -> None:
    def commit(original: Any) -> Any:
        def end_transaction(self: GroupOffsets, producer_id: int, *, committed: bool) -> None:
            original(self, producer_id, committed=True)

        return end_transaction

    patches.replace(GroupOffsets, "end_transaction", commit)


def _offsets_never_unstable(patches: Patches) -> None:
    patches.replace(GroupOffsets, "is_unstable", lambda original: lambda self, topic_partition: False)


def _refused_change_stays_pending(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def failed(self: _TransactionChange, error: ErrorCode, now_ms: int) -> Any:
            return TransactionResponse(error)

        return failed

    patches.replace(_TransactionChange, "failed", keep)


def _state_before_its_record(patches: Patches) -> None:
    """What is in memory is newer than the log when the append fails."""

    def early(original: Any) -> Any:
        def store(self: ChangeWriter, subject: Any, transaction: Transaction, *args: Any, **options: Any) -> None:
            original(self, subject, transaction, *args, **options)
            subject.stored = transaction

        return store

    patches.replace(ChangeWriter, "store", early)


def _timeouts_forgotten(patches: Patches) -> None:
    patches.replace(
        TransactionCompletion, "abort_overdue", lambda original: lambda self, transactional_id, now_ms: None
    )


def _lost_markers_not_repeated(patches: Patches) -> None:
    def drop(original: Any) -> Any:
        def on_lost(self: MarkerQueues, broker_id: int) -> None:
            self._in_flight.pop(broker_id)

        return on_lost

    patches.replace(MarkerQueues, "on_lost", drop)


def _markers_end_nothing(patches: Patches) -> None:
    """The partition keeps the transaction open when the marker comes in another epoch than its records."""

    def keep(original: Any) -> Any:
        def apply_marker(self: ProducerStates, header: Any, *args: Any) -> Any:
            state = self._states.get(header.producer_id)
            if state is None or state.epoch == header.producer_epoch or state.current_txn_first_offset == NO_OFFSET:
                return original(self, header, *args)
            return None

        return apply_marker

    patches.replace(ProducerStates, "apply_marker", keep)


def _transactions_not_loaded(patches: Patches) -> None:
    def skip(original: Any) -> Any:
        def replay(self: TransactionShard, *args: Any) -> None:
            if not self._is_loading:
                original(self, *args)

        return replay

    patches.replace(TransactionShard, "replay", skip)


def _late_markers_taken(patches: Patches) -> None:
    patches.replace(ProducerStates, "check_marker_epoch", lambda original: lambda self, *args: None)


def _not_added(*, is_internal: bool) -> Callable[[Patches], None]:
    """The coordinator is not asked to add such partitions, and whoever wants it added hears that it was."""

    def plant(patches: Patches) -> None:
        def forget(original: Any) -> Any:
            async def add(
                self: CoordinatorVerification,
                transactional_id: str,
                producer_id: int,
                producer_epoch: int,
                partitions: Collection[TopicPartition],
            ) -> VerificationErrors:
                asked = [key for key in partitions if (key[0] == GROUP_TOPIC) != is_internal]
                added = await original(self, transactional_id, producer_id, producer_epoch, asked) if asked else {}
                return {**dict.fromkeys(partitions, ErrorCode.NONE), **added}

            return add

        patches.replace(CoordinatorVerification, "add", forget)

    return plant


def _epoch_stays_at_the_end(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def prepared(self: Transaction, now_ms: int, **options: Any) -> Transaction:
            return replace(original(self, now_ms, **options), producer_epoch=self.producer_epoch)

        return prepared

    patches.replace(Transaction, "prepared", keep)


def _old_epoch_answered(patches: Patches) -> None:
    def before(original: Any) -> Any:
        def store(self: ChangeWriter, subject: Any, transaction: Transaction, *args: Any, **options: Any) -> None:
            response = options.get("response")
            if transaction.state.is_prepared and response is not None and response.producer_epoch > 0:
                options["response"] = replace(response, producer_epoch=response.producer_epoch - 1)
            original(self, subject, transaction, *args, **options)

        return store

    patches.replace(ChangeWriter, "store", before)


TRANSACTIONS = (
    Mutant("aborted-not-told", "aborted reads: fetches name no aborted transactions", _aborted_not_told),
    Mutant(
        "aborted-without-lower-bound",
        "polls: fetches name transactions that were aborted before their position",
        _aborted_without_lower_bound,
    ),
    Mutant(
        "unheard-of-partitions-are-gone",
        "lost writes: a coordinator that starts drops the markers of partitions that it has not heard of",
        _unheard_of_partitions_are_gone,
    ),
    Mutant(
        "decided-commits-resumed-as-aborts",
        "torn transactions: a new coordinator aborts what was to be committed",
        _decided_commits_resumed_as_aborts,
    ),
    Mutant("decided-not-resumed", "liveness: a new coordinator writes no markers", _decided_not_resumed),
    Mutant("added-partitions-replace", "hanging: partitions added before get no marker", _added_partitions_replace),
    Mutant("batches-appended-twice", "duplicates: a batch that is sent again is appended", _batches_appended_twice),
    Mutant(
        "transaction-begins-too-early",
        "last stable offset: a transaction begins before its first record",
        _transaction_begins_too_early,
    ),
    Mutant(
        "zombies-add-partitions", "fencing: the epoch of AddPartitionsToTxn is not checked", _zombies_add_partitions
    ),
    Mutant("epoch-bumped-by-a-commit", "fencing: producers are fenced by their own commits", _epoch_bumped_by_a_commit),
    Mutant("aborted-offsets-committed", "offsets: those of aborted transactions count", _aborted_offsets_committed),
    Mutant("offsets-never-unstable", "offsets: pending ones do not make a fetch wait", _offsets_never_unstable),
    Mutant("state-before-its-record", "lost writes: memory is newer than the log", _state_before_its_record),
    Mutant("timeouts-forgotten", "hanging: nothing is aborted for its age", _timeouts_forgotten),
    Mutant("markers-end-nothing", "hanging: markers of the next epoch are not taken", _markers_end_nothing),
    Mutant("transactions-not-loaded", "liveness: a new coordinator starts empty", _transactions_not_loaded),
)

CLUSTER_TRANSACTIONS = (
    Mutant("lost-markers-not-repeated", "hanging: markers go once", _lost_markers_not_repeated),
    Mutant(
        "refused-change-stays-pending",
        "liveness: CONCURRENT_TRANSACTIONS for ever after a refused append",
        _refused_change_stays_pending,
    ),
)

# In histories where the end of each transaction raises the epoch:
RAISED_EPOCHS = (
    Mutant(
        "written-partition-not-added",
        "hanging: the coordinator does not hear of partitions that are written to",
        _not_added(is_internal=False),
    ),
    Mutant(
        "partition-of-offsets-not-added",
        "hanging: the coordinator does not hear of offsets that are stored",
        _not_added(is_internal=True),
    ),
    Mutant("epoch-stays-at-the-end", "epochs: the next transaction has that of the last one", _epoch_stays_at_the_end),
    Mutant("old-epoch-answered", "epochs: the end of a transaction is answered with its own", _old_epoch_answered),
)
CLUSTER_RAISED_EPOCHS = (
    Mutant("late-markers-taken", "late markers: a marker ends whatever its producer has open", _late_markers_taken),
)
