"""Streams: what slow readers and those who leave do to them, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from web.messages import events
from web.messages.events import BrokenOff, ByteStream, Event, EventStream, attachment, in_pieces


class Reader:
    """What ASGI gives to a response. `taken` are the parts; while `is_slow`, none is taken."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.is_finished = False
        self.is_slow = False
        self.left = asyncio.Event()

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] != "http.response.body":
            return
        if self.is_slow:
            await asyncio.Event().wait()
        self.taken.append(message["body"])
        self.is_finished = not message["more_body"]


class Parts:
    """Parts without end, until one fails."""

    def __init__(self, count: int | None = None, failure: Exception | None = None) -> None:
        self.is_closed = False
        self.count = count
        self.failure = failure

    async def run(self) -> AsyncGenerator[bytes, None]:
        try:
            made = 0
            while self.count is None or made < self.count:
                made += 1
                yield b"part"
                await asyncio.sleep(0)
            if self.failure is not None:
                raise self.failure
        finally:
            self.is_closed = True


async def served(reader: Reader, parts: Parts) -> None:
    async with asyncio.timeout(10):
        await ByteStream(parts.run(), "text/plain")({"type": "http"}, reader.receive, reader.send)
    assert parts.is_closed


async def test_a_stream_that_ends() -> None:
    reader = Reader()
    await served(reader, Parts(2))
    assert reader.taken == [b"part", b"part", b""] and reader.is_finished


async def test_a_reader_that_leaves_ends_it() -> None:
    reader = Reader()
    asyncio.get_running_loop().call_soon(reader.left.set)
    await served(reader, Parts())
    assert not reader.is_finished


async def test_a_reader_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", 0.01)
    reader = Reader()
    reader.is_slow = True
    await served(reader, Parts())
    assert not reader.taken


async def test_what_cannot_be_finished_has_no_end() -> None:
    reader = Reader()
    await served(reader, Parts(1, BrokenOff("gone")))
    assert reader.taken == [b"part"] and not reader.is_finished


async def test_events_as_browsers_read_them() -> None:
    async def made() -> AsyncGenerator[Event | None, None]:
        yield Event("hit", {"text": "a\nb\u2028"}, "id-1")
        yield None
        yield None

    times = iter((0.0, 0.0, 1.0, 16.0, 16.0))
    reader = Reader()
    await EventStream(made(), lambda: next(times))({"type": "http"}, reader.receive, reader.send)
    assert reader.taken[0].decode() == 'id: id-1\nevent: hit\ndata: {"text":"a\\nb\u2028"}\n\n'
    assert reader.taken[1:] == [b": alive\n\n", b""]


async def test_files_have_harmless_names() -> None:
    assert attachment('a"\r\n/../b.bin') == {"Content-Disposition": 'attachment; filename="a____.._b.bin"'}
    assert b"".join([each async for each in in_pieces(b"x" * 600_000)]) == b"x" * 600_000
