"""`barnabas delayed` beside a relay that runs, on a broker of ours (and of Apache Kafka, in tests/interop)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from barnabas.embedded import EmbeddedBroker
from relay.rules.rule import Rule, RuleKind
from relay.waiting.entries import DAY, HOUR, NO_ID, WaitingEntry, id_hash, place_of
from relay.waiting.index_records import EntryOutcome, done_record, taken_record
from tests.relay.commands.test_trace import source, write
from tests.relay.running import relay_client, running_relay, wall_ms
from tests.tools.test_commands import Run, Tool, broker, ok, tool

__all__ = ["broker", "tool"]

NAME = "dl-relay"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PATIENCE_S = 60


@contextmanager
def background_relay(servers: str, rule: Rule, name: str = NAME) -> Iterator[None]:
    """A relay that has a rule, on a thread with a loop of its own: commands have theirs."""
    is_ready, failures = threading.Event(), list[BaseException]()
    stops: list[Callable[[], object]] = []

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        settings = {
            "barnabas.relay.name": name,
            "barnabas.relay.near.ms": str(HOUR_MS),
            "barnabas.relay.super.users": "User:ANONYMOUS",  # of the Apache Kafka that plays this, too
        }
        async with relay_client(servers) as client, running_relay(servers, settings) as relay:
            await client.rule(rule, relay)
            is_ready.set()
            await stop.wait()

    def body() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001  told by the test's thread
            failures.append(error)
            is_ready.set()

    thread = threading.Thread(target=body)
    thread.start()
    try:
        assert is_ready.wait(PATIENCE_S) and not failures, failures
        yield
    finally:
        stops[0]()
        thread.join(PATIENCE_S)
    assert not thread.is_alive() and not failures, failures


def until(run: Callable[[], Run], holds: Callable[[Any], bool]) -> Any:
    """Return the JSON of a command when it is as it shall be; the time limit of the test ends it otherwise."""
    while not holds(found := ok(run()).json):
        pass
    return found


def message(due_ms: int, message_id: str | None, **more: Any) -> dict[str, Any]:
    headers = [("barnabas-deliver-at", b"%d" % due_ms)]
    if message_id is not None:
        headers.append(("barnabas-id", message_id.encode()))
    return {"key": b"k", "value": b"v-%d" % due_ms, "headers": headers, **more}


def test_what_waits_is_listed_shown_and_cancelled(tool: Tool, broker: EmbeddedBroker) -> None:
    """Offset 0 of partition 1 waits where it is, all others wait in the relay's own topics."""
    ok(tool("topics", "create", "dl-in", "--partitions", "2"))
    ok(tool("topics", "create", "dl-out"))
    relay = ("--relay", NAME)
    assert "has not run yet" in tool("delayed", "list", *relay).err
    with background_relay(
        broker.bootstrap_servers, Rule("dl-in", RuleKind.DELAY, "dl-out", principal="User:ANONYMOUS")
    ):
        now_ms = wall_ms()
        dues = {"near": now_ms + 30 * MINUTE_MS, "far": now_ms + 40 * DAY_MS, "mid": now_ms + 2 * HOUR_MS}
        write(broker, "dl-in", message(dues["near"], "near", partition=1), message(dues["far"], "far", partition=1),
              message(dues["mid"], "mid", partition=0), message(dues["mid"], None, partition=0))  # fmt: skip
        [row] = until(
            lambda: tool("delayed", "list", *relay, "--json"),
            lambda rows: [(each["waiting"], each["not_taken_in"]) for each in rows] == [(4, 0)],
        )
        assert (row["source"], row["state"], row["next_due_ms"]) == ("dl-in", "ok", dues["near"])
        assert [row[name] for name in ("due", "in_1m", "in_1h", "in_1d", "later")] == [0, 0, 1, 2, 1]
        rows = ok(tool("delayed", "list", "dl-in", "--by-partition", *relay, "--json")).json
        assert [(each["partition"], each["waiting"]) for each in rows] == [(0, 2), (1, 2)]

        listed = ok(tool("delayed", "list", "--messages", "--max-messages", "3", *relay, "--json"))
        assert [(each["due_ms"], each["partition"], each["offset"], each["id"]) for each in listed.json] == [
            (dues["near"], 1, 0, "near"), (dues["mid"], 0, 0, "mid"), (dues["mid"], 0, 1, None)
        ]  # fmt: skip
        assert "1 more message waits" in listed.err
        soon = ok(tool("delayed", "list", "--messages", "--due-before", str(dues["mid"]), *relay, "--json"))
        assert [each["id"] for each in soon.json] == ["near"]
        soon = ok(tool("delayed", "list", "--messages", "--due-before", "+3h", *relay, "--json"))
        assert [each["id"] for each in soon.json] == ["near", "mid", None]

        far = ok(tool("delayed", "show", "dl-in", "--id", "far", *relay, "--json")).json
        assert far == ok(tool("delayed", "show", "dl-in", "--partition", "1", "--offset", "1", *relay, "--json")).json
        assert (far["offset"], far["key"], far["value"]) == (1, "k", f"v-{dues['far']}")
        assert far["waits_in"].startswith(f"{NAME}-year-")
        near = ok(tool("delayed", "show", "dl-in", "--partition", "1", "--offset", "0", *relay)).out
        assert "waits in: dl-in-1 offset 0\n" in near and "id: near\n" in near

        [traced] = ok(tool("trace", "--id", "far", *relay, "--json")).json["messages"]
        assert [(each["topic"], each["relay"]) for each in (traced, *traced["copies"])] == [
            ("dl-in", None), (f"{NAME}-year", {"state": "waits", "time_ms": dues["far"]})
        ]  # fmt: skip
        assert "relay: waits until 20" in ok(tool("trace", "dl-in", "--id", "near", *relay)).out
        wanted = ("delayed", "cancel", "dl-in", "--id", "far", *relay)
        assert "nothing was cancelled" in ok(tool("delayed", "cancel", "dl-in", "--id", "far", *relay)).err
        assert ok(tool(*wanted, "--execute")).out == "dl-in-1 offset 1: cancelled\n"
        assert "relay: cancelled at 20" in ok(tool("trace", "--id", "far", *relay)).out
        again = tool(*wanted, "--execute")
        assert again.code == 1 and "with the id far was cancelled, at 20" in again.err
        for arguments, why in (
            (("--partition", "0", "--offset", "1"), "only one with an id can be cancelled"),
            (("--id", "other"), "does not wait, and the log remembers no end of it"),
            (("--partition", "9", "--offset", "1"), "topic dl-in has no partition 9"),
            (("--partition", "0", "--offset", "9"), "the message at offset 9 of dl-in-0 does not wait"),
        ):
            run = tool("delayed", "cancel", "dl-in", *arguments, *relay)
            assert run.code == 1 and why in run.err
        assert tool("delayed", "show", "dl-in", "--partition", "1", *relay).code == 2
    write(broker, "dl-in", message(dues["far"], "late", partition=0))
    ok(tool("groups", "delete", NAME, "--execute"))
    [row] = ok(tool("delayed", "list", "dl-in", *relay, "--json")).json
    assert (row["not_taken_in"], row["waiting"]) == (1, 3)  # the log has the positions, too
    late = tool("delayed", "show", "dl-in", "--id", "late", *relay)
    assert "; the relay has 1 record of dl-in to take in" in late.err
    run = tool("delayed", "cancel", "dl-in", "--id", "near", "--wait", "0s", "--execute", *relay)
    assert run.code == 1 and "has not taken it in within 0s" in run.err


def test_a_message_that_is_delivered_before_its_cancellation_is_taken_in_is_too_late(
    tool: Tool, broker: EmbeddedBroker
) -> None:
    """What the relay writes, this test writes: a run, and behind the cancellation that the run's entry was delivered."""
    topics = ("dl-race", "dl-fake-log", "dl-fake-hour")
    for topic in topics:
        ok(tool("topics", "create", topic))
    copy = {"key": b"k", "value": b"v", "headers": [("barnabas-id", b"r"), *source("dl-race", 0, 0)]}
    write(broker, "dl-fake-hour", {"value": b"of another"}, copy)
    entry = WaitingEntry(wall_ms() + HOUR_MS, place_of(HOUR, 1), id_hash(b"r"))
    lost = WaitingEntry(entry.due_ms + 1, place_of(DAY, 0), NO_ID)  # of a topic that was deleted
    key, value = taken_record("dl-race", 0, 0, [entry, lost])
    write(broker, "dl-fake-log", {"value": b"rubbish"}, {"key": key, "value": value})

    def deliver() -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "dl-race"})
        consumer.assign([TopicPartition("dl-race", 0, 0)])
        while (found := consumer.poll(1)) is None or found.error():
            pass
        consumer.close()
        assert (found.key(), dict(found.headers())) == (b"k", {"barnabas-id": b"r", "barnabas-cancel": b""})
        rows = [(entry.place, EntryOutcome.DELIVERED, entry.id_hash)]
        key, value = done_record("dl-race", 0, 1, rows, wall_ms())
        write(broker, "dl-fake-log", {"key": key, "value": value})

    with ThreadPoolExecutor(1) as pool:
        delivered = pool.submit(deliver)
        run = tool("delayed", "cancel", "dl-race", "--id", "r", "--execute", "--relay", "dl-fake")
        delivered.result(PATIENCE_S)
    assert run.code == 1 and "too late: dl-race-0 offset 0 was delivered, at 20" in run.err
    assert "1 record of the relay's log cannot be read" in run.err
    [row] = ok(tool("delayed", "list", "dl-race", "--messages", "--relay", "dl-fake", "--json")).json
    assert (row["due_ms"], row["offset"], row["key"]) == (lost.due_ms, None, None)


def test_the_way_of_a_record_through_retries_to_the_dead_letters_is_one_tree(
    tool: Tool, broker: EmbeddedBroker
) -> None:
    for topic in ("dl-orders", "dl-retry", "dl-letters"):
        ok(tool("topics", "create", topic))
    rule = Rule("dl-retry", RuleKind.RETRY, "dl-orders", delays_ms=(1,), dead_letters="dl-letters",
                principal="User:ANONYMOUS")  # fmt: skip
    with background_relay(broker.bootstrap_servers, rule, "dl-again"):
        order: dict[str, Any] = {"key": b"way", "value": b"v"}
        write(broker, "dl-orders", order)
        write(broker, "dl-retry", order | {"headers": source("dl-orders", 0, 0, reason="first", attempt="1")})
        until(lambda: tool("trace", "dl-orders", "--key", "way", "--json"), lambda found: "dl-retry" in str(found))
        write(broker, "dl-retry", order | {"headers": source("dl-orders", 0, 1, reason="second", attempt="2")})
        until(lambda: tool("trace", "dl-letters", "--key", "way", "--json"), lambda found: found["messages"])
    text = ok(tool("trace", "--key", "way", "--relay", "dl-again")).out
    lines = [line.lstrip(" │└├─").partition(",")[0] for line in text.splitlines() if ", key way" in line]
    assert lines == ["dl-orders-0 offset 0", "dl-retry-0 offset 0", "dl-orders-0 offset 1", "dl-retry-0 offset 1",
                     "dl-letters-0 offset 0"]  # fmt: skip
    assert text.count("└─") == 4 and "attempt 2, failed: second" in text
