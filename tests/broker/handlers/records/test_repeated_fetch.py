"""The fast path of Fetch beside the slow one: in random histories, and in what few clients do, every byte of the responses is
the same. A fetch that is kept for its client keeps no records, and nothing outlives its connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from broker.handlers.records.fetch import fetch
from broker.handlers.records.repeated_fetch import FIRST_VERSION, LARGEST_FRAME_BYTES, KeptFetch, RepeatedFetch
from broker.network.dispatch import Dispatch
from broker.network.request_log import LoggedDispatch
from broker.network.routes import Handler
from broker.observability.audit import AuditLog
from broker.observability.logging_setup import REQUEST_LOGGER
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from runtime.log_forms import TRACE
from tests.broker.handlers.records.session_world import VERSION, WAIT_MS, Client, Several, several
from tests.broker.handlers.records.test_fetch_histories import STEPS, History
from tests.broker.handlers.records.test_fetch_rights import DENIED, TOPIC, Rights
from tests.broker.harness import Broker, Peer
from tests.replication.replica_world import ME

SLACK_MS = WAIT_MS // 64
QUOTA = {"consumer_byte_rate": "1000000"}


class Counted:
    """How many fetches began again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        repeat = KeptFetch.repeat

        def counted(kept: KeptFetch, epoch: int) -> bool:
            has_begun = repeat(kept, epoch)
            self.count += has_begun
            return has_begun

        monkeypatch.setattr(KeptFetch, "repeat", counted)


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


class Sessionless(Client):
    """Names all of its partitions in each request."""

    def request(self, wait_ms: int, also: int | None = None) -> FetchRequest:
        self.epoch = -1
        return super().request(wait_ms, also)

    def take(self, response: FetchResponse, ends: list[int]) -> None:
        super().take(response, ends)
        self.session_id = 0


class Network:
    """The connections of a broker, with the fast path or without it."""

    def __init__(self, made: Several, handler: Handler[Any]) -> None:
        broker = made.broker
        self._network = Broker([handler], observer=broker.metrics.requests, gate=None)
        shared = self._network.shared
        shared.services, shared.timer = broker.services, broker.timer
        self._network.turns = broker.turns
        shared.call_soon = broker.turns.call_soon

    def connect(self) -> Peer:
        return self._network.connect()

    def log_requests(self) -> None:
        shared = self._network.shared
        shared.dispatch_through(LoggedDispatch(cast(Dispatch, shared.dispatch), self._network.clock))


HANDLERS = (replace(fetch, fast_path=RepeatedFetch), fetch)


# --- histories ---


@dataclass
class Waiting:
    """A request on its way."""

    history: Histories
    client: Client

    def abandon(self) -> None:
        self.history.reconnect(self.client)


class Histories(History):
    """A history of clients that have connections, and seldom have anything to read."""

    steps = (*STEPS, *["time"] * 12, *["read"] * 40)

    def __init__(self, made: Several, seed: int, handler: Handler[Any]) -> None:
        super().__init__(made, seed)
        self.network = Network(made, handler)
        self.clients = [Client(), Client(isolation=1), Sessionless(), Sessionless(isolation=1)]
        self.peers = {client: self.network.connect() for client in self.clients}
        self.bytes: list[bytes] = []

    def reconnect(self, client: Client) -> None:
        self.peers[client].disconnect()
        self.peers[client] = self.network.connect()

    async def hear(self, client: Client) -> None:
        peer = self.peers[client]
        self.bytes += peer.stream.writes
        for response in peer.answers():
            del self.parked[client]
            client.take(cast(FetchResponse, response), [one.partition.log.log_end_offset for one in self.made.replicas])

    async def read(self, index: int, number: float) -> None:
        client = self.clients[int(number * 7) % len(self.clients)]
        if client not in self.parked:
            request = client.request(WAIT_MS, index if self.chance.random() < 0.05 else None)
            self.parked[client] = cast(Any, Waiting(self, client))
            self.peers[client].send(request, VERSION)


@pytest.mark.parametrize("seed", range(30))
async def test_what_is_repeated_is_answered_as_if_it_were_not(tmp_path: Path, repeats: Counted, seed: int) -> None:
    told, sent, counted = [], [], []
    for number, handler in enumerate(HANDLERS):
        async with several(tmp_path / str(number)) as made:
            history = Histories(made, seed, handler)
            told.append(await history.play(looks_at_everything=False, steps_count=400))
            sent.append(history.bytes)
            counted.append(list(made.broker.metrics.samples()))
    for ours, theirs in zip(*told, strict=True):
        assert ours == theirs
    assert sent[0] == sent[1]
    assert counted[0] == counted[1]
    assert repeats.count > 5


# --- single requests ---


class Two:
    """Both brokers, and a client of each."""

    def __init__(self, worlds: list[Several]) -> None:
        self.worlds = worlds
        self.networks = [Network(made, handler) for made, handler in zip(worlds, HANDLERS, strict=True)]
        self.peers = [network.connect() for network in self.networks]

    def send(self, request: FetchRequest, version: int = VERSION) -> None:
        for peer in self.peers:
            peer.send(request, version)

    def wait(self) -> None:
        for made in self.worlds:
            made.broker.turn()
            made.broker.turns.advance(WAIT_MS + SLACK_MS)

    async def append(self, index: int, *values: str) -> None:
        for made in self.worlds:
            await made.replicas[index].append(*values)
            made.broker.turn()

    def answers(self) -> list[FetchResponse]:
        """The responses of the first, which are those of the second byte for byte."""
        written = [list(peer.stream.writes) for peer in self.peers]
        assert written[0] == written[1]
        self.peers[1].answers()
        return cast("list[FetchResponse]", self.peers[0].answers())

    def poll(self, request: FetchRequest, version: int = VERSION) -> FetchResponse:
        self.send(request, version)
        self.wait()
        [response] = self.answers()
        return response

    def watchers_count(self) -> int:
        return sum(
            len(watchers)
            for one in self.worlds[0].replicas
            for watchers in one.partition.waiters.watcher_lists()
        )  # fmt: skip


@asynccontextmanager
async def two(folder: Path, authorizer: Rights | None = None) -> AsyncIterator[Two]:
    async with several(folder / "fast") as first, several(folder / "slow") as second:
        for made in (first, second):
            for one in made.replicas:
                one.lead(isr=(ME,), replicas=(ME,))
            if authorizer is not None:
                services = cast(Any, made.broker.services)
                services.authorizer, services.audit = authorizer, AuditLog()
        yield Two([first, second])


def naming(*offsets: int, session_id: int = 0, epoch: int = -1, min_bytes: int = 1, **more: Any) -> FetchRequest:
    """The first partitions, each from an offset on."""
    rows = [
        FetchPartition(partition=at, fetch_offset=offset, partition_max_bytes=1 << 20)
        for at, offset in enumerate(offsets)
    ]
    topics = [FetchTopic(topic="t", partitions=rows)] if rows else []
    more.setdefault("max_wait_ms", WAIT_MS)
    return FetchRequest(min_bytes=min_bytes, session_id=session_id, session_epoch=epoch, topics=topics, **more)


class Asking:
    """The requests of an idle client, with or without a session."""

    def __init__(self, both: Two, has_session: bool, version: int = VERSION) -> None:
        self._both, self._has_session, self._version = both, has_session, version
        self._epoch = self._session_id = 0
        if has_session:
            self._session_id = both.poll(naming(0, 0, epoch=0), version).session_id

    def next(self) -> FetchRequest:
        self._epoch += 1
        return naming(session_id=self._session_id, epoch=self._epoch) if self._has_session else naming(0, 0)

    def poll(self) -> FetchResponse:
        return self._both.poll(self.next(), self._version)


sessions = pytest.mark.parametrize("has_session", [False, True])


@sessions
@pytest.mark.parametrize("version", range(fetch.first_version, 13))
async def test_from_the_fourth_on_nothing_is_looked_up(
    tmp_path: Path, repeats: Counted, has_session: bool, version: int
) -> None:
    """Two are learned from, and the next one keeps its fetch."""
    if has_session and version < FIRST_VERSION:
        return
    async with two(tmp_path) as both:
        asking = Asking(both, has_session, version)
        for _ in range(6):
            asking.poll()
        assert repeats.count == (3 if version >= FIRST_VERSION else 0)


@sessions
async def test_records_are_sent_and_not_kept(tmp_path: Path, repeats: Counted, has_session: bool) -> None:
    """Whether they come while the client waits or before."""
    async with two(tmp_path) as both:
        asking = Asking(both, has_session)
        for _ in range(4):
            asking.poll()
        both.send(asking.next())
        await both.append(1, "a")
        for made in both.worlds:
            made.broker.turn()
        [while_waiting] = both.answers()
        again = asking.poll()
        assert repeats.count == 2
        assert [len(row.records or b"") > 0 for row in again.responses[0].partitions][-1]
        assert while_waiting.responses[0].partitions[-1].records == again.responses[0].partitions[-1].records
        [path] = both.peers[0].handler.intake._starter._fast_paths.values()
        assert isinstance(path, RepeatedFetch)
        assert path._kept is None or not path._kept._reads


@sessions
async def test_nothing_outlives_the_connection(tmp_path: Path, repeats: Counted, has_session: bool) -> None:
    async with two(tmp_path) as both:
        asking = Asking(both, has_session)
        for _ in range(4):
            asking.poll()
        assert repeats.count
        assert both.watchers_count() == 2
        for peer in both.peers:
            peer.disconnect()
        assert both.watchers_count() == (2 if has_session else 0)  # a client may go on with its session elsewhere
        peers = both.peers = [network.connect() for network in both.networks]
        for _ in range(4):
            asking.poll()
        both.send(asking.next())
        for peer in peers:
            peer.disconnect()
        assert both.watchers_count() == (2 if has_session else 0)


async def test_a_client_without_a_session_that_moves_on_leaves_nothing_behind(tmp_path: Path, repeats: Counted) -> None:
    async with two(tmp_path) as both:
        await both.append(0, "a", "b", "c")
        for offset in (1, 2, 3):
            for _ in range(4):
                both.poll(naming(offset, min_bytes=10_000))
            for _ in range(4):
                both.poll(naming(3, offset - 1))
        assert both.watchers_count() <= 2


@sessions
async def test_a_client_whose_rights_change_is_told(tmp_path: Path, repeats: Counted, has_session: bool) -> None:
    rights = Rights()
    rights.give(TOPIC)
    async with two(tmp_path, rights) as both:
        asking = Asking(both, has_session)
        for _ in range(4):
            asking.poll()
        assert repeats.count == (1 if has_session else 0)
        rights.give()
        assert {row.error_code for row in asking.poll().responses[0].partitions} == {DENIED}
        rights.give(TOPIC)
        assert {row.error_code for row in asking.poll().responses[0].partitions} == {ErrorCode.NONE}
        for _ in range(3):
            asking.poll()


@sessions
async def test_quotas_count_what_is_repeated(tmp_path: Path, repeats: Counted, has_session: bool) -> None:
    async with two(tmp_path) as both:
        asking = Asking(both, has_session)
        for _ in range(4):
            asking.poll()
        both.send(asking.next())
        for made in both.worlds:
            made.broker.services.quotas.apply_entity("clients/tester", QUOTA)
        both.wait()
        both.answers()
        before = repeats.count
        for _ in range(3):
            asking.poll()
        assert repeats.count == before


@sessions
async def test_requests_that_do_not_wait_for_the_one_before(
    tmp_path: Path, repeats: Counted, has_session: bool
) -> None:
    async with two(tmp_path) as both:
        asking = Asking(both, has_session)
        for _ in range(4):
            asking.poll()
        for _ in range(3):
            both.send(asking.next())
        both.wait()
        assert len(both.answers()) == 3
        for _ in range(3):
            asking.poll()


@sessions
async def test_a_broker_that_stops_answers_what_is_repeated(
    tmp_path: Path, repeats: Counted, has_session: bool
) -> None:
    async with two(tmp_path) as both:
        asking = Asking(both, has_session)
        for _ in range(4):
            asking.poll()
        both.send(asking.next())
        for made, peer in zip(both.worlds, both.peers, strict=True):
            peer.handler.finish("the broker is stopping")
            made.broker.turn()
        assert len(both.answers()) == 1
        assert repeats.count == 2


async def test_what_is_repeated_is_logged_like_any_other_request(
    tmp_path: Path, repeats: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(TRACE, REQUEST_LOGGER)
    async with two(tmp_path) as both:
        for network in both.networks:
            network.log_requests()
        for _ in range(5):
            both.poll(naming(0))
        assert repeats.count == 2
    lines = [text.partition("principal=")[2] for text in caplog.messages if text.startswith("request done")]
    assert len(lines) == 10
    assert len({text.partition("outcome=")[2] for text in lines}) == 1
    assert "outcome=answered" in lines[0]
    assert "high_watermark" in lines[-1]


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda: naming(0, epoch=0), id="sessions that are never used"),
        pytest.param(lambda: naming(0, replica_id=-2), id="a debugging consumer"),
        pytest.param(lambda: naming(0, max_wait_ms=0), id="one that does not wait"),
        pytest.param(lambda: naming(*[0] * 2, rack_id="r" * LARGEST_FRAME_BYTES), id="a large request"),
        pytest.param(lambda: naming(0, 0, 0, 0), id="an unknown partition"),
        pytest.param(lambda: naming(7), id="an offset out of range"),
    ],
)
async def test_other_requests_are_not_repeated(tmp_path: Path, repeats: Counted, request_of: Any) -> None:
    async with two(tmp_path) as both:
        for _ in range(5):
            both.poll(request_of())
        assert repeats.count == 0
