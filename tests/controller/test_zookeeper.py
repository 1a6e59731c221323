"""The ZooKeeper store over a server in memory, on simulated wires and virtual time: what a cut, a silence, an expiry, a
kill and a crowd do to it. The same store over the real server: `test_zookeeper_oracle.py`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from controller import zookeeper_wire as wire
from controller.store import (
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    RefusedError,
    SessionEvent,
    SessionExpiredError,
    SetData,
    WatchEvent,
    WatchKind,
)
from controller.zookeeper import PIPELINE_REQUESTS_MAX
from controller.zookeeper_session import READ_ATTEMPTS_MAX, Credentials
from controller.zookeeper_wire import OpCode
from runtime.clock import SystemClock
from runtime.os_transport import OsNetwork
from tests.controller.conformance import Seen, raises, settle
from tests.controller.memory_zookeeper import Fate, MemoryZooKeeper
from tests.controller.zookeeper_world import (
    FAR,
    TIMEOUT_MS,
    Client,
    MemorySessionFile,
    Sim,
    client_of,
    run_counters,
    simulated_client,
)
from tests.simulation.loop import SimLoop, simulate

CONNECTED, SUSPENDED, EXPIRED = SessionEvent.CONNECTED, SessionEvent.SUSPENDED, SessionEvent.EXPIRED
Story = Callable[[MemoryZooKeeper, Client], Awaitable[None]]


def tell(story: Story, **options: object) -> None:
    """Run `story` with one client on a fresh server."""

    async def program(loop: SimLoop) -> None:
        async with simulated_client(loop, **options) as (server, client):
            await story(server, client)

    simulate(1, program)


def tell_on_loopback(story: Story) -> None:
    """The same in real time, for what moves many bytes."""

    async def run() -> None:
        server = MemoryZooKeeper(OsNetwork(), SystemClock())
        async with client_of(await server.listen()) as client:
            await story(server, client)
        await server.close()

    asyncio.run(run())


def once(fate: Fate, code: OpCode) -> Callable[[OpCode, str], Fate]:
    """`fate` for the first request of this kind, an answer for every other."""
    fates = {code: fate}
    return lambda asked, _path: fates.pop(asked, Fate.ANSWERED)


# --- a cut ---


@pytest.mark.parametrize(
    ("fate", "is_applied"), [(Fate.REQUEST_LOST, False), (Fate.REPLY_LOST, True), (Fate.APPLIED_LATE, True)]
)
def test_a_write_without_an_answer_is_told_as_that_and_the_next_read_knows(fate: Fate, is_applied: bool) -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        server.decide = once(fate, OpCode.CREATE)
        await raises(ConnectionLossError, client.store.create("/a"))
        assert (await client.store.exists("/a") is not None) is is_applied
        assert client.events == [SUSPENDED, CONNECTED]
        assert len(server.sessions) == 1

    tell(story)


def test_a_read_without_an_answer_is_asked_again() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        await client.store.create("/a", b"one")
        server.decide = once(Fate.REPLY_LOST, OpCode.GET_DATA)
        seen = Seen()
        assert (await client.store.get("/a", seen))[0] == b"one"
        await client.store.set("/a", b"two")
        assert seen.events == [WatchEvent(WatchKind.CHANGED, "/a")]

    tell(story)


def test_a_cut_fails_the_writes_before_it_and_keeps_the_reads_in_order() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        store = client.store
        server.decide = once(Fate.REQUEST_LOST, OpCode.CREATE)
        lost, built_upon_it, read = await asyncio.gather(
            store.create("/a"), store.create("/b"), store.exists("/b"), return_exceptions=True
        )
        assert isinstance(lost, ConnectionLossError)
        assert isinstance(built_upon_it, ConnectionLossError)
        assert read is None
        await store.create("/a")

    tell(story)


def test_operations_wait_for_a_connection_and_no_longer_than_a_session_lasts() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        client = await sim.open()
        sim.server.greets = False
        sim.server.cut()
        await client.hears(SUSPENDED)
        begun_s = loop.time()
        read, write = await asyncio.gather(client.store.exists("/a"), client.store.create("/a"), return_exceptions=True)
        assert isinstance(read, ConnectionLossError)
        assert isinstance(write, ConnectionLossError)
        assert TIMEOUT_MS / 1000 <= loop.time() - begun_s < 1.5 * TIMEOUT_MS / 1000
        waiting = asyncio.gather(client.store.exists("/a"), client.store.create("/a"))
        await asyncio.sleep(1)
        sim.server.greets = True
        assert await waiting == [None, "/a"]
        await client.store.close()

    simulate(1, program)


def test_an_answer_that_is_none_costs_the_connection_and_not_the_read() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        server.decide = once(Fate.GARBAGE, OpCode.EXISTS)
        assert await client.store.exists("/a") is None
        assert client.events == [SUSPENDED, CONNECTED]

    tell(story)


def test_a_read_that_kills_every_connection_is_given_up() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        asked = 0

        def decide(code: OpCode, path: str) -> Fate:
            nonlocal asked
            asked += path == "/poison"
            return Fate.GARBAGE if path == "/poison" else Fate.ANSWERED

        server.decide = decide
        await raises(ConnectionLossError, client.store.exists("/poison"))
        assert asked == READ_ATTEMPTS_MAX
        assert await client.store.exists("/sound") is None

    tell(story)


def test_a_request_that_no_server_takes_is_refused_here() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        await raises(RefusedError, client.store.create("/a", bytes(1_100_000)))
        await client.store.create("/a", bytes(1_000_000))
        assert len((await client.store.get("/a"))[0]) == 1_000_000
        assert client.events == []

    tell_on_loopback(story)


# --- watches over a cut ---


def test_watches_whose_node_changed_while_away_are_set_off_by_the_reconnect() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        client, other = await sim.open(), await sim.open("elsewhere")
        store = client.store
        for path in ("/data", "/gone", "/parent", "/same", "/parent/old"):
            await store.create(path)
        seen = Seen()
        await store.get("/data", seen)
        await store.get("/gone", seen)
        await store.children("/gone", seen)
        await store.exists("/new", seen)
        await store.children("/parent", seen)
        await store.get("/same", seen)
        await store.children("/same", seen)
        await store.exists("/never", seen)
        sim.server.greets = False
        sim.server.links[0].cut()
        await client.hears(SUSPENDED)
        await other.store.set("/data", b"x")
        await other.store.delete("/gone")
        await other.store.create("/new")
        await other.store.create("/parent/child")
        sim.server.greets = True
        await settle(store)
        assert Counter(seen.events) == Counter(
            [
                WatchEvent(WatchKind.CHANGED, "/data"),
                *[WatchEvent(WatchKind.DELETED, "/gone")] * 2,
                WatchEvent(WatchKind.CREATED, "/new"),
                WatchEvent(WatchKind.CHILDREN, "/parent"),
            ]
        )
        seen.events.clear()
        await other.store.create("/never")
        await other.store.create("/same/child")
        await other.store.set("/same", b"x")
        await settle(store)
        assert Counter(event.path for event in seen.events) == {"/never": 1, "/same": 2}
        await client.store.close()
        await other.store.close()

    simulate(1, program)


def test_a_second_cut_between_the_parts_of_set_watches_swallows_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first parts are answered, which shows a new transaction number; the next is lost with its connection."""
    monkeypatch.setattr(wire, "SET_WATCHES_BYTES_MAX", 200)

    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        client, other = await sim.open(), await sim.open("elsewhere")
        names = [f"/node-{number:06d}" for number in range(60)]
        await other.store.write_many([[Create(name)] for name in names])
        seen = Seen()
        await client.store.read_many(names, seen)
        sim.server.greets = False
        next(link for link in sim.server.links if link.session_id == client.store.session().session_id).cut()
        await other.store.set(names[-1], b"changed")
        parts = 0

        def decide(code: OpCode, path: str) -> Fate:
            nonlocal parts
            parts += code is OpCode.SET_WATCHES
            return Fate.REQUEST_LOST if code is OpCode.SET_WATCHES and parts == 3 else Fate.ANSWERED

        sim.server.decide = decide
        sim.server.greets = True
        await settle(client.store)
        assert parts >= 6
        assert seen.events == [WatchEvent(WatchKind.CHANGED, names[-1])]
        await client.store.close()
        await other.store.close()

    simulate(1, program)


def test_a_watch_left_twice_is_told_once() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        await client.store.create("/a")
        seen = Seen()
        for _ in range(3):
            await client.store.get("/a", seen)
        await client.store.set("/a", b"x")
        await settle(client.store)
        assert seen.events == [WatchEvent(WatchKind.CHANGED, "/a")]

    tell(story)


# --- order ---


def test_the_caller_of_an_answer_runs_before_a_later_watch_is_told() -> None:
    """Answer and watch arrive in one piece; whoever asked still sees his answer first."""

    async def story(server: MemoryZooKeeper, client: Client) -> None:
        store, heard = client.store, []
        await store.create("/a")

        async def read() -> None:
            await store.get("/a", lambda event: heard.append("watch"))
            heard.append("answer")

        def write(event: WatchEvent) -> None:
            heard.append("write's watch")

        await store.exists("/a", write)
        await asyncio.gather(read(), store.set("/a", b"x"))
        assert heard[0] == "answer"
        assert sorted(heard[1:]) == ["watch", "write's watch"]

    tell_on_loopback(story)


def test_a_watch_may_ask_the_store_from_inside() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        store = client.store
        await store.create("/a")
        answers: list[asyncio.Task[tuple[bytes, object]]] = []
        await store.get("/a", lambda _event: answers.append(client.tasks.spawn(store.get("/a"), name="look again")))
        await store.set("/a", b"new")
        assert (await answers[0])[0] == b"new"

    tell(story)


# --- the session ---


def test_an_expired_session_is_refused_and_followed_by_the_next() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        store = client.store
        old = store.session()
        await old.create("/e", ephemeral=True)
        lost = Seen()
        await old.get("/e", lost)
        server.expire(old.session_id)
        await raises(SessionExpiredError, store.get("/e"))
        await raises(SessionExpiredError, old.create("/b"))
        await client.hears(CONNECTED)
        assert client.events == [SUSPENDED, EXPIRED, CONNECTED]
        assert store.session() is not old
        assert client.file.credentials is not None
        assert client.file.credentials.session_id == store.session().session_id != old.session_id
        await raises(SessionExpiredError, old.exists("/e"))
        assert await store.create("/e", ephemeral=True) == "/e"
        assert lost.events == []

    tell(story)


def test_a_session_that_cannot_be_written_down_serves_all_the_same() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        client.file.is_broken = True
        server.expire(client.store.session().session_id)
        await client.hears(CONNECTED)
        await client.store.create("/a")
        await client.store.close()

    tell(story)


def test_an_idle_session_is_kept_alive_and_a_silent_server_is_left() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen(2)
        client = await sim.open()
        await asyncio.sleep(60)
        assert client.events == []
        pings = 0

        def decide(code: OpCode, path: str) -> Fate:
            nonlocal pings
            pings += code is OpCode.PING
            return Fate.UNANSWERED if code is OpCode.PING else Fate.ANSWERED

        sim.server.decide = decide
        begun_s = loop.time()
        await client.hears(CONNECTED)
        assert client.events == [SUSPENDED, CONNECTED]
        assert loop.time() - begun_s < TIMEOUT_MS / 1000
        assert pings >= 1
        assert len(sim.server.sessions) == 1
        await client.store.close()

    simulate(1, program)


def test_a_request_that_is_never_answered_ends_within_the_session_timeout() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        loop = asyncio.get_running_loop()
        server.decide = once(Fate.UNANSWERED, OpCode.CREATE)
        begun_s = loop.time()
        await raises(ConnectionLossError, client.store.create("/a"))
        assert loop.time() - begun_s < 1.5 * TIMEOUT_MS / 1000

    tell(story)


def test_the_next_server_takes_over() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        connect = await sim.listen(3)
        client = await sim.open()
        own = client.store.session().session_id
        for _ in range(6):
            sim.server.cut()
            assert await client.store.exists("/a") is None
        assert set(sim.server.greetings) == {own}
        assert connect.count(",") == 2
        await client.store.close()

    simulate(1, program)


@pytest.mark.parametrize("is_deaf", [True, False])
def test_an_ensemble_that_is_not_there_ends_the_start_in_time(is_deaf: bool) -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen(2)
        if is_deaf:
            sim.server.greets = False
        else:
            await sim.server.close()
        begun_s = loop.time()
        with pytest.raises(ConnectionError, match="no session within 3000 ms; last failure: far:218"):
            await sim.open(connection_timeout_ms=3_000)
        assert loop.time() - begun_s < 7

    simulate(1, program)


def test_a_server_that_forgot_a_greeting_is_asked_again_in_time() -> None:
    """A ZooKeeper that is just starting may accept a connection and never answer on it."""

    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        sim.server.greets = False

        def greet_the_next() -> None:
            sim.server.greets = True

        loop.call_later(TIMEOUT_MS / 4 / 1000, greet_the_next)
        client = await sim.open(connection_timeout_ms=TIMEOUT_MS)
        assert len(sim.server.greetings) == 1
        await client.store.close()

    simulate(1, program)


def test_the_timeout_that_the_ensemble_grants_is_the_one_that_counts() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        sim.server.timeout_ms = 900
        await sim.listen()
        client = await sim.open()
        sim.server.greets = False
        sim.server.cut()
        await client.hears(SUSPENDED)
        begun_s = loop.time()
        await raises(ConnectionLossError, client.store.exists("/a"))
        assert loop.time() - begun_s < 1.5
        sim.server.greets = True
        await client.store.close()

    simulate(1, program)


# --- the end, and what comes after ---


def test_closing_frees_ephemerals_and_forgets_the_session() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        await client.store.create("/e", ephemeral=True)
        await client.store.close()
        assert server.sessions == {}
        assert "/e" not in server.tree.nodes
        assert client.file.credentials is None
        await raises(SessionExpiredError, client.store.exists("/e"))

    tell(story)


def test_closing_without_an_ensemble_ends_in_time_and_leaves_the_session_to_the_next_start() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        client = await sim.open()
        own = client.file.credentials
        sim.network.cut("near", FAR)
        sim.server.cut()
        begun_s = loop.time()
        await client.store.close()
        assert loop.time() - begun_s < 5
        assert client.file.credentials == own is not None

    simulate(1, program)


def test_the_process_after_a_kill_ends_the_session_before() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        file = MemorySessionFile()
        killed = await sim.open(file=file)
        await killed.store.create("/e", b"1", ephemeral=True)
        first = killed.store.session().session_id
        await killed.kill()
        assert first in sim.server.sessions
        client = await sim.open(file=file)
        assert first not in sim.server.sessions
        assert await client.store.create("/e", b"2", ephemeral=True) == "/e"
        await client.store.close()

    simulate(1, program)


def test_a_kill_between_two_starts_of_which_the_first_could_not_connect() -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        file = MemorySessionFile()
        killed = await sim.open(file=file)
        await killed.store.create("/e", ephemeral=True)
        await killed.kill()
        sim.server.greets = False
        with pytest.raises(ConnectionError):
            await sim.open(file=file)
        sim.server.greets = True
        client = await sim.open(file=file)
        assert await client.store.exists("/e") is None
        await client.store.close()

    simulate(1, program)


@pytest.mark.parametrize("session_id", [0x7F00000000000001, 77])
def test_credentials_that_nobody_knows_are_no_obstacle_and_end_nobody_else(session_id: int) -> None:
    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen()
        other = await sim.open("elsewhere")
        assert other.store.session().session_id == 0x7F00000000000001
        client = await sim.open(file=MemorySessionFile(Credentials(session_id, b"x" * 16)))
        assert other.store.session().session_id in sim.server.sessions
        await client.store.create("/a")
        await client.store.close()
        await other.store.close()

    simulate(1, program)


# --- chroot ---


def test_a_chroot_is_made_and_never_seen() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        store, seen = client.store, Seen()
        await store.exists("/a", seen)
        assert await store.create("/a") == "/a"
        assert await store.create("/a/n_", sequential=True) == "/a/n_0000000000"
        assert await store.multi([Create("/b"), SetData("/b", b"x")]) is not None
        assert await store.children("/") == ["a", "b"]
        assert sorted(path for path in server.tree.nodes if path.startswith("/kafka/one/")) == [
            "/kafka/one/a",
            "/kafka/one/a/n_0000000000",
            "/kafka/one/b",
        ]
        assert seen.events == [WatchEvent(WatchKind.CREATED, "/a")]
        assert (await raises(NodeExistsError, store.create("/a"))).path == "/a"
        assert (await raises(NoNodeError, store.multi([Create("/c"), SetData("/no", b"")]))).path == "/no"

    tell(story, chroot="/kafka/one")


# --- pipelines ---


def test_a_pipeline_is_in_order_and_bounded() -> None:
    count = 5_000

    async def story(server: MemoryZooKeeper, client: Client) -> None:
        session = client.store.session().client.session
        most_under_way = 0

        def decide(code: OpCode, path: str) -> Fate:
            nonlocal most_under_way
            most_under_way = max(most_under_way, len(session._sent) + len(session._waiting))
            return Fate.ANSWERED

        server.decide = decide
        outcomes = await client.store.write_many([[Create(f"/n{number}")] for number in range(count)])
        assert outcomes == [[f"/n{number}"] for number in range(count)]
        found = await client.store.read_many([f"/n{number}" for number in range(-1, count)])
        assert found[0] is None
        assert all(each is not None for each in found[1:])
        assert PIPELINE_REQUESTS_MAX / 2 < most_under_way <= PIPELINE_REQUESTS_MAX
        assert await client.store.read_many([]) == []
        assert await client.store.write_many([]) == []

    tell_on_loopback(story)


def test_a_pipeline_stops_at_a_write_without_an_answer() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        server.decide = lambda _code, path: Fate.REPLY_LOST if path == "/n100" else Fate.ANSWERED
        with pytest.raises(ConnectionLossError):
            await client.store.write_many([[Create(f"/n{number}")] for number in range(5_000)])
        server.decide = lambda _code, _path: Fate.ANSWERED
        await settle(client.store)
        assert "/n100" in server.tree.nodes
        assert "/n4999" not in server.tree.nodes

    tell_on_loopback(story)


def test_a_pipeline_of_reads_outlives_cuts() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        await client.store.write_many([[Create(f"/n{number}", b"x")] for number in range(3_000)])
        cut_at = {"/n10", "/n1500", "/n2999"}

        def decide(_code: OpCode, path: str) -> Fate:
            if path not in cut_at:
                return Fate.ANSWERED
            cut_at.discard(path)
            return Fate.REPLY_LOST

        server.decide = decide
        seen = Seen()
        found = await client.store.read_many([f"/n{number}" for number in range(3_000)], seen)
        assert len(found) == 3_000
        assert all(each is not None and each[0] == b"x" for each in found)
        server.cut()
        await settle(client.store)
        await client.store.write_many([[SetData(f"/n{number}", b"y")] for number in range(3_000)])
        assert len(seen.events) == 3_000

    tell_on_loopback(story)


def test_a_caller_who_leaves_a_pipeline_ends_it() -> None:
    async def story(server: MemoryZooKeeper, client: Client) -> None:
        last = 19_999
        writing = client.tasks.spawn(
            client.store.write_many([[Create(f"/n{number}")] for number in range(last + 1)]), name="write"
        )
        seen = asyncio.Event()
        await client.store.exists("/n100", lambda _event: seen.set())
        await seen.wait()
        writing.cancel()
        await settle(client.store)
        await settle(client.store)
        count = len(server.tree.nodes)
        await settle(client.store)
        assert len(server.tree.nodes) == count <= last
        assert writing.cancelled()

    tell_on_loopback(story)


# --- everything at once ---


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_counted_twice_whatever_is_cut(seed: int) -> None:
    cuts = (Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.APPLIED_LATE, Fate.GARBAGE)

    async def program(loop: SimLoop) -> None:
        sim = Sim(loop)
        await sim.listen(3)
        clients = [await sim.open(f"near{number}") for number in range(4)]
        sim.network.reset_probability = 0.01

        def decide(code: OpCode, _path: str) -> Fate:
            if loop.random.random() > 0.06:
                return Fate.ANSWERED
            fate = loop.random.choice(cuts)
            return Fate.REPLY_LOST if fate is Fate.APPLIED_LATE and code is not OpCode.MULTI else fate

        sim.server.decide = decide
        await run_counters([client.store for client in clients], 15)
        assert sim.server.tree.nodes["/counter"].data == b"45"
        sim.server.decide = lambda _code, _path: Fate.ANSWERED
        sim.network.reset_probability = 0
        for client in clients:
            await client.store.close()

    simulate(seed, program)
