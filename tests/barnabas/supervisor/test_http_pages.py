"""The pages of the command: what brokers say of themselves, also while one is down, hangs, or breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import cast

import pytest

from barnabas.supervisor import http_pages
from barnabas.supervisor.http_pages import HttpPages, numeric_address
from barnabas.supervisor.supervised_process import SupervisedProcess
from runtime.monitoring.http_port import HttpPort
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address

LARGE = "# TYPE x gauge\n" + "x 1\n" * 100_000


def process(broker_id: int, *, lives: bool = True) -> SupervisedProcess:
    facts = {} if lives else None
    found = SimpleNamespace(
        name=f"broker {broker_id}", broker_id=broker_id, child=lives or None, facts=facts, restarts=broker_id
    )
    return cast(SupervisedProcess, found)


@asynccontextmanager
async def broker(pages: dict[bytes, tuple[str, bytes]]) -> AsyncIterator[Address]:
    async def page(path: bytes) -> tuple[str, bytes]:
        return pages[path]

    port = HttpPort(page, {})
    await port.start(OsNetwork(), "127.0.0.1", 0)
    try:
        yield port.address
    finally:
        await port.stop()


@asynccontextmanager
async def silent() -> AsyncIterator[Address]:
    """It takes connections and does not answer."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


SERVES = {b"/ready": ("200 OK", b"ready\n"), b"/metrics": ("200 OK", LARGE.encode())}
STARTS = {b"/ready": ("503 Service Unavailable", b"not ready: loading logs\n"), b"/metrics": ("200 OK", b"x 2\n")}


def test_all_are_ready_when_each_is() -> None:
    async def scenario() -> None:
        async with broker(SERVES) as one, broker(SERVES) as two, broker(STARTS) as other:
            assert await HttpPages([process(0), process(1)], [one, two]).page(b"/ready") == (
                "200 OK", b"ready\nbroker 0: ready\nbroker 1: ready\n",
            )  # fmt: skip
            pages = HttpPages([process(0), process(1), process(2, lives=False)], [one, other, two])
            status, text = await pages.page(b"/ready")
            assert (status, text.decode().splitlines()) == (
                "503 Service Unavailable",
                ["not ready", "broker 0: ready", "broker 1: not ready: loading logs", "broker 2: it does not serve"],
            )
            assert (await pages.page(b"/live"))[0] == "200 OK"
            assert (await pages.page(b"/health"))[0] == "404 Not Found"

    asyncio.run(scenario())


def test_the_page_of_metrics_leaves_out_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pages, "ASK_TIMEOUT_S", 0.5)

    async def scenario() -> None:
        async with broker(SERVES) as one, silent() as hung:
            gone = Address("127.0.0.1", hung.port)
            pages = HttpPages([process(0), process(1), process(2, lives=False)], [one, hung, gone])
            page = (await pages.page(b"/metrics"))[1].decode()
            assert page.count('x{broker="0"} 1\n') == 100_000
            assert 'x{broker="1"}' not in page
            assert 'broker_up{broker="2"} 0\n' in page
            assert 'restarts_total{broker="1"} 1\n' in page

    asyncio.run(scenario())


def test_what_clients_have_pushed_to_any_broker_is_on_one_page() -> None:
    async def scenario() -> None:
        pushed = {b"/metrics/clients": ("200 OK", b'# TYPE x gauge\nx{client_id="a"} 1\n')}
        async with broker(pushed) as one, broker({b"/metrics/clients": ("200 OK", b"")}) as two:
            assert await HttpPages([process(0), process(1)], [one, two]).page(b"/metrics/clients") == (
                "200 OK", b'# TYPE x gauge\nx{broker="0",client_id="a"} 1\n',
            )  # fmt: skip

    asyncio.run(scenario())


def test_a_large_page_is_sent_without_a_thread() -> None:
    async def scenario() -> None:
        async def page(_: bytes) -> tuple[str, bytes]:
            return "200 OK", LARGE.encode()

        port = HttpPort(page, {})
        network = OsNetwork(sending_threads=0)
        await port.start(network, "127.0.0.1", 0)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port.address.port)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert (await reader.read()).endswith(LARGE.encode())
            writer.close()
            assert network._senders is not None
            assert network._senders._threads == 0
        finally:
            await port.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", "127.0.0.1:80"), ("", "127.0.0.1:80"), ("0.0.0.0", "127.0.0.1:80"), ("::1", "[::1]:80")],
)
def test_where_a_broker_is_asked(host: str, expected: str) -> None:
    assert str(numeric_address(Address(host, 80))) == expected
