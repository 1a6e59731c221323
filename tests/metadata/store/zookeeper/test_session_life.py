"""The sessions of the ZooKeeper store over a server in memory: how they begin, are kept alive, expire, move to the next
server and end, and what a killed process leaves to the one after it."""

from __future__ import annotations

import asyncio

import pytest

from metadata.store.port import ConnectionLossError, SessionExpiredError
from metadata.store.zookeeper.session import Credentials
from metadata.store.zookeeper.wire import OpCode
from tests.async_tests import played_by, simulated
from tests.metadata.store.conformance import Seen, raises
from tests.metadata.store.faulty_server import Fate, FaultyServer
from tests.metadata.store.zookeeper_world import (
    CONNECTED,
    EXPIRED,
    FAR,
    SUSPENDED,
    TIMEOUT_MS,
    Client,
    MemorySessionFile,
    Sim,
    once,
    tell,
)
from tests.simulation.loop import SimLoop, simulate

# --- while it is used ---


@played_by(tell, gives=2)
async def test_an_expired_session_is_refused_and_followed_by_the_next(server: FaultyServer, client: Client) -> None:
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


@played_by(tell, gives=2)
async def test_a_session_that_cannot_be_written_down_serves_all_the_same(server: FaultyServer, client: Client) -> None:
    client.file.is_broken = True
    server.expire(client.store.session().session_id)
    await client.hears(CONNECTED)
    await client.store.create("/a")
    await client.store.close()


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


@played_by(tell, gives=2)
async def test_a_request_that_is_never_answered_ends_within_the_session_timeout(
    server: FaultyServer, client: Client
) -> None:
    loop = asyncio.get_running_loop()
    server.decide = once(Fate.UNANSWERED, OpCode.CREATE)
    begun_s = loop.time()
    await raises(ConnectionLossError, client.store.create("/a"))
    assert loop.time() - begun_s < 1.5 * TIMEOUT_MS / 1000


@simulated(1)
async def test_the_next_server_takes_over(loop: SimLoop) -> None:
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


@pytest.mark.parametrize("is_deaf", [True, False])
@simulated(1)
async def test_an_ensemble_that_is_not_there_ends_the_start_in_time(loop: SimLoop, is_deaf: bool) -> None:
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


@simulated(1)
async def test_a_server_that_forgot_a_greeting_is_asked_again_in_time(loop: SimLoop) -> None:
    """A ZooKeeper that is just starting may accept a connection and never answer on it."""
    sim = Sim(loop)
    await sim.listen()
    sim.server.greets = False

    def greet_the_next() -> None:
        sim.server.greets = True

    loop.call_later(TIMEOUT_MS / 4 / 1000, greet_the_next)
    client = await sim.open(connection_timeout_ms=TIMEOUT_MS)
    assert len(sim.server.greetings) == 1
    await client.store.close()


@simulated(1)
async def test_the_timeout_that_the_ensemble_grants_is_the_one_that_counts(loop: SimLoop) -> None:
    sim = Sim(loop)
    sim.server.set_timeout(900)
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


# --- the end, and what comes after ---


@played_by(tell, gives=2)
async def test_closing_frees_ephemerals_and_forgets_the_session(server: FaultyServer, client: Client) -> None:
    await client.store.create("/e", ephemeral=True)
    await client.store.close()
    assert server.sessions == {}
    assert "/e" not in server.tree.nodes
    assert client.file.credentials is None
    await raises(SessionExpiredError, client.store.exists("/e"))


@simulated(1)
async def test_closing_without_an_ensemble_ends_in_time_and_leaves_the_session_to_the_next_start(loop: SimLoop) -> None:
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


@simulated(1)
async def test_the_process_after_a_kill_ends_the_session_before(loop: SimLoop) -> None:
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


@simulated(1)
async def test_a_kill_between_two_starts_of_which_the_first_could_not_connect(loop: SimLoop) -> None:
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


@pytest.mark.parametrize("is_of_another", [True, False])
@simulated(1)
async def test_credentials_that_nobody_knows_are_no_obstacle_and_end_nobody_else(
    loop: SimLoop, *, is_of_another: bool
) -> None:
    sim = Sim(loop)
    await sim.listen()
    other = await sim.open("elsewhere")
    session_id = other.store.session().session_id if is_of_another else 77
    client = await sim.open(file=MemorySessionFile(Credentials(session_id, b"x" * 16)))
    assert other.store.session().session_id in sim.server.sessions
    await client.store.create("/a")
    await client.store.close()
    await other.store.close()
