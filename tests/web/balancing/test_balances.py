"""Balances of the web process: one at a time, stopped in order, plans that are kept for their users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from tests.doubles.clock import ManualClock
from tools.balance.layout import Layout, PartitionLoad
from tools.balance.planning import BalancePlan, plan_balance
from tools.balance.survey import Survey
from tools.reassignment import execution
from tools.reassignment.moves import Reassignment
from web.access.identity import ANONYMOUS
from web.access.sessions import SessionLimits, Sessions
from web.balancing import balances
from web.balancing.balances import PLANS, Balances
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.surroundings import Surroundings

SETTINGS = parse_client({"bootstrap.servers": "played:1"}, DEFAULTS)
PATIENCE_S = 30
KEYS = [("t", index) for index in range(2)]


def plan() -> BalancePlan:
    seen = Survey({0: None, 1: None}, {key: PartitionLoad((0,), 10) for key in KEYS}, (), ())
    return plan_balance(seen, Layout(seen.loads, seen.racks, frozenset(), frozenset()))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Play a cluster whose moves never end until they are taken back."""
    found: list[Any] = []
    moving: dict[tuple[str, int], Reassignment] = {}

    def alter(targets: dict[tuple[str, int], Any]) -> Any:
        yield from ()
        found.append(targets)
        for key, replicas in targets.items():
            if replicas is None:
                moving.pop(key)
            elif set(replicas) != {0}:
                moving[key] = Reassignment((0, *replicas), tuple(replicas))
        return set()

    def answer(value: Any) -> Any:
        def steps(*_: Any) -> Any:
            yield from ()
            return value

        return steps

    class PlayedCluster:
        def __init__(self, *_: Any) -> None: ...

        async def run(self, steps: Any) -> Any:
            with pytest.raises(StopIteration) as end:
                next(steps)
            return end.value.value

        async def close(self) -> None:
            found.append("closed")

    monkeypatch.setattr(balances, "UserCluster", PlayedCluster)
    monkeypatch.setattr(execution, "alter", alter)
    for name, value in (("moving", moving), ("places", {}), ("remove_throttles", ["removed"]), ("elect_preferred", [])):
        monkeypatch.setattr(execution, name, answer(value))
    return found


def as_user(name: str) -> UserCluster:
    return cast("UserCluster", SimpleNamespace(name=name, settings=SETTINGS))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  a balance tells nobody
            await asyncio.sleep(0.001)


async def test_one_runs_at_a_time_and_a_stop_takes_back(asked: list[Any]) -> None:
    surroundings = Surroundings(clock=ManualClock())
    rooms = Balances(surroundings)
    try:
        sessions = Sessions(surroundings.randomness, SessionLimits())
        session, _ = sessions.begin(ANONYMOUS, 0)
        mine, other = rooms.keep("alice", plan()), rooms.keep("bob", plan())
        with pytest.raises(HttpProblem, match="no such plan"):
            rooms.start(mine, as_user("bob"), None, 5)
        run = rooms.start(mine, as_user("alice"), None, 5, session)
        with pytest.raises(HttpProblem, match="a balance of alice is running"):
            rooms.start(other, as_user("bob"), None, 5)
        await until(lambda: bool(asked))
        assert list(session.under_way) == [run]
        assert sessions.end_old(SessionLimits().idle_ms) == [], "what goes on in its name uses it"
        rooms.stop()
        assert run.state == "stopping"
        await until(lambda: asked[-1] == "closed")
        assert (run.state, run.failure, run.done_count) == ("stopped", None, 0)
        assert None in asked[1].values(), "what was moving is taken back"
        assert not session.under_way
        assert any(note.startswith("taken back") for note in run.notes)
        assert rooms.start(other, as_user("bob"), None, 5).user == "bob"
    finally:
        await rooms.close()
        await surroundings.close()
    assert rooms.current is not None
    assert rooms.current.state == "stopped", "the end of the process ends a balance in order"


async def test_plans_are_bounded() -> None:
    surroundings = Surroundings()
    rooms = Balances(surroundings)
    first = rooms.keep("alice", plan())
    for _ in range(PLANS):
        rooms.keep("alice", plan())
    with pytest.raises(HttpProblem, match="no such plan"):
        rooms.start(first, as_user("alice"), None, 5)
    await rooms.close()
    await surroundings.close()
