"""The ZooKeeper store over a server in memory, on simulated wires and virtual time: what cuts, silences and crowds do to
operations, watches and pipelines. Its sessions: `test_session_life.py`. The same store over the real server:
`test_oracle.py`."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from metadata.store.port import (
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    RefusedError,
    SetData,
    WatchEvent,
    WatchKind,
)
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.session import READ_ATTEMPTS_MAX
from metadata.store.zookeeper.store import PIPELINE_REQUESTS_MAX
from metadata.store.zookeeper.wire import OpCode
from runtime.clock import SystemClock
from runtime.network.os_transport import OsNetwork
from tests.async_tests import played_by, simulated
from tests.metadata.store.conformance import Seen, raises, settle
from tests.metadata.store.faulty_server import Fate, FaultyServer
from tests.metadata.store.zookeeper_world import (
    CONNECTED,
    SUSPENDED,
    TIMEOUT_MS,
    Client,
    Sim,
    Story,
    client_of,
    once,
    open_client,
    run_counters,
    tell,
)
from tests.runtime.recorder import Recorder
from tests.simulation.loop import SimLoop, simulate


def tell_on_loopback(story: Story) -> None:
    """The same in real time, for what moves many bytes."""

    async def run() -> None:
        server = FaultyServer(OsNetwork(), SystemClock())
        async with client_of(await server.listen()) as client:
            await story(server, client)
        await server.close()

    asyncio.run(run())


# --- a cut ---


@pytest.mark.parametrize(
    ("fate", "is_applied"), [(Fate.REQUEST_LOST, False), (Fate.REPLY_LOST, True), (Fate.APPLIED_LATE, True)]
)
@played_by(tell, gives=2)
async def test_a_write_without_an_answer_is_told_as_that_and_the_next_read_knows(
    server: FaultyServer, client: Client, fate: Fate, is_applied: bool
) -> None:
    server.decide = once(fate, OpCode.CREATE)
    await raises(ConnectionLossError, client.store.create("/a"))
    assert (await client.store.exists("/a") is not None) is is_applied
    assert client.events == [SUSPENDED, CONNECTED]
    assert len(server.sessions) == 1


@played_by(tell, gives=2)
async def test_a_read_without_an_answer_is_asked_again(server: FaultyServer, client: Client) -> None:
    await client.store.create("/a", b"one")
    server.decide = once(Fate.REPLY_LOST, OpCode.GET_DATA)
    seen = Seen()
    assert (await client.store.get("/a", seen))[0] == b"one"
    await client.store.set("/a", b"two")
    assert seen.events == [WatchEvent(WatchKind.CHANGED, "/a")]


@played_by(tell, gives=2)
async def test_a_cut_fails_the_writes_before_it_and_keeps_the_reads_in_order(
    server: FaultyServer, client: Client
) -> None:
    store = client.store
    server.decide = once(Fate.REQUEST_LOST, OpCode.CREATE)
    lost, built_upon_it, read = await asyncio.gather(
        store.create("/a"), store.create("/b"), store.exists("/b"), return_exceptions=True
    )
    assert isinstance(lost, ConnectionLossError)
    assert isinstance(built_upon_it, ConnectionLossError)
    assert read is None
    await store.create("/a")


@simulated(1)
async def test_operations_wait_for_a_connection_and_no_longer_than_a_session_lasts(loop: SimLoop) -> None:
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


@played_by(tell, gives=2)
async def test_an_answer_that_is_none_costs_the_connection_and_not_the_read(
    server: FaultyServer, client: Client
) -> None:
    server.decide = once(Fate.GARBAGE, OpCode.EXISTS)
    assert await client.store.exists("/a") is None
    assert client.events == [SUSPENDED, CONNECTED]


def test_a_read_that_kills_every_connection_is_given_up() -> None:
    async def story(server: FaultyServer, client: Client) -> None:
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


@played_by(tell_on_loopback, gives=2)
async def test_a_request_that_no_server_takes_is_refused_here(server: FaultyServer, client: Client) -> None:
    await raises(RefusedError, client.store.create("/a", bytes(1_100_000)))
    await client.store.create("/a", bytes(1_000_000))
    assert len((await client.store.get("/a"))[0]) == 1_000_000
    assert client.events == []


# --- watches over a cut ---


@simulated(1)
async def test_watches_whose_node_changed_while_away_are_set_off_by_the_reconnect(loop: SimLoop) -> None:
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


@played_by(tell, gives=2)
async def test_a_watch_left_twice_is_told_once(server: FaultyServer, client: Client) -> None:
    await client.store.create("/a")
    seen = Seen()
    for _ in range(3):
        await client.store.get("/a", seen)
    await client.store.set("/a", b"x")
    await settle(client.store)
    assert seen.events == [WatchEvent(WatchKind.CHANGED, "/a")]


# --- order ---


@played_by(tell_on_loopback, gives=2)
async def test_the_caller_of_an_answer_runs_before_a_later_watch_is_told(server: FaultyServer, client: Client) -> None:
    """Answer and watch arrive in one piece; whoever asked still sees his answer first."""
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


@played_by(tell, gives=2)
async def test_a_watch_may_ask_the_store_from_inside(server: FaultyServer, client: Client) -> None:
    store = client.store
    await store.create("/a")
    answers: list[asyncio.Task[tuple[bytes, object]]] = []
    await store.get("/a", lambda _event: answers.append(client.tasks.spawn(store.get("/a"), name="look again")))
    await store.set("/a", b"new")
    assert (await answers[0])[0] == b"new"


# --- chroot ---


@played_by(tell, gives=2, chroot="/kafka/one")
async def test_a_chroot_is_made_and_never_seen(server: FaultyServer, client: Client) -> None:
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


# --- pipelines ---


def test_a_pipeline_is_in_order_and_bounded() -> None:
    count = 5_000

    async def story(server: FaultyServer, client: Client) -> None:
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


@played_by(tell_on_loopback, gives=2)
async def test_a_pipeline_stops_at_a_write_without_an_answer(server: FaultyServer, client: Client) -> None:
    server.decide = lambda _code, path: Fate.REPLY_LOST if path == "/n100" else Fate.ANSWERED
    with pytest.raises(ConnectionLossError):
        await client.store.write_many([[Create(f"/n{number}")] for number in range(5_000)])
    server.decide = lambda _code, _path: Fate.ANSWERED
    await settle(client.store)
    assert "/n100" in server.tree.nodes
    assert "/n4999" not in server.tree.nodes


@played_by(tell_on_loopback, gives=2)
async def test_a_pipeline_of_reads_outlives_cuts(server: FaultyServer, client: Client) -> None:
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


@played_by(tell_on_loopback, gives=2)
async def test_a_caller_who_leaves_a_pipeline_ends_it(server: FaultyServer, client: Client) -> None:
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


@played_by(tell, gives=2)
async def test_a_server_that_greets_and_cuts_is_not_asked_without_a_pause(server: FaultyServer, client: Client) -> None:
    server.decide = lambda code, _path: Fate.REQUEST_LOST if code is OpCode.SYNC else Fate.ANSWERED
    before = len(server.greetings)
    server.cut()
    await asyncio.sleep(TIMEOUT_MS / 2_000)
    assert 1 < len(server.greetings) - before < 20
    server.decide = lambda _code, _path: Fate.ANSWERED
    await client.hears(CONNECTED)
    await client.store.create("/a")


async def test_a_server_that_says_nothing_is_named() -> None:
    network = OsNetwork()
    listener = await network.listen("127.0.0.1", 0, Recorder)
    server = f"127.0.0.1:{listener.address.port}"
    with pytest.raises(ConnectionError, match=f"last failure: {server}: no answer"):
        await open_client(server, connection_timeout_ms=200)
    await listener.close()
