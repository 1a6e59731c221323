"""A consumer above its quota gets no records and loses none: its session is as if it had not asked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import fetch, fetch_all
from replication.fetch_sessions import NO_SESSION
from tests.async_tests import played_by
from tests.broker.handlers.records.session_world import FOLLOWER, VERSION, Client, Several, several
from tests.broker.handlers.records.test_fetch import asked, play, row, start, values
from tests.broker.handlers.replica_broker import ReplicaBroker

NO_EPOCH = -1
VERSIONS = (4, 11, 12)


def limit(broker: ReplicaBroker, bytes_per_second: int) -> None:
    broker.services.quotas.apply_entity("clients/<default>", {"consumer_byte_rate": str(bytes_per_second)})


def use(broker: ReplicaBroker, size_bytes: int) -> None:
    """As by fetches before."""
    rate = broker.services.quotas.fetch.rate_of("ANONYMOUS", "test", broker.clock.monotonic_ms())
    rate.record(size_bytes, broker.clock.monotonic_ms())


@pytest.mark.parametrize("version", VERSIONS)
@played_by(play, "tmp_path")
async def test_above_its_quota_a_consumer_gets_no_records(broker: ReplicaBroker, version: int) -> None:
    broker.one.lead(isr=(1,))
    await broker.one.append("a")
    limit(broker, 100)
    assert values(await row(broker, asked(0, session_epoch=NO_EPOCH), version)) == ["a"]
    use(broker, 2_000)
    response = await start(broker, asked(0, session_epoch=NO_EPOCH), version).now()
    assert response.error_code == 0
    assert response.responses == []
    assert response.throttle_time_ms > 10_000
    (rate,) = broker.services.quotas.fetch
    assert rate.rate.per_second(broker.clock.now_ms) < 220, "what was not sent is not counted"
    broker.wait(11_000)
    assert values(await row(broker, asked(0, session_epoch=NO_EPOCH), version)) == ["a"]


@played_by(play, "tmp_path")
async def test_followers_are_not_charged(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    await broker.one.append("a")
    limit(broker, 1)
    use(broker, 2_000)
    assert values(await row(broker, asked(0, replica=2))) == ["a"]


@played_by(play, "tmp_path")
async def test_no_more_is_read_than_a_window_allows(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,))
    for _ in range(20):
        await broker.one.append("a" * 100)
    limit(broker, 100)
    throttled = await start(broker, asked(0, session_epoch=NO_EPOCH)).now()
    assert throttled.throttle_time_ms < 1_000, "little more than ten windows allow"
    broker.wait(throttled.throttle_time_ms)
    found = await row(broker, asked(0, session_epoch=NO_EPOCH))
    assert 800 < len(found.records or b"") <= 1_000


def play_session(folder: Path, scenario: Callable[[Several], Awaitable[None]]) -> None:
    async def run() -> None:
        async with several(folder / "logs") as made:
            for one in made.replicas:
                one.lead(isr=(1,))
            await scenario(made)

    asyncio.run(run())


async def ask(made: Several, client: Client) -> Any:
    response = await made.broker.start(fetch, client.request(0), VERSION).now()
    assert response is not None
    assert response.error_code == 0
    return response


@played_by(play_session, "tmp_path")
async def test_a_throttled_first_fetch_creates_no_session(made: Several) -> None:
    await made.replicas[0].append("a")
    limit(made.broker, 10)
    use(made.broker, 2_000)
    response = await ask(made, Client())
    assert (response.session_id, response.responses) == (NO_SESSION, [])
    assert len(made.broker.services.fetch_sessions) == 0


@played_by(play_session, "tmp_path")
async def test_a_session_goes_on_after_throttled_fetches(made: Several) -> None:
    client, ends = Client(), [0, 0, 0]
    client.take(await ask(made, client), ends)
    for index in (0, 2):
        await made.replicas[index].append(f"of {index}")
    limit(made.broker, 1_000)
    use(made.broker, 20_000)
    for _ in range(2):
        response = await ask(made, client)
        assert response.throttle_time_ms > 0
        assert (response.session_id, response.responses) == (client.session_id, [])
        client.take(response, ends)
    await made.replicas[1].append("of 1")
    made.wait(12_000)
    client.take(await ask(made, client), ends)
    assert client.offsets == {0: 1, 1: 1, 2: 1}
    assert len(made.broker.services.fetch_sessions) == 1


@played_by(play_session, "tmp_path")
async def test_a_throttled_fetch_among_many_partitions_reads_like_others(
    made: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response of a fetch of many partitions is built in steps; it is charged before the first."""
    monkeypatch.setattr(sys.modules[fetch_all.__module__], "LONG_FETCH_ITEMS", 1)
    await made.replicas[0].append("a")
    limit(made.broker, 10)
    use(made.broker, 2_000)
    for replica, count in ((-1, 0), (FOLLOWER, 3)):
        answer = made.broker.start(fetch, Client(replica).request(0), VERSION)
        for _ in range(10):
            response = await answer.now()
        assert sum(len(topic.partitions) for topic in response.responses) == count
