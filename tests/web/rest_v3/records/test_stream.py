"""Reading and answering side by side: what is bounded, and what happens to clients that are slow or go away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from client.event_loop.producer import Delivered
from runtime.clock import SystemClock
from tests.async_tests import simulated
from web.rest_v3.records.large import LargeRecords
from web.rest_v3.records.record import new_record
from web.rest_v3.records.sending import RecordSender, Sent
from web.rest_v3.records.stream import PENDING_COUNT, RecordStream

SMALL = json.dumps({"value": {"type": "STRING", "data": "x"}}).encode()
LARGE = json.dumps({"value": {"type": "STRING", "data": "x" * (3 << 20)}}).encode()


class Sender(RecordSender):
    """Takes records, and stores them when it is told to."""

    def __init__(self) -> None:
        self.taken: list[Sent] = []

    async def send(self, fields: dict[str, Any]) -> Sent:
        sent = Sent(new_record(fields), asyncio.get_running_loop().create_future())
        self.taken.append(sent)
        return sent

    def store(self) -> None:
        for index, sent in enumerate(self.taken):
            if not sent.delivery.done():
                sent.delivery.set_result(Delivered("t", 0, index, 0))

    def report(self, sent: Any) -> bytes:
        return b"%d\n" % sent.delivery.result().offset if isinstance(sent, Sent) else b"%d\n" % sent.number


class Client:
    """The other side of ASGI: what it sends, and what it has got."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.got = b""
        self.is_over = False
        self.reads = asyncio.Event()
        self.reads.set()

    def sends(self, content: bytes, *, more_body: bool = True) -> None:
        self.requests.put_nowait({"type": "http.request", "body": content, "more_body": more_body})

    def goes(self) -> None:
        self.requests.put_nowait({"type": "http.disconnect"})

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.got += message.get("body", b"")
        self.is_over = message["type"] == "http.response.body" and not message["more_body"]

    def asks(self, sender: Sender, large: LargeRecords) -> asyncio.Task[None]:
        stream = RecordStream(sender, large, SystemClock(), 8 << 20)
        return asyncio.ensure_future(stream({"type": "http"}, self.requests.get, self.send))


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - what is looked at tells nobody
        await asyncio.sleep(0)


async def test_a_client_that_does_not_read_its_reports_is_not_read_from() -> None:
    client, sender = Client(), Sender()
    client.reads.clear()
    running = client.asks(sender, LargeRecords())
    client.reads.set()
    for _ in range(6):
        client.sends(SMALL * PENDING_COUNT)
    client.sends(b"", more_body=False)
    await until(lambda: len(sender.taken) == PENDING_COUNT)
    client.reads.clear()
    for _ in range(100):
        sender.store()
        await asyncio.sleep(0)
    assert len(sender.taken) < 3 * PENDING_COUNT
    client.reads.set()
    while not running.done():
        sender.store()
        await asyncio.sleep(0)
    assert client.got.split() == [b"%d" % index for index in range(6 * PENDING_COUNT)] and client.is_over


async def test_reports_come_in_the_order_of_the_records() -> None:
    client, sender = Client(), Sender()
    running = client.asks(sender, LargeRecords())
    client.sends(SMALL * 3, more_body=False)
    await until(lambda: len(sender.taken) == 3)
    sender.taken[2].delivery.set_result(Delivered("t", 0, 2, 0))
    await asyncio.sleep(0)
    assert client.got == b""
    sender.store()
    await running
    assert client.got == b"0\n1\n2\n"


async def test_large_records_are_read_one_after_the_other() -> None:
    large, sender = LargeRecords(places=1), Sender()
    first, second = Client(), Client()
    running = [each.asks(sender, large) for each in (first, second)]
    for client in (first, second):
        client.sends(LARGE[: 2 << 20])
        client.sends(LARGE[2 << 20 :], more_body=False)
    await until(lambda: len(sender.taken) == 1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(sender.taken) == 1, "the second waits until the first is stored"
    sender.store()
    await until(lambda: len(sender.taken) == 2)
    sender.store()
    await asyncio.gather(*running)


async def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    large, sender, client = LargeRecords(places=1), Sender(), Client()
    running = client.asks(sender, large)
    client.sends(SMALL + LARGE[: 2 << 20])
    client.goes()
    await running
    assert not client.is_over and len(sender.taken) == 1
    async with asyncio.timeout(10):
        await large.place()


@simulated(1)
async def test_a_client_that_stops_in_the_middle_of_a_large_record_loses_it() -> None:
    large, client = LargeRecords(places=1), Client()
    running = client.asks(Sender(), large)
    client.sends(LARGE[: 2 << 20])
    await running
    assert client.got == b"50003\n" and client.is_over
    await large.place()
