"""The relay over a broker of ours: what comes when, where, once, and what does not come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import EmbeddedBroker
from client.admin import groups
from relay.rules.rule import Partitioner, Rule, RuleKind
from tests.relay.running import FEW, headers_of, relay_client, running_relay, until, wall_ms

SECOND_MS = 1_000


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def settings_of(name: str) -> dict[str, str]:
    """Each test has a relay of its own, with its own topics."""
    return {**FEW, "barnabas.relay.name": name}


def at(due_ms: int, *more: tuple[str, bytes]) -> list[tuple[str, bytes | None]]:
    return [("barnabas-deliver-at", b"%d" % due_ms), *more]


async def test_records_come_in_the_order_of_their_times_and_never_early(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("order")) as relay:
        await client.create("order-in", "order-out")
        await client.rule(Rule("order-in", RuleKind.DELAY, "order-out"), relay)
        now_ms = wall_ms()
        dues = [now_ms + each for each in (1_700, 300, 900, 300, 1_200, 1_700)]  # some wait in a bucket
        for number, due_ms in enumerate(dues):
            await client.send("order-in", b"%d" % number, b"key", headers=at(due_ms, ("mine", b"kept")))
        found = await client.read("order-out", len(dues))
        assert [each.record.value for each in found] == [b"1", b"3", b"2", b"4", b"0", b"5"]
        for each in found:
            number = int(each.record.value or b"")
            assert each.record.timestamp >= dues[number]
            assert each.record.key == b"key"
            headers = headers_of(each)
            assert headers.pop("barnabas-source-timestamp")
            assert headers == {
                "mine": b"kept",
                "barnabas-source-topic": b"order-in",
                "barnabas-source-partition": b"0",
                "barnabas-source-offset": b"%d" % number,
            }
        assert relay.figures.copied


async def test_what_waits_survives_a_restart(servers: str) -> None:
    settings = settings_of("restart")
    async with relay_client(servers) as client:
        async with running_relay(servers, settings) as relay:
            await client.create("restart-in", "restart-out", partitions=3)
            await client.rule(Rule("restart-in", RuleKind.DELAY, "restart-out"), relay)
            due_ms = wall_ms() + 3 * SECOND_MS
            for number in range(30):
                await client.send("restart-in", b"%d" % number, b"%d" % number, headers=at(due_ms - number % 2 * 2_500))
            before = relay
            await until(lambda: before.figures.taken_in == 30)
        async with running_relay(servers, settings) as relay:
            found = await client.read("restart-out", 30)
            assert sorted(int(each.record.value or b"") for each in found) == list(range(30))
            assert relay.figures.gone == 0
        async with running_relay(servers, settings) as relay:
            await until(lambda: relay.session is not None and len(list(relay.session.sources)) == 3)
            assert relay.session is not None
            assert relay.session.waiting_count == 0
            assert await client.count("restart-out") == 30


async def test_cancelled_replaced_and_late(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("ids")) as relay:
        await client.create("ids-in", "ids-out", "ids-results")
        await client.rule(Rule("ids-in", RuleKind.DELAY, "ids-out", results="ids-results"), relay)
        due_ms = wall_ms() + 2_500

        async def send(value: bytes, id_: bytes, *more: tuple[str, bytes], due_ms: int = due_ms) -> None:
            await client.send("ids-in", value, id_, headers=at(due_ms, ("barnabas-id", id_), *more))

        await send(b"cancelled", b"a")
        await send(b"replaced", b"b")
        await send(b"first", b"c", due_ms=0)
        await client.read("ids-out", 1)
        await send(b"", b"a", ("barnabas-cancel", b""))
        await send(b"second", b"b")
        await send(b"again", b"c")
        await send(b"", b"nobody", ("barnabas-cancel", b""))
        results = [(each.record.key, each.record.value) for each in await client.read("ids-results", 4)]
        assert results == [(b"a", b"cancelled"), (b"b", b"replaced"), (b"c", b"too late"), (b"nobody", b"unknown")]
        assert [each.record.value for each in await client.read("ids-out", 2)] == [b"first", b"second"]
        await send(b"third", b"b", due_ms=0)
        assert [each.record.value for each in await client.read("ids-results", 5)][-1] == b"too late"
        assert await client.count("ids-out") == 2


async def test_rubbish_is_a_dead_letter_and_holds_nobody_up(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("rubbish")) as relay:
        await client.create("rubbish-in", "rubbish-out", "rubbish-aside")
        await client.rule(Rule("rubbish-in", RuleKind.DELAY, "rubbish-out", dead_letters="rubbish-aside"), relay)
        now_ms = wall_ms()
        bad = [
            [("barnabas-deliver-at", b"soon")],
            [("barnabas-deliver-at", b"9223372036854775807")],
            [("barnabas-delay-ms", b"-1")],
            [("barnabas-delay-ms", None)],
            [("barnabas-cancel", b"")],
            [("barnabas-expires-at", b"%d" % (now_ms - 1))],
        ]
        for number, headers in enumerate(bad):
            await client.send("rubbish-in", b"%d" % number, headers=headers)
        await client.send("rubbish-in", b"expires", headers=at(now_ms + 800, ("barnabas-expires-at", b"%d" % now_ms)))
        await client.send("rubbish-in", b"far", timestamp_ms=9_223_372_036_854_775_807)
        await client.send("rubbish-in", b"good", headers=at(now_ms + 100))
        assert [each.record.value for each in await client.read("rubbish-out", 1)] == [b"good"]
        dead = await client.read("rubbish-aside", len(bad) + 2)
        assert {each.record.value for each in dead} == {b"0", b"1", b"2", b"3", b"4", b"5", b"expires", b"far"}
        assert all(headers_of(each)["barnabas-reason"] for each in dead)


async def test_a_retry_has_growing_delays_and_an_end(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("retries")) as relay:
        await client.create("retries-in", "retries-out", "retries-aside")
        rule = Rule("retries-in", RuleKind.RETRY, "retries-out", delays_ms=(50, 1_300), dead_letters="retries-aside")
        await client.rule(rule, relay)
        begun_ms = wall_ms()
        await client.send("retries-in", b"job", b"k")
        for attempt in (1, 2):
            found = (await client.read("retries-out", attempt))[-1]
            assert found.record.timestamp - begun_ms >= (50, 1_350)[attempt - 1]
            headers = headers_of(found)
            assert (headers["barnabas-attempt"], headers["barnabas-retries"]) == (b"%d" % attempt, b"%d" % attempt)
            await client.send("retries-in", b"job", b"k", headers=found.record.headers)  # a client that does not count
        [dead] = await client.read("retries-aside", 1)
        assert headers_of(dead)["barnabas-attempt"] == b"3"
        assert await client.count("retries-out") == 2


@pytest.mark.parametrize("partitioner", list(Partitioner))
async def test_a_key_keeps_its_partition(servers: str, partitioner: Partitioner) -> None:
    name = f"keys-{partitioner}"
    async with relay_client(servers) as client, running_relay(servers, settings_of(name)) as relay:
        await client.create(f"{name}-in", partitions=3)
        await client.create(f"{name}-out", partitions=3)
        await client.rule(Rule(f"{name}-in", RuleKind.DELAY, f"{name}-out", partitioner=partitioner), relay)
        for number in range(20):
            await client.send(f"{name}-in", b"", b"key-%d" % number)
        there = {each.record.key: each.partition for each in await client.read(f"{name}-in", 20)}
        found = {each.record.key: each.partition for each in await client.read(f"{name}-out", 20)}
        assert (found == there) is (partitioner is not Partitioner.CRC32)


async def test_a_missing_target_holds_up_its_own_records_alone(servers: str) -> None:
    settings = {**settings_of("missing"), "barnabas.relay.target.timeout.ms": "1000000"}
    async with relay_client(servers) as client, running_relay(servers, settings) as relay:
        await client.create("missing-in", "present-in", "present-out")
        await client.rule(Rule("missing-in", RuleKind.DELAY, "missing-out"), relay)
        await client.rule(Rule("present-in", RuleKind.DELAY, "present-out"), relay)
        await client.send("missing-in", b"waits")
        await client.send("present-in", b"comes")
        assert [each.record.value for each in await client.read("present-out", 1)] == [b"comes"]
        await client.create("missing-out")
        assert [each.record.value for each in await client.read("missing-out", 1)] == [b"waits"]
        await client.send("missing-in", b"follows")
        assert [each.record.value for each in await client.read("missing-out", 2)] == [b"waits", b"follows"]


async def test_what_waits_for_a_target_that_is_deleted_becomes_dead_letters(servers: str) -> None:
    settings = {**settings_of("deleted"), "barnabas.relay.target.timeout.ms": "500"}
    async with relay_client(servers) as client, running_relay(servers, settings) as relay:
        await client.create("deleted-in", "deleted-out")
        await client.rule(Rule("deleted-in", RuleKind.DELAY, "deleted-out"), relay)
        await client.send("deleted-in", b"before")
        await client.read("deleted-out", 1)
        await client.delete("deleted-out")
        await client.send("deleted-in", b"after")
        [dead] = await client.read("deleted-dead", 1)
        assert dead.record.value == b"after"
        assert b"does not exist" in (headers_of(dead)["barnabas-reason"] or b"")


async def test_a_record_that_the_target_does_not_take_goes_alone(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("picky")) as relay:
        await client.create("picky-in")
        await client.create("picky-out", settings={"cleanup.policy": "compact"})  # takes no record without key
        await client.rule(Rule("picky-in", RuleKind.DELAY, "picky-out"), relay)
        due_ms = wall_ms() + 500
        for number in range(20):
            await client.send("picky-in", b"%d" % number, None if number == 7 else b"k%d" % number, headers=at(due_ms))
        found = await client.read("picky-out", 19)
        assert [int(each.record.value or b"") for each in found] == [each for each in range(20) if each != 7]
        [dead] = await client.read("picky-dead", 1)
        assert dead.record.value == b"7"


async def test_a_record_that_is_too_large_for_the_target_goes_alone(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("large")) as relay:
        await client.create("large-in")
        await client.create("large-out", settings={"max.message.bytes": "1000"})
        await client.rule(Rule("large-in", RuleKind.DELAY, "large-out"), relay)
        due_ms = wall_ms() + 300
        for size in (10, 5_000, 20):
            await client.send("large-in", bytes(size), b"k", headers=at(due_ms))
        assert [len(each.record.value or b"") for each in await client.read("large-out", 2)] == [10, 20]
        [dead] = await client.read("large-dead", 1)
        assert len(dead.record.value or b"") == 5_000


async def test_two_processes_share_the_work(servers: str) -> None:
    settings = settings_of("shared")
    async with relay_client(servers) as client, running_relay(servers, settings) as first:
        await client.create("shared-in", "shared-out", partitions=4)
        await client.rule(Rule("shared-in", RuleKind.DELAY, "shared-out", delay_ms=1_200), first)
        for number in range(40):
            await client.send("shared-in", b"%d" % number, b"%d" % number)
        async with running_relay(servers, settings) as second:
            await until(lambda: second.session is not None and len(list(second.session.sources)) == 2)
            for number in range(40, 60):
                await client.send("shared-in", b"%d" % number, b"%d" % number)
            found = await client.read("shared-out", 60)
            assert sorted(int(each.record.value or b"") for each in found) == list(range(60))
            assert first.figures.delivered + second.figures.delivered == 60
            assert second.figures.delivered
        assert await client.count("shared-out") == 60


async def test_offsets_that_the_brokers_forgot_are_in_the_log(servers: str) -> None:
    settings = settings_of("forgotten")
    async with relay_client(servers) as client:
        async with running_relay(servers, settings) as relay:
            await client.create("forgotten-in", "forgotten-out")
            await client.rule(Rule("forgotten-in", RuleKind.DELAY, "forgotten-out"), relay)
            await client.send("forgotten-in", b"first")
            await client.send("forgotten-in", b"second", headers=at(wall_ms() + 2_000))
            await client.read("forgotten-out", 1)
            await until(lambda: relay.figures.taken_in == 2)
        assert await client.cluster.run(groups.delete(["forgotten"])) == {"forgotten": None}
        async with running_relay(servers, settings) as relay:
            assert [each.record.value for each in await client.read("forgotten-out", 2)] == [b"first", b"second"]
            assert relay.figures.taken_in == 0
        [(key, committed)] = (await client.cluster.run(groups.stable_offsets("forgotten"))).items()
        assert (key, committed.offset) == (("forgotten-in", 0), 2)


async def test_a_source_that_is_made_again_is_another_one(servers: str) -> None:
    async with relay_client(servers) as client, running_relay(servers, settings_of("again")) as relay:
        await client.create("again-in", "again-out")
        await client.rule(Rule("again-in", RuleKind.DELAY, "again-out"), relay)
        await client.send("again-in", b"delivered")
        await client.read("again-out", 1)
        near = [("barnabas-deliver-at", b"%d" % (wall_ms() + 900))]
        await client.send("again-in", b"goes with its topic", headers=near)
        await until(lambda: relay.figures.taken_in == 2)
        await client.delete("again-in")
        await client.create("again-in")
        for number in range(2):  # not behind the position of the former topic, which is read until the other is noticed
            await client.send("again-in", b"%d" % number, headers=at(wall_ms() + 4_000))
        found = [each.record.value for each in await client.read("again-out", 3)]
        assert found == [b"delivered", b"0", b"1"]
