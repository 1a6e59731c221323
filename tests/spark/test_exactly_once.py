"""The exactly-once write against a model of brokers: killed between every two steps, repeated, divided differently."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark import exactly_once
from barnabas.spark.exactly_once import (
    Decision,
    DecisionExpired,
    OpenTransaction,
    TaskResult,
    TransactionGone,
    WrongBatch,
    transactional_id,
)

QUERY = "q1"


class Killed(BaseException):
    """The process is gone in the middle of a call."""


class Brokers:
    """Producers with epochs, open and ended transactions, decisions. Killed before, or behind, the effect of a step."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        self.open: dict[str, list[Any]] = {}
        self.ended: dict[tuple[str, int], bool] = {}  # by id and epoch: whether it was committed
        self.visible: list[Any] = []
        self.decisions: dict[str, Decision] = {}
        self.steps = 0
        self.kill_before: int | None = None
        self.kill_behind: int | None = None

    def _step(self, effect: Any) -> Any:
        self.steps += 1
        if self.steps == self.kill_before:
            raise Killed
        result = effect()
        if self.steps == self.kill_behind:
            raise Killed
        return result

    # --- what producers do ---

    def begin(self, name: str) -> OpenTransaction:
        def effect() -> OpenTransaction:
            self._abort(name)
            self.epochs[name] += 1
            return OpenTransaction(name, hash(name), self.epochs[name])

        return self._step(effect)  # type: ignore[no-any-return]

    def add(self, transaction: OpenTransaction, row: Any) -> None:
        def effect() -> None:
            if self.epochs[transaction.transactional_id] != transaction.producer_epoch:
                raise TransactionGone("fenced")
            self.open.setdefault(transaction.transactional_id, []).append(row)

        self._step(effect)

    def time_out(self, name: str) -> None:
        if name in self.open:
            self._abort(name)
            self.epochs[name] += 1

    def _abort(self, name: str) -> None:
        if self.open.pop(name, None) is not None:
            self.ended[name, self.epochs[name]] = False

    # --- Transactions ---

    def decision(self, query: str) -> Decision | None:
        return self._step(lambda: self.decisions.get(query))  # type: ignore[no-any-return]

    def decide(self, query: str, decision: Decision) -> None:
        stored = Decision.decode(decision.encode())
        self._step(lambda: self.decisions.update({query: stored}))

    def end(self, transaction: OpenTransaction, *, commits: bool) -> None:
        def effect() -> None:
            name, epoch = transaction.transactional_id, transaction.producer_epoch
            if self.epochs[name] != epoch:
                raise TransactionGone("fenced")
            if name in self.open:
                rows = self.open.pop(name)
                self.ended[name, epoch] = commits
                if commits:
                    self.visible += rows
            elif self.ended.get((name, epoch)) is not commits:
                raise TransactionGone("ended otherwise")

        self._step(effect)

    def open_ids(self, prefix: str) -> Iterable[str]:
        return self._step(lambda: [name for name in self.open if name.startswith(prefix)])  # type: ignore[no-any-return]

    def fence(self, name: str) -> None:
        def effect() -> None:
            self._abort(name)
            self.epochs[name] += 1

        self._step(effect)


def task(brokers: Brokers, batch: int, partition: int, rows: list[Any], attempt: int = 0) -> TaskResult:
    def write() -> tuple[OpenTransaction | None, int]:
        if not rows:
            return None, 0
        transaction = brokers.begin(transactional_id(QUERY, partition, attempt))
        for row in rows:
            brokers.add(transaction, row)
        return transaction, len(rows)

    return exactly_once.write_task(brokers, QUERY, batch, write)


def run(brokers: Brokers, batch: int, tasks: list[list[Any]]) -> None:
    """A batch as Spark runs it: abort follows a failure of anything."""
    results: list[TaskResult | None] = [None] * len(tasks)
    try:
        for partition, rows in enumerate(tasks):
            results[partition] = task(brokers, batch, partition, rows)
        exactly_once.commit(brokers, QUERY, batch, [each for each in results if each is not None])
    except Exception:
        exactly_once.abort(brokers, QUERY, batch, results)
        raise


def divided(rows: list[int], tasks: int) -> list[list[int]]:
    return [rows[part::tasks] for part in range(tasks)]


ROWS = list(range(7))


def steps_of(tasks: int) -> int:
    brokers = Brokers()
    run(brokers, 0, divided(ROWS, tasks))
    return brokers.steps


@pytest.mark.parametrize("again", [1, 2, 5])
@pytest.mark.parametrize("behind", [False, True])
def test_killed_at_every_step_and_repeated_differently(again: int, behind: bool) -> None:
    total = steps_of(3)
    assert total > 15
    for step in range(1, total + 1):
        brokers = Brokers()
        run(brokers, 0, [["before"]])
        brokers.steps = 0
        if behind:
            brokers.kill_behind = step
        else:
            brokers.kill_before = step
        with pytest.raises(Killed):
            run(brokers, 1, divided(ROWS, 3))
        run(brokers, 1, divided(ROWS, again))
        assert sorted(map(str, brokers.visible)) == sorted(["before", *map(str, ROWS)]), f"step {step}"
        assert brokers.open == {}, f"step {step}: readers of committed records would wait"
        run(brokers, 2, [["later"]])
        assert brokers.visible.count("later") == 1


@settings(max_examples=300, deadline=None)
@given(
    kills=st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=6),
    shapes=st.lists(st.integers(1, 6), min_size=7, max_size=7),
)
def test_killed_again_and_again(kills: list[tuple[bool, int]], shapes: list[int]) -> None:
    brokers = Brokers()
    attempts = itertools.chain(kills, [None])
    for batch in range(3):
        rows = [batch * 100 + n for n in range(7)]
        while True:
            kill = next(attempts, None)
            brokers.steps = 0
            brokers.kill_before = kill[1] if kill is not None and not kill[0] else None
            brokers.kill_behind = kill[1] if kill is not None and kill[0] else None
            try:
                run(brokers, batch, divided(rows, shapes[(batch + brokers.epochs.total()) % 7]))
            except Killed:
                continue
            break
    assert sorted(brokers.visible) == [batch * 100 + n for batch in range(3) for n in range(7)]
    assert brokers.open == {}


def test_a_batch_that_was_written_is_not_written_again() -> None:
    brokers = Brokers()
    run(brokers, 4, divided(ROWS, 2))
    epochs = dict(brokers.epochs)
    run(brokers, 4, divided(ROWS, 3))
    assert sorted(brokers.visible) == ROWS
    assert dict(brokers.epochs) == epochs, "no producer was begun: that would fence the decided ones"


def test_an_attempt_that_does_not_count_cannot_fence_the_one_that_does() -> None:
    brokers = Brokers()
    first = task(brokers, 0, 0, [1, 2])
    late = task(brokers, 0, 0, [1, 2], attempt=1)
    exactly_once.commit(brokers, QUERY, 0, [first])
    assert brokers.visible == [1, 2]
    assert brokers.open == {}, "what the other attempt left open was aborted"
    assert late.transaction is not None
    with pytest.raises(TransactionGone):
        brokers.add(late.transaction, 3)


def test_tasks_that_fail_leave_nothing_open() -> None:
    brokers = Brokers()
    done = task(brokers, 0, 0, [1])
    exactly_once.abort(brokers, QUERY, 0, [done, None])
    assert (brokers.open, brokers.visible) == ({}, [])
    exactly_once.abort(brokers, QUERY, 0, [done, None])  # again, when it is gone


def test_nothing_is_aborted_that_may_be_decided() -> None:
    brokers = Brokers()
    done = task(brokers, 0, 0, [1])
    exactly_once.abort(brokers, QUERY, 0, [done])  # the decision may be under way
    assert brokers.open
    assert done.transaction is not None
    brokers.decide(QUERY, Decision(0, (done.transaction,)))
    exactly_once.abort(brokers, QUERY, 0, [done, None])
    assert brokers.open
    run(brokers, 0, [[1]])
    assert brokers.visible == [1]


def test_a_decision_that_expired_fails_by_name() -> None:
    brokers = Brokers()
    brokers.kill_behind = steps_of(1) - 2  # behind the decision: the commit and the search for others are left
    with pytest.raises(Killed):
        run(brokers, 0, [ROWS])
    assert brokers.decisions
    brokers.kill_behind = None
    brokers.time_out(transactional_id(QUERY, 0, 0))
    with pytest.raises(DecisionExpired, match=r"batch 0 of query q1.*barnabas-q1-0-0.*kafka\.transaction\.timeout\.ms"):
        run(brokers, 0, [ROWS])
    assert brokers.visible == []


def test_an_older_checkpoint_is_refused() -> None:
    brokers = Brokers()
    run(brokers, 7, [ROWS])
    with pytest.raises(WrongBatch, match="batch 6 of query q1 comes after batch 7"):
        run(brokers, 6, [ROWS])


def test_two_runs_of_one_query_are_refused() -> None:
    brokers = Brokers()
    ours = task(brokers, 0, 0, [1])
    brokers.decide(QUERY, Decision(0, ()))
    with pytest.raises(WrongBatch, match="two runs share a checkpoint"):
        exactly_once.commit(brokers, QUERY, 0, [ours])
    with pytest.raises(WrongBatch, match="gone from its topic"):
        exactly_once.commit(brokers, QUERY, 1, [TaskResult(QUERY, None, was_decided=True)])


def test_tasks_without_rows_begin_no_transaction() -> None:
    brokers = Brokers()
    run(brokers, 0, [[], [], []])
    assert not brokers.epochs
    assert brokers.decisions[QUERY] == Decision(0, ())
