"""The HTTP port: pages, refusals, limits, and a page of metrics that Prometheus' own parser reads."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.network.memory_budget import MemoryBudget
from broker.observability import http
from broker.observability.http import HttpServer
from broker.observability.metric_table import LOG_END_OFFSET, LOG_SIZE, LOG_START_OFFSET
from broker.observability.metrics import BrokerMetrics
from broker.server import Broker
from metadata.image import BrokerImage, ClusterImage, MetadataCache
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_filesystem import OsFileSystem
from runtime.loop_times import LoopTimes
from runtime.monitoring import http_port
from runtime.monitoring.exposition import header, sample_line
from runtime.monitoring.metric import Sample
from runtime.network.os_transport import OsNetwork
from runtime.slices import SLICE_MS
from storage.free_space import FreeSpace
from tests.async_tests import played_by
from tests.broker.harness import Broker as HarnessBroker
from tests.broker.quota_world import quotas_of
from tests.doubles.clock import ManualClock

PATIENCE_S = 60


def serve(
    scenario: Callable[[HttpServer, SimpleNamespace], Awaitable[None]],
    gauges: Callable[[Any], Any] = lambda _: iter(()),
) -> None:
    async def run() -> None:
        metrics = BrokerMetrics(ManualClock(1_000))
        metrics.produced('odd "topic"\\\n', 10, 2)
        topics = {'odd "topic"\\\n': None}
        services = SimpleNamespace(
            metrics=metrics,
            metadata=SimpleNamespace(image=SimpleNamespace(topics=topics)),
            sharing=[],
            logs=SimpleNamespace(offline_since_ms={"/b": 7}, space=SimpleNamespace(full_since_ms={"/a": 5})),
            quotas=quotas_of(),
            clock=ManualClock(),
        )
        broker = SimpleNamespace(
            is_ready=False,
            phase="loading logs",
            logs=SimpleNamespace(space=SimpleNamespace(by_directory=lambda: iter(()))),
            services=services,
            metadata=MetadataCache(),
            broker_id=3,
            cluster_id="c-1",
            acceptor=HarnessBroker([]).acceptor,
            request_budget=MemoryBudget(100),
            plain_budget=MemoryBudget(100),
        )
        server = HttpServer(cast(Broker, broker), cast(FileSystem, OsFileSystem()), ManualClock(), LoopTimes())
        await server.start(OsNetwork(), "127.0.0.1", 0)
        try:
            await scenario(server, broker)
        finally:
            await server.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "gauges", gauges)
        asyncio.run(run())


async def ask(server: HttpServer, request: bytes) -> tuple[str, dict[str, str], str]:
    """(status line, headers, body)."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.decode().partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def get(server: HttpServer, path: str) -> tuple[str, dict[str, str], str]:
    return await ask(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


@played_by(serve, gives=2)
async def test_live_and_ready(server: HttpServer, broker: SimpleNamespace) -> None:
    assert (await get(server, "/live"))[0] == "HTTP/1.1 200 OK"
    assert (await get(server, "/ready"))[0] == "HTTP/1.1 503 Service Unavailable"
    broker.is_ready = True
    assert (await get(server, "/ready?verbose=1"))[0] == "HTTP/1.1 200 OK"
    full = FreeSpace()
    full.floor_bytes = 1_000
    full.on_measured(900, 0)
    broker.logs.space = SimpleNamespace(by_directory=lambda: iter([("/fine", FreeSpace()), ("/full", full)]))
    told = await get(server, "/ready")
    assert told[0] == "HTTP/1.1 200 OK"
    assert told[-1] == "ready\nwrites refused: /full has 900 bytes free, barnabas.disk.free.min.bytes is 1000\n"


@played_by(serve, gives=2)
async def test_health_tells_since_when_conditions_hold(server: HttpServer, broker: SimpleNamespace) -> None:
    status, headers, body = await get(server, "/health")
    assert (status, headers["Content-Type"]) == ("HTTP/1.1 200 OK", "application/json")
    assert json.loads(body) == {"broker": 3, "cluster_id": "c-1", "conditions": []}
    broker.is_ready = True
    rest = {1: BrokerImage(1, {})}
    broker.metadata.publish(ClusterImage(brokers={**rest, 2: BrokerImage(2, {})}))
    broker.metadata.publish(ClusterImage(brokers=rest))
    rows = json.loads((await get(server, "/health"))[2])["conditions"]
    assert [(row["condition"], row["name"], row["seen_first"]) for row in rows] == [
        ("log_directory_offline", "3:/b", False),
        ("disk_full", "3:/a", False),
        ("broker_gone", "2", False),
    ]
    assert [row["since_ms"] for row in rows[:2]] == [7, 5]


@played_by(serve, gives=2)
async def test_metrics_are_readable_for_prometheus(server: HttpServer, broker: SimpleNamespace) -> None:
    assert "messagesin" not in (await get(server, "/metrics"))[2], "nothing to tell before the broker is ready"
    broker.is_ready = True
    _, headers, body = await get(server, "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert int(headers["Content-Length"]) == len(body.encode())
    families = {family.name: family for family in text_string_to_metric_families(body)}
    total, sample = families["kafka_server_brokertopicmetrics_messagesin"].samples
    assert (total.labels, total.value) == ({}, 2)
    assert (sample.name, sample.labels, sample.value) == (
        "kafka_server_brokertopicmetrics_messagesin_total",
        {"topic": 'odd "topic"\\\n'},
        2,
    )
    assert families["kafka_network_socketserver_memorypoolavailable"].samples[0].value == 100
    assert families["process_resident_memory_bytes"].samples[0].value > 1_000_000


def test_a_long_page_lets_the_loop_go_on() -> None:
    rows_count = 20 * http.SAMPLES_PER_SLICE

    def gauges(_: object) -> Any:
        return (Sample(LOG_SIZE, ("t", str(partition)), partition) for partition in range(rows_count))

    async def scenario(server: HttpServer, broker: SimpleNamespace) -> None:
        broker.is_ready = True
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            counting = group.create_task(count())
            page = await server._metrics()
            counting.cancel()
        assert page.count(b"kafka_log_log_size{") == rows_count
        assert page.count(b"# TYPE kafka_log_log_size gauge") == 1
        assert turns >= 20

    serve(scenario, gauges)


def test_a_value_that_takes_long_lets_the_loop_go_on() -> None:
    """Such as a sum over ten thousand partitions."""
    turns: list[int] = []

    def gauges(services: Any) -> Any:
        for number, metric in enumerate((LOG_SIZE, LOG_START_OFFSET, LOG_END_OFFSET)):
            services.clock.now_ms += SLICE_MS
            turns.append(asyncio.get_running_loop().call_soon(turns.append, -1) is None)
            yield Sample(metric, ("t", "0"), number)

    async def scenario(server: HttpServer, broker: SimpleNamespace) -> None:
        broker.is_ready = True
        broker.services.clock = server._clock
        await server._metrics()
        assert turns == [0, -1, 0, -1, 0, -1], "one turn of the loop after each"

    serve(scenario, gauges)


def test_those_who_ask_while_a_page_is_made_share_the_next_one() -> None:
    """Ten thousand partitions are a second's work and seven megabytes."""
    made: list[int] = []

    def gauges(_: object) -> Any:
        made.append(len(made))
        if made[-1] == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return (Sample(LOG_SIZE, ("t", str(partition)), made[-1]) for partition in range(2 * http.SAMPLES_PER_SLICE))

    async def scenario(server: HttpServer, broker: SimpleNamespace) -> None:
        broker.is_ready = True
        first, unlucky, *others = await asyncio.gather(*(server._metrics() for _ in range(6)), return_exceptions=True)
        assert isinstance(first, bytearray)
        assert isinstance(unlucky, OSError)
        assert {id(page) for page in others} == {id(others[0])} != {id(first)}
        assert isinstance(await server._metrics(), bytearray)
        assert made == [0, 1, 2, 3], "what was there before somebody asked is not told"
        assert server._metrics._page_to_share is None

    serve(scenario, gauges)


@pytest.mark.parametrize("pieces_count", [0, 1, 1_000, 100_000, 300_000])
def test_a_page_is_its_pieces(pieces_count: int) -> None:
    """Up to the one that is larger than the first large buffer."""
    page = http._Page()
    pieces = [f"a line, number {number:06d}: ö, ...\n" for number in range(pieces_count)]
    for piece in pieces:
        page.add(piece)
    assert page.content() == "".join(pieces).encode()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", "404"),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", "405"),
        (b"GET\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"hello\r\n\r\n", "400"),
        (b"GET /live HTTP/2.0\r\n\r\n", "400"),
        (b"\x16\x03\x01\n\n", "400"),
        (b"GET /live HTTP/1.1\r\nX: " + b"x" * 50_000 + b"\r\n\r\n", "431"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else value,
)
@played_by(serve, gives=2)
async def test_refusals(server: HttpServer, broker: SimpleNamespace, request_bytes: bytes, status: str) -> None:
    line, headers, _ = await ask(server, request_bytes)
    assert line.split()[1] == status
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /live\r\n\r\n",
        b"GET /live HTTP/1.0\r\n\r\n",
        b"GET /live HTTP/1.1\nHost: x\n\n",
        b"GET http://localhost:8080/live?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /live HTTP/1.1\r\n\r\nGET /live HTTP/1.1\r\n\r\n",
    ],
)
@played_by(serve, gives=2)
async def test_what_clients_may_say(server: HttpServer, broker: SimpleNamespace, request_bytes: bytes) -> None:
    status, _, body = await ask(server, request_bytes)
    assert (status, body) == ("HTTP/1.1 200 OK", "live\n")


@played_by(serve, gives=2)
async def test_head_has_no_body(server: HttpServer, broker: SimpleNamespace) -> None:
    status, headers, body = await ask(server, b"HEAD /live HTTP/1.1\r\n\r\n")
    assert (status, headers["Content-Length"], body) == ("HTTP/1.1 200 OK", "5", "")


@played_by(serve, gives=2)
async def test_an_endless_head_is_cut_off(server: HttpServer, broker: SimpleNamespace) -> None:
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    with pytest.raises(ConnectionError):  # noqa: PT012  the break may be seen at either end
        for _ in range(1000):
            writer.write(b"x" * 1024)
            await writer.drain()
        await asyncio.wait_for(reader.readexactly(1), PATIENCE_S)
    writer.close()


@played_by(serve, gives=2)
async def test_a_connection_that_says_nothing_is_closed(
    server: HttpServer, broker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "HEAD_TIMEOUT_S", 0)
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), PATIENCE_S)
    writer.close()


@played_by(serve, gives=2)
async def test_connections_that_ask_nothing_make_room(
    server: HttpServer, broker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A health check is answered however many are open."""
    monkeypatch.setattr(http_port, "MAX_CONNECTIONS", 2)
    idle = [await asyncio.open_connection(server.address.host, server.address.port) for _ in range(3)]
    assert (await get(server, "/live"))[0] == "HTTP/1.1 200 OK"
    for reader, _ in idle[:2]:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), PATIENCE_S)
    assert (await ask(server, b"GET /live HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"
    for _, writer in idle:
        writer.close()


@played_by(serve, gives=2)
async def test_connections_that_are_answered_are_bounded(
    server: HttpServer, broker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "MAX_CONNECTIONS", 2)
    asked: asyncio.Queue[None] = asyncio.Queue()
    is_made = asyncio.Event()

    async def make() -> bytearray:
        asked.put_nowait(None)
        await is_made.wait()
        return bytearray(b"page")

    monkeypatch.setattr(server, "_metrics", make)
    asking = [asyncio.create_task(get(server, "/metrics")) for _ in range(2)]
    for _ in asking:
        await asyncio.wait_for(asked.get(), PATIENCE_S)
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), PATIENCE_S)
    writer.close()
    is_made.set()
    for answer in await asyncio.gather(*asking):
        assert answer[0] == "HTTP/1.1 200 OK"


def test_a_peer_that_does_not_take_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a few of them would keep everybody from asking whether the broker lives."""
    monkeypatch.setattr(http_port, "RESPONSE_TIMEOUT_S", 0)
    rows_count = 200_000  # more than sockets hold

    def gauges(_: object) -> Any:
        return (
            Sample(LOG_SIZE, ("a topic of some length", str(partition)), partition) for partition in range(rows_count)
        )

    async def scenario(server: HttpServer, broker: SimpleNamespace) -> None:
        broker.is_ready = True
        gone = asyncio.Event()
        disconnected = http_port._Exchange.disconnected

        def tell(exchange: http_port._Exchange, error: Exception | None) -> None:
            disconnected(exchange, error)
            gone.set()

        monkeypatch.setattr(http_port._Exchange, "disconnected", tell)
        with socket.create_connection((server.address.host, server.address.port)) as peer:
            peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
        assert server._port.open_count == 0

    serve(scenario, gauges)


def test_a_page_that_cannot_be_made_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    def gauges(_: object) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario(server: HttpServer, broker: SimpleNamespace) -> None:
        broker.is_ready = True
        assert (await get(server, "/metrics"))[0] == "HTTP/1.1 500 Internal Server Error"
        assert (await get(server, "/ready"))[0] == "HTTP/1.1 200 OK"

    serve(scenario, gauges)
    (record,) = caplog.records
    assert "Too many open files" in str(record.exc_info)


def test_lines() -> None:
    assert header(LOG_SIZE) == [
        "# HELP kafka_log_log_size Bytes of records on the disk.\n",
        "# TYPE kafka_log_log_size gauge\n",
    ]
    assert sample_line(Sample(LOG_SIZE, ("a", "0"), 7)) == 'kafka_log_log_size{topic="a",partition="0"} 7\n'
