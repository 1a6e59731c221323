"""Carrying out moves on a cluster that is played: batches, failures, interruptions."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from client.admin.steps import Steps
from runtime.command_line.failure import Failure
from tests.doubles.clock import ManualClock
from tools.balance.planner import Move
from tools.reassignment import execution
from tools.reassignment.execution import Execution
from tools.reassignment.moves import Reassignment
from tools.reassignment.reassignments import Unanswered
from tools.reassignment.terminal import TerminalReport, carry_out_until_interrupted

MOVES = [
    Move(("t", 0), (1, 2), (2, 1), 0),
    Move(("t", 1), (1, 2), (3, 2), 10),
    Move(("t", 2), (1, 2), (1, 3), 5),
    Move(("t", 3), (1, 2), (3, 1), 20),
]


def as_steps(call: Callable[..., Any]) -> Callable[..., Steps[Any]]:
    """Return an operation that asks nothing."""

    def steps(*arguments: Any) -> Steps[Any]:
        yield from ()
        return call(*arguments)

    return steps


class PlayedCluster:
    """Whatever is begun is over at the next look, unless `is_stuck`; the first `silent` looks have no answer."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.replicas: dict[tuple[str, int], list[int]] = {move.key: list(move.before) for move in MOVES}
        self.moving: dict[tuple[str, int], Reassignment] = {}
        self.events: list[Any] = []
        self.is_stuck = False
        self.silent = 0
        self.deaf = 0
        self.on_look: Any = None
        self.there = {1, 2, 3}
        self.unthrottled: set[int] = set()

    def run(self, steps: Steps[Any]) -> Any:
        """These ask nothing: a played operation has its result at once."""
        with pytest.raises(StopIteration) as end:
            next(steps)
        return end.value.value

    def alter(self, targets: Mapping[tuple[str, int], Sequence[int] | None]) -> set[tuple[str, int]]:
        if not targets:
            return set()
        if self.deaf:
            self.deaf -= 1
            raise Unanswered("nobody answers")
        self.events.append(("alter", {key[1]: None if each is None else list(each) for key, each in targets.items()}))
        over = {key for key, replicas in targets.items() if replicas is None and key not in self.moving}
        for key, replicas in targets.items():
            if key in over:
                continue
            if replicas is None:
                del self.moving[key]
                self.replicas[key] = self.replicas[key][::-1]
            elif set(replicas) == set(self.replicas[key]) or not self.is_stuck:
                self.replicas[key] = list(replicas)
            else:
                self.moving[key] = Reassignment(tuple(replicas))
        return over

    def look(self) -> dict[tuple[str, int], Reassignment]:
        if self.on_look is not None:
            self.on_look()
        if self.silent:
            self.silent -= 1
            raise Unanswered("nobody answers")
        return dict(self.moving)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    cluster = PlayedCluster()

    def record(name: str) -> Any:
        shown = 0 if name == "remove_throttles" else -1  # topics, rate, partitions

        def call(*arguments: Any) -> Any:
            cluster.events.append((name, arguments[shown]))
            if name == "remove_throttles":
                cluster.unthrottled = arguments[1]
            return cluster.there if name == "throttle_brokers" else []

        return as_steps(call)

    monkeypatch.setattr(execution, "alter", as_steps(lambda targets: cluster.alter(targets)))
    monkeypatch.setattr(execution, "moving", as_steps(cluster.look))
    monkeypatch.setattr(execution, "places", as_steps(lambda *_: {}))
    monkeypatch.setattr(
        execution, "current_replicas", as_steps(lambda keys: {key: cluster.replicas[key] for key in keys})
    )
    for name in ("throttle_brokers", "remove_throttles", "elect_preferred"):
        monkeypatch.setattr(execution, name, record(name))
    monkeypatch.setattr(execution, "POLL_S", 0)
    return cluster


def execution_of(cluster: PlayedCluster, throttle: int | None = 7) -> Execution:
    return Execution(TerminalReport(35, cluster.clock), "played:1", MOVES, throttle, 2)


def run(cluster: PlayedCluster, throttle: int | None = 7) -> bool:
    return carry_out_until_interrupted(execution_of(cluster, throttle).work(), cluster)  # type: ignore[arg-type]


def test_orders_change_first_then_batches_from_the_smallest_and_throttles_go(played: PlayedCluster) -> None:
    played.silent = played.deaf = 3
    assert run(played)
    assert [event for event in played.events if event[0] != "elect_preferred"] == [
        ("alter", {0: [2, 1]}),
        ("throttle_brokers", 7),
        ("alter", {2: [1, 3], 1: [3, 2]}),
        ("throttle_brokers", 7),
        ("alter", {3: [3, 1]}),
        ("remove_throttles", {"t"}),
    ]
    assert [event[1] for event in played.events if event[0] == "elect_preferred"] == [
        [("t", 0)],
        [("t", 1)],
        [("t", 3)],
    ]


def test_who_was_gone_from_the_start_has_no_throttle_that_could_be_left(played: PlayedCluster) -> None:
    played.there = {1, 3}
    assert run(played)
    assert played.unthrottled == {1, 3}


def test_without_a_throttle_none_is_removed(played: PlayedCluster) -> None:
    assert run(played, None)
    assert not [event for event in played.events if "throttle" in event[0]]


def test_whoever_is_not_answered_any_more_takes_back_and_removes(played: PlayedCluster) -> None:
    played.silent = 1000
    played.is_stuck = True
    with pytest.raises(Failure, match="nobody answers"):
        run(played)
    assert played.events[-1] == ("remove_throttles", {"t"})
    assert ("alter", {0: None}) in played.events


def test_an_interruption_takes_back_what_is_moving_in_its_order(
    played: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    played.is_stuck = True
    played.on_look = lambda: played.moving and os.kill(os.getpid(), signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    assert not run(played)
    assert signal.getsignal(signal.SIGINT) is before
    assert played.events[-3:] == [
        ("alter", {2: None, 1: None}),
        ("alter", {2: [1, 2], 1: [1, 2]}),
        ("remove_throttles", {"t"}),
    ]
    assert "taken back: t-1, t-2" in capsys.readouterr().err


def test_a_cluster_that_cannot_be_put_in_order_is_told_with_the_commands(
    played: PlayedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Failure("nobody answers")

    monkeypatch.setattr(execution, "remove_throttles", as_steps(fail))
    with pytest.raises(Failure, match=r"nobody answers; .*`barnabas partitions cancel --execute` ends them"):
        run(played)


def test_what_the_cluster_refuses_is_not_tried_again(played: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refuse(targets: Mapping[tuple[str, int], object]) -> set[tuple[str, int]]:
        tried.append(targets)
        if targets and None not in targets.values():
            raise Failure("INVALID_REPLICA_ASSIGNMENT")
        return set(targets)

    monkeypatch.setattr(execution, "alter", as_steps(refuse))
    with pytest.raises(Failure, match="INVALID_REPLICA_ASSIGNMENT"):
        run(played)
    assert tried[:2] == [{("t", 0): (2, 1)}, {("t", 0): None}], "begun once, and taken back"


def test_replicas_of_which_a_broker_has_not_heard_yet_are_looked_for_again(
    played: PlayedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {move.key: list(move.before) for move in MOVES}
    looks: list[Mapping[tuple[str, int], list[int]]] = [older, older]

    def look(keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[int]]:
        known = looks.pop() if looks else played.replicas
        return {key: known[key] for key in keys}

    monkeypatch.setattr(execution, "current_replicas", as_steps(look))
    assert run(played)
    assert not looks


def test_the_order_is_given_back_whatever_a_broker_tells(
    played: PlayedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not have heard of the end of the moves, nor of their begin."""
    played.is_stuck = True
    played.on_look = lambda: played.moving and os.kill(os.getpid(), signal.SIGINT)
    older = {move.key: list(move.before) for move in MOVES} | {MOVES[0].key: list(MOVES[0].after)}
    monkeypatch.setattr(execution, "current_replicas", as_steps(lambda keys: {key: older[key] for key in keys}))
    assert not run(played)
    assert [played.replicas[move.key] for move in MOVES[1:3]] == [list(move.before) for move in MOVES[1:3]]


def test_what_is_over_when_it_would_be_taken_back_stays_moved(played: PlayedCluster) -> None:
    """It ended behind the last look; moved back it would be copied without a throttle."""
    played.is_stuck = True
    played.on_look = lambda: played.moving and os.kill(os.getpid(), signal.SIGINT)

    def alter(targets: Mapping[tuple[str, int], Sequence[int] | None]) -> set[tuple[str, int]]:
        if None in targets.values() and MOVES[2].key in played.moving:
            del played.moving[MOVES[2].key]
            played.replicas[MOVES[2].key] = list(MOVES[2].after)
        return PlayedCluster.alter(played, targets)

    played.alter = alter  # type: ignore[method-assign]
    carried = execution_of(played)
    assert not carry_out_until_interrupted(carried.work(), played)  # type: ignore[arg-type]
    assert [move.key for move in carried.done] == [MOVES[0].key, MOVES[2].key]
    assert [played.replicas[move.key] for move in MOVES[1:3]] == [list(MOVES[1].before), list(MOVES[2].after)]


def test_moves_of_somebody_else_are_told(played: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "current_replicas", as_steps(lambda keys: {key: [9] for key in keys}))
    with pytest.raises(Failure, match="somebody else has moved t-0"):
        run(played)
