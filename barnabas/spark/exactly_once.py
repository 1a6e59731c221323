"""Writes the batches of a stream to topics exactly once, though Spark repeats batches and may divide a repeated one
differently. Pure.

A batch is committed in two phases, like a transaction over several resources:

1. Each task writes its rows in a transaction of its own, leaves it open, and returns transactional id, producer id and epoch.
2. The driver writes one decision record: the batch, and all those transactions. From here on the batch counts as written.
3. The driver commits each transaction.

A batch that Spark repeats finds the decision of its number: its tasks write nothing, and the driver commits the transactions
again, which changes nothing where it was done before. Without a decision nothing of the earlier attempts can become visible:
the new tasks begin new transactions, and what earlier attempts left open is aborted.

The transactional id is `<query>-<partition>-<attempt>`. Attempts of one task have ids of their own, so that a speculative
copy, or an attempt that Spark has given up, cannot fence the one whose result counts.

Rules: pure; `Transactions` does what is asked of brokers. Nothing is aborted of a batch that is decided, or may be.
Invariants: a row is visible to readers of committed records at most once; a batch that Spark has committed is visible as a
whole. What can fail: a decided transaction that its broker has aborted since, as `transaction.timeout.ms` was over before
the driver came back. That is `DecisionExpired`: rows of the batch are lost, and somebody has to know.
Source: two-phase commit; Kafka KIP-98 (transactions, fencing by epoch).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction of a task, as it is ended by anybody who has these three."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch of a query counts as written when these transactions are committed."""

    batch: int
    transactions: tuple[OpenTransaction, ...]

    def encode(self) -> bytes:
        listed = [[each.transactional_id, each.producer_id, each.producer_epoch] for each in self.transactions]
        return json.dumps({"version": 1, "batch": self.batch, "transactions": listed}).encode()

    @staticmethod
    def decode(value: bytes) -> Decision:
        stored = json.loads(value)
        if stored["version"] != 1:
            raise ValueError(f"a decision of version {stored['version']} is not known")
        return Decision(stored["batch"], tuple(OpenTransaction(*each) for each in stored["transactions"]))


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task of `query` returns. `transaction` is None when it wrote nothing: it had no rows, or `was_decided`: the
    batch was written before."""

    query: str
    transaction: OpenTransaction | None
    was_decided: bool
    rows: int = 0


class TransactionGone(Exception):
    """The broker ended the transaction, or fenced its producer: it can no longer be committed."""


class DecisionExpired(RuntimeError):
    """A batch was decided, and a transaction of it was aborted before it was committed."""


class WrongBatch(RuntimeError):
    """The checkpoint and the decisions of a query do not fit."""


class Transactions(Protocol):
    """What is asked of brokers. Each call waits out errors that pass, and raises those that stay."""

    def decision(self, query: str) -> Decision | None:
        """The last decision of a query."""

    def decide(self, query: str, decision: Decision) -> None:
        """Write a decision; it is durable when this returns. When it raises, it may be durable or not."""

    def end(self, transaction: OpenTransaction, *, commits: bool) -> None:
        """End a transaction; ending it again the same way changes nothing. Raises TransactionGone."""

    def open_ids(self, prefix: str) -> Iterable[str]:
        """The transactional ids that begin with `prefix` and have an open transaction."""

    def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, and fence its producer."""


def id_prefix(query: str) -> str:
    return f"barnabas-{query}-"


def transactional_id(query: str, partition: int, attempt: int) -> str:
    return f"{id_prefix(query)}{partition}-{attempt}"


def write_task(
    transactions: Transactions,
    query: str,
    batch: int,
    write: Callable[[], tuple[OpenTransaction | None, int]],
) -> TaskResult:
    """The part of a task. `write` writes all rows in a new transaction, and returns it open, with their count; None without
    rows. Raises WrongBatch."""
    if is_decided(transactions.decision(query), query, batch):
        return TaskResult(query, None, was_decided=True)
    transaction, rows = write()
    return TaskResult(query, transaction, was_decided=False, rows=rows)


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
    decision = transactions.decision(query)
    if is_decided(decision, query, batch):
        assert decision is not None
        written = [each for each in results if each.transaction is not None]
        if written:
            raise WrongBatch(
                f"batch {batch} of query {query} was written by another run of the query while this one wrote it, too: "
                "two runs share a checkpoint"
            )
    else:
        if any(each.was_decided for each in results):
            raise WrongBatch(f"the decision of batch {batch} of query {query} is gone from its topic")
        open_ones = tuple(each.transaction for each in results if each.transaction is not None)
        decision = Decision(batch, open_ones)
        transactions.decide(query, decision)
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


def abort(transactions: Transactions, query: str, batch: int, results: Sequence[TaskResult | None]) -> None:
    """The driver's part, when a task or `commit` has failed: abort what the tasks left open, unless the batch may be decided.

    When every task has a result, `commit` was called, and may have sent a decision that is not stored yet: then the open
    transactions are left to the repeated batch.
    """
    if all(each is not None for each in results) or is_decided(transactions.decision(query), query, batch):
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
