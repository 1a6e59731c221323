"""Fetches of old records where their bytes a second are limited (`barnabas.cold.read.max.bytes.per.second`)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cold_reads import GRANTS_A_SECOND
from broker.handlers.fetch import fetch
from broker.handlers.fetch_message_sets import fetch_message_sets
from storage.log import PartitionLog
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker
from tests.broker.handlers.test_fetch import NEWEST_BY_NAME, asked, play, row_of, values

RATE = 1 << 20
LONG = "a" * (RATE // 2)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in memory."""
    monkeypatch.setattr(PartitionLog, "read", lambda *_args, **_more: None)


async def lead(broker: ReplicaBroker, *records: str) -> None:
    broker.one.lead(isr=(1,), replicas=(1,))
    for record in records:
        await broker.one.append(record)


def start(broker: ReplicaBroker, version: int = NEWEST_BY_NAME, **more: Any) -> Answer:
    handler = fetch_message_sets if version < 4 else fetch
    return broker.start(handler, asked(0, **more), version)


async def take_all(broker: ReplicaBroker) -> None:
    """Somebody reads so much that others wait two seconds."""
    turn = broker.services.cold_reads.ask(0)
    assert await turn.wait()
    broker.services.cold_reads.has_read(turn, 2 * RATE)


@pytest.mark.parametrize("version", [1, 3, NEWEST_BY_NAME])
@pytest.mark.usefixtures("cold")
def test_old_records_wait_for_what_others_have_read(tmp_path: Any, version: int) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, "a", "b")
        await take_all(broker)
        answer = start(broker, version)
        broker.turns.advance(2000 - 1)
        assert await answer.now() is None
        assert broker.services.answers.budget.used_bytes == 0, "nothing is reserved meanwhile"
        broker.turns.advance(1)
        response = await answer.when_there()
        assert len(row_of(response).records or b"") > 0
        assert broker.services.answers.budget.used_bytes == 0

    play(tmp_path, scenario, cold_bytes_per_second=RATE)


@pytest.mark.usefixtures("cold")
def test_what_is_read_is_paid_for(tmp_path: Any) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, LONG)
        first = start(broker)
        assert values(row_of(await first.when_there())) == [LONG]
        second = start(broker)
        broker.turns.advance(499)
        assert await second.now() is None
        broker.turns.advance(2)
        await second.when_there()

    play(tmp_path, scenario, cold_bytes_per_second=RATE)


@pytest.mark.parametrize("version", [0, 2, 3, NEWEST_BY_NAME])
@pytest.mark.usefixtures("cold")
def test_a_batch_larger_than_a_turn_is_answered_and_paid_for(tmp_path: Any, version: int) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, LONG)
        assert len(LONG) > RATE // GRANTS_A_SECOND
        first = await start(broker, version).when_there()
        assert len(row_of(first).records or b"") > len(LONG)
        second = start(broker, version)
        broker.turns.advance(499)
        assert await second.now() is None

    play(tmp_path, scenario, cold_bytes_per_second=RATE)


@pytest.mark.usefixtures("cold")
def test_nobody_waits_without_a_limit(tmp_path: Any) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, LONG)
        for _ in range(3):
            await start(broker).when_there()

    play(tmp_path, scenario)


@pytest.mark.usefixtures("cold")
def test_followers_are_not_held_back(tmp_path: Any) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        broker.one.lead(isr=(1,), replicas=(1, 2))
        await broker.one.append("a")
        await take_all(broker)
        await start(broker, replica=2).when_there()

    play(tmp_path, scenario, cold_bytes_per_second=RATE)


def test_new_records_do_not_wait_for_old_ones(tmp_path: Any) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, "a")
        await take_all(broker)
        assert values(row_of(await start(broker).now())) == ["a"]

    play(tmp_path, scenario, cold_bytes_per_second=RATE)


@pytest.mark.usefixtures("cold")
def test_a_client_that_goes_leaves_the_line(tmp_path: Any) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, "a")
        await take_all(broker)
        gone, stays = start(broker), start(broker)
        gone.abandon()
        broker.turns.advance(2000)
        await stays.when_there()
        assert await gone.now() is None
        assert len(broker.services.tasks) == 0

    play(tmp_path, scenario, cold_bytes_per_second=RATE)


@pytest.mark.usefixtures("cold")
def test_a_broker_that_stops_answers_with_nothing(tmp_path: Any) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await lead(broker, "a")
        await take_all(broker)
        answer = start(broker)
        answer.hurry()
        assert values(row_of(await answer.now())) == []
        assert len(broker.services.tasks) == 0

    play(tmp_path, scenario, cold_bytes_per_second=RATE)
