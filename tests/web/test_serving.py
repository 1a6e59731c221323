"""The server closes what waits for clients that send nothing, too much, or take nothing; it stops in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn

from runtime.tasks import TaskScope
from runtime.tls.context import server_context
from tests.tls_certificates import authority, material
from web.serving import (
    HEADERS_MAX_BYTES,
    PIPELINED_MAX,
    QUIET_LOGGERS,
    ConnectionLimits,
    LimitedHttp,
    WebServer,
    quiet_libraries,
)

GET = b"GET / HTTP/1.1\r\nHost: h\r\n"
SHORT = ConnectionLimits(3, 0.05, 0.05)
LONG = ConnectionLimits(3, 60, 60)
PATIENCE_S = 20
BIG = b"x" * (64 << 20)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body, with a lot, or with events that do not end."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    match scope["path"]:
        case "/big":
            await send({"type": "http.response.body", "body": BIG, "more_body": True})
            await send({"type": "http.response.body", "body": b"end"})
        case "/events":
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                continue
        case "/slow":
            await asyncio.sleep(0.2)
            await send({"type": "http.response.body", "body": b"late"})
        case _:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message["more_body"]:
                    break
            await send({"type": "http.response.body", "body": b"all"})


class Running:
    def __init__(self, server: WebServer, port: int, served: asyncio.Task[None]) -> None:
        self.server, self.port, self.served = server, port, served

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)


@asynccontextmanager
async def running(limits: ConnectionLimits, context: ssl.SSLContext | None = None) -> AsyncIterator[Running]:
    listener = socket.create_server(("127.0.0.1", 0))
    started = asyncio.Event()
    tasks = TaskScope("connections")
    config = uvicorn.Config(
        application, http=LimitedHttp, ws="none", log_config=None, lifespan="off", timeout_keep_alive=1
    )
    server = WebServer(config, started.set, limits=limits, context=context, tasks=tasks)
    served = asyncio.ensure_future(server.serve([listener]))
    await started.wait()
    try:
        yield Running(server, listener.getsockname()[1], served)
    finally:
        server.should_exit = True
        await asyncio.wait_for(served, PATIENCE_S)
        await tasks.close()


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, however it ends."""
    got = b""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while data := await reader.read(1 << 20):
                got += data
        except ConnectionError:
            pass
    return got


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /",
        GET,
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345",
        b"POST /v3/clusters/c/topics/t/records HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        GET + b"\r\n" + GET,
    ],
    ids=["nothing", "half a line", "half the headers", "half a body", "half a stream", "half of a second request"],
)
async def test_a_client_that_goes_silent_loses_its_connection(sent: bytes) -> None:
    async with running(SHORT) as web:
        reader, writer = await web.connect()
        writer.write(sent)
        assert (await rest_of(reader)).startswith(b"HTTP/1.1 200" if sent.endswith(GET) and sent != GET else b"")
        writer.close()


async def test_an_application_that_takes_its_time_loses_nobody() -> None:
    async with running(SHORT) as web:
        reader, writer = await web.connect()
        writer.write(b"GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert (await rest_of(reader)).endswith(b"late\r\n0\r\n\r\n")
        writer.close()


async def test_a_client_that_takes_nothing_loses_its_connection() -> None:
    async with running(SHORT) as web:
        reader, writer = await web.connect()
        writer.write(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: not web.server.server_state.connections and not web.server.server_state.tasks)
        writer.close()
        assert len(await rest_of(reader)) < len(BIG)


@pytest.mark.parametrize("header", [b"X: " + b"x" * HEADERS_MAX_BYTES, b"X: y\r\n" * (HEADERS_MAX_BYTES // 6)])
async def test_headers_without_end_are_refused(header: bytes) -> None:
    async with running(LONG) as web:
        reader, writer = await web.connect()
        writer.write(GET + header)
        assert (await rest_of(reader)).startswith(b"HTTP/1.1 431 ")
        writer.close()


async def test_requests_that_do_not_wait_for_answers_are_few() -> None:
    async with running(LONG) as web:
        slow, quick = (f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode() for path in ("/slow", "/"))
        reader, writer = await web.connect()
        writer.write(slow + quick * PIPELINED_MAX)
        got = b""
        while got.count(b"HTTP/1.1 200") <= PIPELINED_MAX:
            got += await asyncio.wait_for(reader.read(1 << 16), PATIENCE_S)
        writer.write(slow + quick * 10_000)
        assert (await rest_of(reader)).count(b"HTTP/1.1 200") <= 1
        writer.close()


async def test_one_connection_too_many_is_closed() -> None:
    async with running(LONG) as web:
        those = [await web.connect() for _ in range(LONG.connections_max)]
        await until(lambda: len(web.server.server_state.connections) == LONG.connections_max)
        reader, writer = await web.connect()
        assert await rest_of(reader) == b""
        those[0][1].write(GET + b"\r\n")
        assert await those[0][0].readline() == b"HTTP/1.1 200 OK\r\n"
        for _, each in (*those, (reader, writer)):
            each.close()


async def test_a_stop_ends_events_at_once_and_lets_others_end() -> None:
    async with running(LONG) as web:
        events, other = await web.connect(), await web.connect()
        events[1].write(b"GET /events HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n")
        other[1].write(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await events[0].readline() == b"HTTP/1.1 200 OK\r\n"
        assert await other[0].readline() == b"HTTP/1.1 200 OK\r\n"
        web.server.should_exit = True
        await rest_of(events[0])
        assert (await rest_of(other[0])).endswith(b"late\r\n0\r\n\r\n")
        await asyncio.wait_for(web.served, PATIENCE_S)
        for each in (events[1], other[1]):
            each.close()


async def test_connections_count_before_their_handshake_and_end_without_one() -> None:
    context = server_context(replace(material("page", "localhost"), trusted=None), ssl.CERT_NONE)
    trusting = ssl.create_default_context(cadata=authority().certificate)
    limits = ConnectionLimits(3, 60, 60)
    async with running(limits, context) as web:
        silent = [await web.connect() for _ in range(3)]
        await until(lambda: limits.handshakes == 3)
        reader, writer = await web.connect()
        assert await rest_of(reader) == b""
        writer.close()
        silent[0][1].close()
        silent[1][1].write(GET + b"\r\n")
        await rest_of(silent[1][0])
        await until(lambda: limits.handshakes == 1)
        reader, writer = await asyncio.open_connection("localhost", web.port, ssl=trusting)
        writer.write(GET + b"Connection: close\r\n\r\n")
        assert (await rest_of(reader)).startswith(b"HTTP/1.1 200 OK\r\n")
        for _, each in (*silent, (reader, writer)):
            each.close()
    async with running(SHORT, context) as web:
        reader, writer = await web.connect()
        assert await rest_of(reader) == b""
        writer.close()


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_true():  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("chosen", "is_logged"), [(logging.NOTSET, False), (logging.INFO, True)])
async def test_requests_to_others_are_logged_only_where_the_settings_say_so(
    chosen: int, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in QUIET_LOGGERS:
        caplog.set_level(chosen, logger=name)
    quiet_libraries()
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client:
        await client.get("http://registry.example/?token=hidden")
    assert ("hidden" in caplog.text) is is_logged
