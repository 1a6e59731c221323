"""Writes the batches of a stream to topics exactly once, though Spark repeats batches and may divide a repeated one
differently. Pure.

A batch is committed in two phases, like a transaction over several resources:

1. Each task writes its rows in a transaction of its own, leaves it open, and returns transactional id, producer id and epoch.
2. The driver writes one decision record: the batch, and all those transactions. From here on the batch counts as written.
3. The driver commits each transaction.

A batch that Spark repeats finds the decision of its number: its tasks write nothing, and the driver commits the transactions
again, which changes nothing where it was done before. Without a decision nothing of the earlier attempts can become visible:
the new tasks begin new transactions, and what earlier attempts left open is aborted.

A decision may still be on its way to the broker when its driver is gone. So the first task of a run (Spark has an id for each
start of a query) registers the run before it believes that a batch is not decided: a record in the log of the decisions, with
the producer id of the run before and the next epoch; the first run has those of a transactional id of the query. The leader of
that partition refuses what comes later with an older epoch. A driver decides with the epoch of its own run, in which sequence
numbers count its decisions.

The transactional id is `<query>-<run>-<partition>-<attempt>`. Runs, and attempts of one task, have ids of their own, so that
neither a request of an earlier run that arrives late, nor a speculative copy, nor an attempt that Spark has given up can fence
the transaction that counts.

Rules: pure; `Transactions` does what is asked of brokers. Nothing is aborted of a batch that is decided, or may be.
Invariants: a row is visible to readers of committed records at most once; a batch that Spark has committed is visible as a
whole; when a run is registered, no earlier one can decide. What can fail: a decided transaction that its broker has aborted
since, as `transaction.timeout.ms` was over before the driver came back. That is `DecisionExpired`: rows of the batch are lost,
and somebody has to know.
Source: two-phase commit; Kafka KIP-98 (transactions, fencing by epoch), KIP-360 (a producer that raises its own epoch).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from protocol.records.batch import advance_sequence

_VERSION: Final = 2
FIRST_SEQUENCE: Final = 1
"""Of the decisions of a run: its registration has 0."""
_ATTEMPTS: Final = 10
"""So often a run registers, or decides, before others that do the same at the same time are an error."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction of a task, as it is ended by anybody who has these three."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Registration:
    """A run of a query, and the producer with which it writes its decisions."""

    run: str
    producer_id: int
    producer_epoch: int

    def encode(self) -> bytes:
        return json.dumps({"version": _VERSION, "run": self.as_list()}).encode()

    @staticmethod
    def decode(value: bytes) -> Registration:
        return Registration(*_stored(value)["run"])

    def as_list(self) -> list[Any]:
        """As it is stored."""
        return [self.run, self.producer_id, self.producer_epoch]


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch of a query counts as written when these transactions are committed. `sequence` counts the decisions of the run
    that `registration` tells."""

    batch: int
    transactions: tuple[OpenTransaction, ...]
    registration: Registration
    sequence: int

    def encode(self) -> bytes:
        listed = [[each.transactional_id, each.producer_id, each.producer_epoch] for each in self.transactions]
        run = self.registration.as_list()
        stored = {
            "version": _VERSION,
            "batch": self.batch,
            "transactions": listed,
            "run": run,
            "sequence": self.sequence,
        }
        return json.dumps(stored).encode()

    @staticmethod
    def decode(value: bytes) -> Decision:
        stored = _stored(value)
        transactions = tuple(OpenTransaction(*each) for each in stored["transactions"])
        return Decision(stored["batch"], transactions, Registration(*stored["run"]), stored["sequence"])


def _stored(value: bytes) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(value)
    if stored["version"] != _VERSION:
        raise ValueError(f"a decision of version {stored['version']} is not known")
    return stored


@dataclass(frozen=True, slots=True)
class QueryState:
    """What the log of the decisions says of a query: the run that was registered last, and the last decision."""

    registration: Registration | None = None
    decision: Decision | None = None

    def decide(self, batch: int, transactions: tuple[OpenTransaction, ...]) -> Decision:
        """The next decision of the run that is registered."""
        assert self.registration is not None
        last = self.decision
        follows = last is not None and last.registration == self.registration
        sequence = advance_sequence(last.sequence, 1) if last is not None and follows else FIRST_SEQUENCE
        return Decision(batch, transactions, self.registration, sequence)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task of a `run` of `query` returns. `transaction` is None when it wrote nothing: it had no rows, or
    `was_decided`: the batch was written before."""

    query: str
    run: str
    transaction: OpenTransaction | None
    was_decided: bool
    rows: int = 0


class TransactionGone(Exception):
    """The broker ended the transaction, or fenced its producer: it can no longer be committed."""


class Fenced(Exception):
    """Another run was registered, or another decision written, since the state was read."""


class DecisionExpired(RuntimeError):
    """A batch was decided, and a transaction of it was aborted before it was committed."""


class WrongBatch(RuntimeError):
    """The checkpoint and the decisions of a query do not fit."""


class Transactions(Protocol):
    """What is asked of brokers. Each call waits out errors that pass, and raises those that stay."""

    def state(self, query: str) -> QueryState:
        """What is stored of a query."""

    def register(self, query: str, run: str, before: Registration | None) -> None:
        """Store a registration with the producer of `before`, and its next epoch; without one with a producer of the query,
        whose epoch rises with each call. Afterwards no producer of an older epoch can store anything; of two that follow on the
        same one the first counts. Raises Fenced."""

    def decide(self, query: str, decision: Decision) -> None:
        """Store a decision; it is durable when this returns. When it raises, it may be durable or not. Raises Fenced."""

    def end(self, transaction: OpenTransaction, *, commits: bool) -> None:
        """End a transaction; ending it again the same way changes nothing. Raises TransactionGone."""

    def open_ids(self, prefix: str) -> Iterable[str]:
        """The transactional ids that begin with `prefix` and have an open transaction."""

    def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, and fence its producer."""


def id_prefix(query: str) -> str:
    return f"barnabas-{query}-"


def transactional_id(query: str, run: str, partition: int, attempt: int) -> str:
    return f"{id_prefix(query)}{run}-{partition}-{attempt}"


def write_task(
    transactions: Transactions,
    query: str,
    run: str,
    batch: int,
    write: Callable[[], tuple[OpenTransaction | None, int]],
) -> TaskResult:
    """The part of a task. `write` writes all rows in a new transaction, and returns it open, with their count; None without
    rows. Raises WrongBatch."""
    if is_decided(_registered(transactions, query, run, batch).decision, query, batch):
        return TaskResult(query, run, None, was_decided=True)
    transaction, rows = write()
    return TaskResult(query, run, transaction, was_decided=False, rows=rows)


def _registered(transactions: Transactions, query: str, run: str, batch: int) -> QueryState:
    """The state when this run is registered, or the batch decided. Tasks register the run at the same time: one of them
    succeeds. Raises WrongBatch."""
    for _ in range(_ATTEMPTS):
        state = transactions.state(query)
        if is_decided(state.decision, query, batch):
            return state
        if state.registration is not None and state.registration.run == run:
            return state
        try:
            transactions.register(query, run, state.registration)
        except Fenced:
            continue  # by another task of the run, as the state will say
    raise WrongBatch(f"another run of query {query} begins at the same time: two runs share a checkpoint")


def is_decided(decision: Decision | None, query: str, batch: int) -> bool:
    """Whether the batch counts as written. Raises WrongBatch for a batch before the decided one."""
    if decision is None or decision.batch < batch:
        return False
    if decision.batch > batch:
        raise WrongBatch(
            f"batch {batch} of query {query} comes after batch {decision.batch} was written: its checkpoint is older than the "
            "topic. Start it with a new checkpoint"
        )
    return True


def commit(transactions: Transactions, query: str, batch: int, results: Sequence[TaskResult]) -> None:
    """The driver's part, when all tasks have succeeded. Raises DecisionExpired, WrongBatch."""
    decision = _decided(transactions, query, batch, results)
    for each in decision.transactions:
        try:
            transactions.end(each, commits=True)
        except TransactionGone as error:
            raise DecisionExpired(
                f"batch {batch} of query {query} was decided, but transaction {each.transactional_id} was aborted before it "
                f"was committed ({error}): rows of the batch are lost. A longer kafka.transaction.timeout.ms gives a query "
                "that stops at that moment more time to come back"
            ) from error
    _abort_others(transactions, query, decision)


def _decided(transactions: Transactions, query: str, batch: int, results: Sequence[TaskResult]) -> Decision:
    """The decision of the batch, as the log has it: that of these results, or of an earlier attempt. Raises WrongBatch."""
    written = tuple(each.transaction for each in results if each.transaction is not None)
    runs = {each.run for each in results}
    for _ in range(_ATTEMPTS):
        state = transactions.state(query)
        if is_decided(state.decision, query, batch):
            assert state.decision is not None
            if written and written != state.decision.transactions:
                raise WrongBatch(
                    f"batch {batch} of query {query} was written by another run of the query while this one wrote it, too: "
                    "two runs share a checkpoint"
                )
            return state.decision
        if any(each.was_decided for each in results):
            raise WrongBatch(f"the decision of batch {batch} of query {query} is gone from its topic")
        if state.registration is None or state.registration.run not in runs:
            raise WrongBatch(
                f"another run of query {query} began while this one wrote batch {batch}: two runs share a checkpoint"
            )
        try:
            transactions.decide(query, state.decide(batch, written))
        except Fenced:
            continue
    raise WrongBatch(f"batch {batch} of query {query} cannot be decided: others write to its decisions")


def abort(transactions: Transactions, query: str, batch: int, results: Sequence[TaskResult | None]) -> None:
    """The driver's part, when a task or `commit` has failed: abort what the tasks left open, unless the batch may be decided.

    When every task has a result, `commit` was called, and may have sent a decision that is not stored yet: then the open
    transactions are left to the repeated batch.
    """
    if all(each is not None for each in results) or is_decided(transactions.state(query).decision, query, batch):
        return
    for each in results:
        if each is not None and each.transaction is not None:
            try:
                transactions.end(each.transaction, commits=False)
            except TransactionGone:
                continue  # which is what was to be reached


def _abort_others(transactions: Transactions, query: str, decision: Decision) -> None:
    """Abort what attempts that do not count have left open: readers of committed records wait for the end of those, too."""
    decided = {each.transactional_id for each in decision.transactions}
    for each in sorted(set(transactions.open_ids(id_prefix(query))) - decided):
        transactions.fence(each)
