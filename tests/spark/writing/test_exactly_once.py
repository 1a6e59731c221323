"""The exactly-once write against a model of brokers: killed between every two steps, repeated, divided differently; requests
of a run that was killed arrive late."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.writing import exactly_once
from barnabas.spark.writing.exactly_once import (
    Decision,
    DecisionExpired,
    Fenced,
    OpenTransaction,
    QueryState,
    Registration,
    TaskResult,
    TransactionGone,
    WrongBatch,
    transactional_id,
)

QUERY = "q1"
RUN = "r1"


class Killed(BaseException):
    """The process is gone in the middle of a call."""


class Brokers:
    """Producers with epochs, open and ended transactions, decisions. Killed before, or behind, the effect of a step; or while
    the request of the step is on its way: then it takes effect some steps later."""

    def __init__(self) -> None:
        self.runs = 0
        self.log: list[Decision | Registration] = []
        self.first_epochs = 0
        self.on_its_way: list[Any] = []
        self.arrives_after: int | None = None
        """How many more steps the requests on their way take."""
        self.epochs: Counter[str] = Counter()
        self.open: dict[str, list[Any]] = {}
        self.ended: dict[tuple[str, int], bool] = {}  # by id and epoch: whether it was committed
        self.visible: list[Any] = []
        self.steps = 0
        self.kill_before: int | None = None
        self.kill_behind: int | None = None

    @property
    def decisions(self) -> list[Decision]:
        return [each for each in self.log if isinstance(each, Decision)]

    def _step(self, effect: Any) -> Any:
        self.steps += 1
        if self.on_its_way and self.arrives_after is not None:
            self.arrives_after -= 1
            if self.arrives_after < 0:
                self._arrive()
        if self.steps == self.kill_before:
            if self.arrives_after is not None:
                self.on_its_way.append(effect)
            raise Killed
        result = effect()
        if self.steps == self.kill_behind:
            raise Killed
        return result

    def _arrive(self) -> None:
        for effect in self.on_its_way:
            with contextlib.suppress(Fenced, TransactionGone):
                effect()
        self.on_its_way.clear()

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

    def state(self, query: str) -> QueryState:
        def effect() -> QueryState:
            registration, decision = None, None
            for each in self.log:
                if isinstance(each, Decision):
                    registration, decision = each.registration, each
                else:
                    registration = each
            return QueryState(registration, decision)

        return self._step(effect)  # type: ignore[no-any-return]

    def register(self, query: str, run: str, before: Registration | None) -> None:
        if before is None:
            producer = 10, self.first_epochs
            self.first_epochs += 1
        else:
            producer = before.producer_id, before.producer_epoch + 1
        stored = Registration.decode(Registration(run, *producer).encode())
        self._step(lambda: self._store(stored, stored, 0))

    def decide(self, query: str, decision: Decision) -> None:
        stored = Decision.decode(decision.encode())
        self._step(lambda: self._store(stored, stored.registration, stored.sequence))

    def _store(self, record: Decision | Registration, producer: Registration, sequence: int) -> None:
        """As the leader of a partition does it."""
        last: tuple[int, int] | None = None
        for each in self.log:
            written_by = each.registration if isinstance(each, Decision) else each
            if written_by.producer_id == producer.producer_id:
                last = written_by.producer_epoch, each.sequence if isinstance(each, Decision) else 0
        if last is not None:
            epoch, newest = last
            if producer.producer_epoch < epoch:
                raise Fenced("an older epoch")
            if producer.producer_epoch == epoch and sequence <= newest:
                return  # a duplicate
            if sequence != (newest + 1 if producer.producer_epoch == epoch else 0):
                raise Fenced("out of order")
        self.log.append(record)

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


def task(
    brokers: Brokers, batch: int, partition: int, rows: list[Any], attempt: int = 0, name: str = RUN
) -> TaskResult:
    def write() -> tuple[OpenTransaction | None, int]:
        if not rows:
            return None, 0
        transaction = brokers.begin(transactional_id(QUERY, name, partition, attempt))
        for row in rows:
            brokers.add(transaction, row)
        return transaction, len(rows)

    return exactly_once.write_task(brokers, QUERY, name, batch, write)


def run(brokers: Brokers, batch: int, tasks: list[list[Any]], name: str | None = None) -> None:
    """A batch as Spark runs it, in a run of its own or in that of `name`: abort follows a failure of anything."""
    if name is None:
        brokers.runs += 1
        name = f"r{brokers.runs}"
    results: list[TaskResult | None] = [None] * len(tasks)
    try:
        for partition, rows in enumerate(tasks):
            results[partition] = task(brokers, batch, partition, rows, name=name)
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


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("delay", range(30))
def test_requests_of_a_killed_run_that_arrive_late(delay: int, is_first: bool) -> None:
    """Also the decision: the repeated batch either finds it, or has it refused."""
    by_runs, first = set(), 0 if is_first else 1
    for step in range(1, steps_of(3) + 1):
        brokers = Brokers()
        if not is_first:
            run(brokers, 0, [["before"]])
        brokers.steps, brokers.kill_before, brokers.arrives_after = 0, step, delay
        with pytest.raises(Killed):
            run(brokers, first, divided(ROWS, 3))
        killed = brokers.runs
        run(brokers, first, divided(ROWS, 2))
        by_runs.add(brokers.decisions[first].registration.run == f"r{killed}")
        brokers._arrive()
        run(brokers, first, divided(ROWS, 1))
        run(brokers, first + 1, [["later"]])
        expected = [*ROWS, "later", *([] if is_first else ["before"])]
        assert sorted(map(str, brokers.visible)) == sorted(map(str, expected)), f"step {step}"
        assert brokers.open == {}, f"step {step}: readers of committed records would wait"
    assert False in by_runs


@settings(max_examples=600, deadline=None)
@given(
    kills=st.lists(st.tuples(st.booleans(), st.integers(1, 40), st.one_of(st.none(), st.integers(0, 40))), max_size=6),
    shapes=st.lists(st.integers(1, 6), min_size=7, max_size=7),
)
def test_killed_again_and_again(kills: list[tuple[bool, int, int | None]], shapes: list[int]) -> None:
    brokers = Brokers()
    attempts = itertools.chain(kills, [None])
    for batch in range(3):
        rows = [batch * 100 + n for n in range(7)]
        while True:
            kill = next(attempts, None)
            brokers.steps, brokers.kill_before, brokers.kill_behind = 0, None, None
            if kill is not None:
                is_behind, step, delay = kill
                brokers.kill_before = None if is_behind else step
                brokers.kill_behind = step if is_behind else None
                if not brokers.on_its_way:
                    brokers.arrives_after = delay
            try:
                run(brokers, batch, divided(rows, shapes[(batch + brokers.epochs.total()) % 7]))
            except Killed:
                continue
            break
    brokers._arrive()
    brokers.kill_before, brokers.kill_behind = None, None
    run(brokers, 3, [[1000]])
    assert sorted(brokers.visible) == [*(batch * 100 + n for batch in range(3) for n in range(7)), 1000]
    assert brokers.open == {}


def test_a_run_is_registered_once_and_counts_its_decisions() -> None:
    brokers = Brokers()
    for batch in range(3):
        run(brokers, batch, divided(ROWS, 2), "r1")
    run(brokers, 3, divided(ROWS, 2), "r2")
    first = Registration("r1", 10, 0)
    then = Registration("r2", 10, 1)
    assert [each if isinstance(each, Registration) else (each.registration, each.sequence) for each in brokers.log] == [
        first, (first, 1), (first, 2), (first, 3), then, (then, 1),
    ]  # fmt: skip


def test_a_run_that_another_one_has_followed_cannot_decide() -> None:
    brokers = Brokers()
    old = task(brokers, 0, 0, [1])
    new = task(brokers, 0, 0, [1], name="r2")
    with pytest.raises(WrongBatch, match="another run of query q1 began while this one wrote batch 0"):
        exactly_once.commit(brokers, QUERY, 0, [old])
    exactly_once.commit(brokers, QUERY, 0, [new])
    assert (brokers.visible, brokers.open) == ([1], {})


def test_a_decision_is_refused_when_another_run_was_registered_meanwhile() -> None:
    brokers = Brokers()
    old = task(brokers, 0, 0, [1])
    state = brokers.state(QUERY)
    task(brokers, 0, 0, [1], name="r2")
    assert old.transaction is not None
    with pytest.raises(Fenced):
        brokers.decide(QUERY, state.decide(0, (old.transaction,)))


def test_tasks_that_register_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each believes to be the first."""
    brokers = Brokers()
    run(brokers, 0, [["before"]])
    register = brokers.register
    others: list[TaskResult] = []

    def late(query: str, name: str, before: Registration | None) -> None:
        monkeypatch.setattr(brokers, "register", register)
        others.append(task(brokers, 1, 1, [2], name="r2"))
        register(query, name, before)

    monkeypatch.setattr(brokers, "register", late)
    first = task(brokers, 1, 0, [1], name="r2")
    exactly_once.commit(brokers, QUERY, 1, [first, *others])
    assert brokers.visible == ["before", 1, 2]
    assert len([each for each in brokers.log if isinstance(each, Registration)]) == 2


def test_registering_and_deciding_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Fenced("by somebody else, each time")

    brokers = Brokers()
    done = task(brokers, 0, 0, [1])
    monkeypatch.setattr(brokers, "decide", refuse)
    with pytest.raises(WrongBatch, match="batch 0 of query q1 cannot be decided"):
        exactly_once.commit(brokers, QUERY, 0, [done])
    monkeypatch.setattr(brokers, "register", refuse)
    with pytest.raises(WrongBatch, match="another run of query q1 begins at the same time"):
        task(brokers, 0, 0, [1], name="r2")


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
    brokers.decide(QUERY, brokers.state(QUERY).decide(0, (done.transaction,)))
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
    brokers.time_out(transactional_id(QUERY, RUN, 0, 0))
    with pytest.raises(
        DecisionExpired, match=r"batch 0 of query q1.*barnabas-q1-r1-0-0.*kafka\.transaction\.timeout\.ms"
    ):
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
    brokers.decide(QUERY, brokers.state(QUERY).decide(0, ()))
    with pytest.raises(WrongBatch, match="two runs share a checkpoint"):
        exactly_once.commit(brokers, QUERY, 0, [ours])
    with pytest.raises(WrongBatch, match="gone from its topic"):
        exactly_once.commit(brokers, QUERY, 1, [TaskResult(QUERY, RUN, None, was_decided=True)])


def test_tasks_without_rows_begin_no_transaction() -> None:
    brokers = Brokers()
    run(brokers, 0, [[], [], []])
    assert not brokers.epochs
    assert [(each.batch, each.transactions) for each in brokers.decisions] == [(0, ())]
