"""Rules that come, change and go while records wait: what waits is neither lost nor delivered twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas import EmbeddedBroker
from relay.rules.rule import Rule, RuleKind
from tests.relay.running import FEW, relay_client, running_relay, until, wall_ms


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def settings_of(name: str) -> dict[str, str]:
    return {**FEW, "barnabas.relay.name": name}


async def test_what_waits_without_a_rule_goes_on_with_the_next_one(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("gone")) as relay:
        await client.create("gone-in", "gone-out", "gone-other")
        await client.rule(Rule("gone-in", RuleKind.DELAY, "gone-out"), relay)
        due_ms = wall_ms() + 1_500
        for number in range(10):
            at_ms = 0 if number < 3 else due_ms
            await client.send("gone-in", b"%d" % number, headers=[("barnabas-deliver-at", b"%d" % at_ms)])
        await until(lambda: relay.figures.taken_in == 10)
        await client.send(relay.names.rules, None, b"gone-in")
        await until(lambda: relay.rules_count == 0 and relay.session is None)
        await client.send("gone-in", b"10")
        await until(lambda: wall_ms() > due_ms)
        await client.rule(Rule("gone-in", RuleKind.DELAY, "gone-other"), relay)
        found = await client.read("gone-other", 8)
        assert [int(each.record.value or b"") for each in found] == [10, 3, 4, 5, 6, 7, 8, 9]
        assert await client.count("gone-out") == 3
        assert await client.count("gone-other") == 8


async def test_a_changed_rule_counts_for_what_waits_already_and_nothing_begins_anew(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("changed")) as relay:
        await client.create("changed-in", "changed-out", "changed-other")
        await client.rule(Rule("changed-in", RuleKind.DELAY, "changed-out", delay_ms=1_500), relay)
        await client.send("changed-in", b"waits")
        await until(lambda: relay.figures.taken_in == 1)
        session = relay.session
        await client.rule(Rule("changed-in", RuleKind.DELAY, "changed-other", delay_ms=10), relay)
        await client.send("changed-in", b"comes")
        found = await client.read("changed-other", 2)
        assert [each.record.value for each in found] == [b"comes", b"waits"]
        assert relay.session is session
        assert await client.count("changed-out") == 0


async def test_rules_of_other_sources_come_and_go_while_records_wait(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("beside")) as relay:
        await client.create("beside-in", "beside-out", "beside-in-2", "beside-out-2", partitions=2)
        await client.rule(Rule("beside-in", RuleKind.DELAY, "beside-out"), relay)
        now_ms = wall_ms()
        for number in range(40):  # near ones, and ones that wait in a bucket
            due_ms = now_ms + 200 + 50 * number
            await client.send("beside-in", b"%d" % number, b"k", headers=[("barnabas-deliver-at", b"%d" % due_ms)])
            if number == 10:
                await client.rule(Rule("beside-in-2", RuleKind.DELAY, "beside-out-2"), relay)
                await client.send("beside-in-2", b"other")
            if number == 20:
                await client.read("beside-out-2", 1)
                await client.send(relay.names.rules, None, b"beside-in-2")
        found = await client.read("beside-out", 40)
        assert [int(each.record.value or b"") for each in found] == list(range(40))
        await until(lambda: relay.rules_count == 1)
        assert await client.count("beside-out") == 40


async def test_hostile_rules_are_suspended_with_one_line_each_and_hold_nobody_up(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with relay_client(servers) as client, running_relay(servers, settings_of("hostile")) as relay:
        await client.create("hostile-in", "hostile-out", "hostile-a", "hostile-b")
        rows = {
            b"hostile-x": b"rubbish",
            b"hostile-y": b'{"source":"hostile-y","kind":"delay","target":"hostile-rules"}',
            b"hostile-z": b"[" * 10_000,
            b"\xff": b"{}",
            b"hostile-a": Rule("hostile-a", RuleKind.DELAY, "hostile-b").to_json(),
            b"hostile-b": Rule("hostile-b", RuleKind.DELAY, "hostile-a").to_json(),
            b"hostile-none": Rule("hostile-none", RuleKind.DELAY, "hostile-out").to_json(),
        }
        for key, value in rows.items():
            await client.send(relay.names.rules, value, key)
        await client.rule(Rule("hostile-in", RuleKind.DELAY, "hostile-out"), relay)
        await client.send("hostile-a", b"round")
        await client.send("hostile-in", b"comes")
        assert [each.record.value for each in await client.read("hostile-out", 1)] == [b"comes"]
        assert relay.suspended["hostile-a"] == "rules in a circle: hostile-a -> hostile-b -> hostile-a"
        assert (len(relay.suspended), relay.rules_count) == (len(rows), 1)
        await client.send(relay.names.rules, None, b"hostile-b")
        await until(lambda: relay.rules_count == 2)
        assert [each.record.value for each in await client.read("hostile-b", 1)] == [b"round"]
    lines = [each.getMessage() for each in caplog.records if "rule is suspended" in each.getMessage()]
    assert len(lines) == len(set(lines)) == len(rows)
    assert all(line.isprintable() for line in lines)
