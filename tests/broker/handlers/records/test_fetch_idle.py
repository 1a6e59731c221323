"""Fetch sessions look only at what was touched, and stand in no list when they are over. That they answer as if they looked
at everything: `test_fetch_histories.py`."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import ParkedFetch, fetch
from protocol.messages.fetch import ForgottenTopic
from replication.fetch_read import inspect
from replication.fetch_sessions import FetchItem, FetchSession
from tests.broker.handlers.records.session_world import (
    FOLLOWER,
    PARTITIONS,
    VERSION,
    WAIT_MS,
    Client,
    Several,
    read,
    several,
)

# --- what is looked at ---


class Looks:
    """Which partitions were inspected since they were last asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[int] = []

        def noted(item: FetchItem, *more: Any) -> Any:
            self._seen.append(item.partition)
            return inspect(item, *more)

        monkeypatch.setattr(sys.modules[ParkedFetch.__module__], "inspect", noted)

    def taken(self) -> list[int]:
        seen, self._seen = self._seen, []
        return seen


async def test_an_idle_session_looks_at_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1, 2))
        for client in (Client(FOLLOWER), Client(), Client(isolation=1)):
            await read(made, client, wait_ms=WAIT_MS)
            assert looks.taken() == [0, 1, 2]
            for wait_ms in (WAIT_MS, 0):
                await read(made, client, wait_ms=wait_ms)
                assert looks.taken() == []


async def test_what_has_changed_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1, 2))
        consumer = Client()
        await read(made, consumer)
        looks.taken()
        await made.replicas[1].append("a")
        await read(made, consumer)
        assert looks.taken() == [], "nothing is committed yet"
        made.replicas[1].fetched(1)
        waiting = made.broker.start(fetch, consumer.request(WAIT_MS), VERSION)
        assert await waiting.now() is not None
        assert looks.taken() == [1]


async def test_a_partition_that_answers_an_error_is_looked_at_until_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    async with several(tmp_path / "broker") as made:
        for one in made.replicas[:2]:
            one.lead(isr=(1,), replicas=(1,))
        consumer = Client()
        for asked in ([0, 1, 2], [2], [2]):
            consumer.named[2] = consumer.offsets[2]
            await read(made, consumer)
            assert looks.taken() == asked
        made.replicas[2].lead(isr=(1,), replicas=(1,))
        await read(made, consumer)
        assert looks.taken() == [2]
        await read(made, consumer)
        assert looks.taken() == []


async def test_a_follower_outside_the_isr_is_looked_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1, 2))
        follower = Client(FOLLOWER)
        await read(made, follower)
        made.replicas[1].lead(isr=(1,), partition_epoch=1)
        made.around.alive = {1, 3}
        for _ in range(3):
            looks.taken()
            await read(made, follower)
            assert looks.taken() == [1]
        assert made.around.wishes == []
        made.around.alive = {1, 2, 3}
        await read(made, follower)
        (change,) = made.around.wishes
        assert change.added == FOLLOWER
        made.replicas[1].answer(change)
        await read(made, follower)
        looks.taken()
        await read(made, follower)
        assert looks.taken() == []


async def test_a_fetch_that_waits_for_more_than_there_is_looks_at_what_comes(tmp_path: Path) -> None:
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1,), replicas=(1,))
        consumer = Client()
        await read(made, consumer)
        await made.replicas[0].append("a")
        await made.replicas[1].append("b")
        request = consumer.request(WAIT_MS)
        request.min_bytes = 200
        waiting = made.broker.start(fetch, request, VERSION)
        assert await waiting.now() is None
        await made.replicas[1].append("c" * 100)
        response = await waiting.now()
        assert [row.partition_index for row in response.responses[0].partitions] == [0, 1]


async def test_a_follower_that_cannot_go_on_is_not_taken_for_one_that_rests(tmp_path: Path) -> None:
    """Its session lives on, for the sake of other partitions."""
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1, 2))
        follower = Client(FOLLOWER)
        await read(made, follower)
        since_ms = made.around.now_ms
        follower.offsets[1] = 99  # out of range
        forgets = follower.request(0)
        forgets.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[2])]
        follower.take(await made.broker.start(fetch, forgets, VERSION).now(), [0, 99, 0])
        made.wait(WAIT_MS)
        await read(made, follower)
        resting, mad, forgotten = (one.partition.leader for one in made.replicas)
        assert resting is not None
        assert resting.followers[FOLLOWER].caught_up_ms == made.around.now_ms >= since_ms + WAIT_MS
        for leader in (mad, forgotten):
            assert leader is not None
            assert leader.followers[FOLLOWER].caught_up_ms == since_ms
        assert watchers_count(made) == 1


# --- sessions and the lists they stand in ---


def watchers_count(made: Several) -> int:
    return sum(len(watchers) for one in made.replicas for watchers in one.partition.waiters.watcher_lists())


async def test_a_session_that_ends_stands_in_no_list(tmp_path: Path) -> None:
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1, 2))
        follower, consumer, passer_by = Client(FOLLOWER), Client(), Client()
        for client in (follower, consumer):
            await read(made, client)
        assert watchers_count(made) == 2 * PARTITIONS
        passer_by.epoch = -1
        await read(made, passer_by, wait_ms=WAIT_MS)
        assert watchers_count(made) == 2 * PARTITIONS
        consumer.epoch = 0  # begins again
        await read(made, consumer)
        assert watchers_count(made) == 2 * PARTITIONS
        last = consumer.request(0)
        last.session_epoch = -1
        await made.broker.start(fetch, last, VERSION).now()
        assert watchers_count(made) == PARTITIONS
        session = made.session(follower.session_id)
        parked = made.broker.start(fetch, follower.request(WAIT_MS), VERSION)
        assert await parked.now() is None
        made.broker.services.fetch_sessions._drop(follower.session_id)
        assert watchers_count(made) == PARTITIONS, "somebody still waits"
        made.wait(WAIT_MS)
        assert await parked.now() is not None
        assert watchers_count(made) == 0
        for one in made.replicas:
            assert one.partition.leader is not None
            assert not one.partition.leader.followers[FOLLOWER].is_idle_on(session)


async def test_an_abandoned_fetch_is_as_if_it_had_never_come(tmp_path: Path) -> None:
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1,), replicas=(1,))
        consumer = Client()
        await read(made, consumer)
        abandoned = made.broker.services.fetch_sessions
        parked = fetch(consumer.request(WAIT_MS), made.broker.context(VERSION))
        parked.abandon()  # type: ignore[union-attr]
        consumer.epoch += 1
        assert len(abandoned) == 1
        await made.replicas[0].append("a")
        await read(made, consumer)
        assert consumer.answers[-2][:3] == (0, 0, 1)


async def test_a_fetch_that_another_has_overtaken_takes_nothing_from_it(tmp_path: Path) -> None:
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1,), replicas=(1,))
        consumer = Client()
        await read(made, consumer)
        old = made.broker.start(fetch, consumer.request(WAIT_MS), VERSION)
        consumer.epoch += 1
        new = made.broker.start(fetch, consumer.request(WAIT_MS * 2), VERSION)
        made.wait(WAIT_MS)
        assert (await old.now()).error_code == 71  # INVALID_FETCH_SESSION_EPOCH
        assert await new.now() is None
        await made.replicas[1].append("a")
        response = await new.now()
        assert [row.partition_index for row in response.responses[0].partitions] == [1]


async def test_fetches_leave_no_cycles_behind(tmp_path: Path) -> None:
    """They would keep whole requests in memory until the collector comes."""
    async with several(tmp_path / "broker") as made:
        for one in made.replicas:
            one.lead(isr=(1,), replicas=(1,))
        in_session, alone = Client(), Client()
        await read(made, in_session)
        gc.collect()
        gc.disable()
        try:
            for client in (in_session, alone):
                for wait_ms in (0, WAIT_MS):
                    alone.epoch = -1
                    await read(made, client, wait_ms=wait_ms)
                alone.epoch = -1
                parked = fetch(client.request(WAIT_MS), made.broker.context(VERSION))
                parked.abandon()  # type: ignore[union-attr]
                del parked
                client.epoch += 1
            in_session.epoch = -1
            await read(made, in_session)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [each for each in gc.garbage if isinstance(each, FetchSession | FetchItem | ParkedFetch)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert left == []
