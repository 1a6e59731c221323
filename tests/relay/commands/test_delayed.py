"""`barnabas delayed` beside a relay that runs, on a broker of ours (and of Apache Kafka, in tests/interop)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.embedded import EmbeddedBroker
from relay.rules.rule import Rule, RuleKind
from tests.relay.commands.test_trace import write
from tests.relay.running import relay_client, running_relay, wall_ms
from tests.tools.test_commands import Run, Tool, broker, ok, tool

__all__ = ["broker", "tool"]

NAME = "dl-relay"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PATIENCE_S = 60


@contextmanager
def background_relay(servers: str, rule: Rule) -> Iterator[None]:
    """A relay that has a rule, on a thread with a loop of its own: commands have theirs."""
    is_ready, failures = threading.Event(), list[BaseException]()
    stops: list[Callable[[], object]] = []

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        settings = {
            "barnabas.relay.name": NAME,
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
    late = tool("delayed", "show", "dl-in", "--id", "late", *relay)
    assert "; the relay has 1 record of dl-in to take in" in late.err
    run = tool("delayed", "cancel", "dl-in", "--id", "near", "--wait", "0s", "--execute", *relay)
    assert run.code == 1 and "has not taken it in within 0s" in run.err
