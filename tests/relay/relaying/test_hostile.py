"""What is hostile to a relay holds up nobody else: very many records for one millisecond, and targets that take none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import EmbeddedBroker
from relay.rules.rule import Rule, RuleKind
from tests.relay.running import FEW, relay_client, running_relay, until, wall_ms

MANY = 30_000


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


async def test_very_many_records_for_one_millisecond_come_in_order_and_hold_up_nobody(servers: str) -> None:
    settings = {**FEW, "barnabas.relay.name": "crowd", "barnabas.relay.near.ms": "60000"}
    async with relay_client(servers) as client, running_relay(servers, settings) as relay:
        await client.create("crowd-in", "crowd-out", "few-in", "few-out")
        await client.rule(Rule("few-in", RuleKind.DELAY, "few-out"), relay)
        await client.rule(Rule("crowd-in", RuleKind.DELAY, "crowd-out"), relay)
        due_ms = wall_ms() + 5_000
        due: tuple[str, bytes | None] = ("barnabas-deliver-at", b"%d" % due_ms)
        await client.send_many("crowd-in", [(b"%d" % number, [due]) for number in range(MANY)])
        await client.send("few-in", b"few", headers=[due])
        await until(lambda: relay.figures.taken_in == MANY + 1)
        [few] = await client.read("few-out", 1)
        crowd = await client.read("crowd-out", MANY)
        assert [int(each.record.value or b"") for each in crowd] == list(range(MANY))
        assert due_ms <= few.record.timestamp <= crowd[-1].record.timestamp
        assert all(each.record.timestamp >= due_ms for each in crowd)


async def test_a_target_without_a_leader_holds_up_its_own_records_alone() -> None:
    settings = {**FEW, "barnabas.relay.name": "full"}
    with EmbeddedBroker(brokers=3) as brokers:
        servers = brokers.bootstrap_servers
        async with relay_client(servers) as client, running_relay(servers, settings) as relay:
            await client.create("full-in", "free-in", "free-out", replicas=3)
            await client.create("full-out", at=2)
            await client.rule(Rule("full-in", RuleKind.DELAY, "full-out"), relay)
            await client.rule(Rule("free-in", RuleKind.DELAY, "free-out"), relay)
            await client.send("free-in", b"first")  # so that there are topics for transactions
            await client.read("free-out", 1)
            brokers.kill(2)
            for number in range(5):
                await client.send("full-in", b"%d" % number, b"key")
            await until(lambda: relay.session is not None and relay.session.troubled_count == 1)
            await client.send("free-in", b"free")
            assert [each.record.value for each in await client.read("free-out", 2)] == [b"first", b"free"]
            brokers.restart(2)
            found = await client.read("full-out", 5)
            assert [each.record.value for each in found] == [b"0", b"1", b"2", b"3", b"4"]
            assert relay.figures.dead_letters == 0
