"""Checks of health for all who look: one for those who ask together, or soon behind each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.doubles.clock import ManualClock
from tools.failures import Unreachable
from tools.health.view import ClusterView
from web.checking import checkups
from web.checking.checkups import FRESH_MS, LIMIT, Checkups
from web.cluster.user_cluster import UserCluster
from web.surroundings import Surroundings


class PlayedUser:
    """`failure` is raised by the next check."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks = 0
        self.previous: list[ClusterView | None] = []
        self.failure: Exception | None = None

    async def blocking(self, work: Any) -> ClusterView:
        await asyncio.sleep(0)
        view = work(self)
        assert isinstance(view, ClusterView)
        return view


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(user: PlayedUser, _clock: object, _window_ms: int, previous: ClusterView | None) -> ClusterView:
        user.checks += 1
        user.previous.append(previous)
        if user.failure is not None:
            raise user.failure
        return ClusterView({}, None, ())

    monkeypatch.setattr(checkups, "collect", collect)


@asynccontextmanager
async def opened(clock: ManualClock) -> AsyncIterator[Checkups]:
    surroundings = Surroundings(clock=clock)
    found = Checkups(surroundings)
    yield found
    await found.close()
    await surroundings.close()


def as_user(played: PlayedUser) -> UserCluster:
    return cast("UserCluster", played)


async def test_who_asks_together_or_soon_gets_the_same() -> None:
    clock = ManualClock()
    async with opened(clock) as rooms:
        alice, bob = PlayedUser("alice"), PlayedUser("bob")
        first, second, other = await asyncio.gather(*(rooms.check(as_user(each)) for each in (alice, alice, bob)))
        assert first is second
        assert other is not first
        assert await rooms.check(as_user(alice)) is first
        clock.now_ms += FRESH_MS
        again = await rooms.check(as_user(alice))
        assert again is not first
        assert (alice.checks, bob.checks) == (2, 1)
        assert alice.previous == [None, first.view], "what was seen before helps the next check"


async def test_a_failure_is_told_to_all_and_the_next_asks_again() -> None:
    clock = ManualClock()
    async with opened(clock) as rooms:
        alice = PlayedUser("alice")
        alice.failure = Unreachable()
        told = await asyncio.gather(*(rooms.check(as_user(alice)) for _ in range(2)), return_exceptions=True)
        assert [type(each) for each in told] == [Unreachable, Unreachable]
        alice.failure = None
        assert await rooms.check(as_user(alice))
        assert alice.checks == 2


async def test_users_are_bounded() -> None:
    clock = ManualClock()
    async with opened(clock) as rooms:
        first = PlayedUser("first")
        kept = await rooms.check(as_user(first))
        for number in range(LIMIT):
            await rooms.check(as_user(PlayedUser(str(number))))
        assert await rooms.check(as_user(first)) is not kept
