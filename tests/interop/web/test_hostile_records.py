"""Records of 100 MB: a web process that shows, searches and downloads them stays below eight times their size, and answers
others meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, Stream, make_topic, write
from tests.web.running import WebProcess, running_web

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]
LARGE_BYTES = 100_000_000
LIMIT = 103_000_000
UNBOUNDED = {"barnabas.web.search.bytes.per.second": str(1 << 30)}
BASE = "/api/topics/large/messages"
MAX_KIB = 8 * LARGE_BYTES // 1024


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"message.max.bytes": LIMIT}) as broker:
        make_topic(broker, "large")
        sizes = {"message.max.bytes": LIMIT, "linger.ms": 0}
        write(broker, "large", [Row(b"x" * (LARGE_BYTES - 6) + b"needle", b"text")], **sizes)
        write(broker, "large", [Row(b"\xff" * LARGE_BYTES, b"binary")], **sizes)
        write(broker, "large", [Row(b"small", b"small")])
        yield broker


@pytest.fixture
def web(broker: EmbeddedBroker) -> Iterator[WebProcess]:
    with running_web(broker.bootstrap_servers, UNBOUNDED) as web:
        yield web


def browsed(web: WebProcess) -> None:
    page = httpx.get(f"{web.url}{BASE}", timeout=100).json()
    assert [each["value"]["size_bytes"] for each in page["records"]] == [5, LARGE_BYTES, LARGE_BYTES]
    assert all(len(each["value"]["text"]) <= 4_096 for each in page["records"])


def searched(web: WebProcess) -> None:
    found = Stream.of(httpx.get(f"{web.url}{BASE}/search", params={"where": "value:contains:needle"}, timeout=100))
    assert [each["offset"] for each in found.of_name("hit")] == [0] and found.last[0] == "end"


def looked_at(web: WebProcess) -> None:
    for offset in range(2):
        details = httpx.get(f"{web.url}{BASE}/0/{offset}", timeout=100).json()
        assert details["value_forms"]["hex"]["is_cut"] and details["size_bytes"] > LARGE_BYTES


def downloaded(web: WebProcess) -> None:
    for form in ("jsonl", "csv"):
        with httpx.stream("GET", f"{web.url}{BASE}/download", params={"format": form}, timeout=100) as response:
            size_bytes = sum(map(len, response.iter_raw()))
        assert size_bytes > LARGE_BYTES * 7 // 3
    with httpx.stream("GET", f"{web.url}{BASE}/0/1/value", timeout=100) as response:
        assert sum(map(len, response.iter_raw())) == LARGE_BYTES


@pytest.mark.parametrize("act", [browsed, searched, looked_at, downloaded])
def test_large_records_hold_neither_memory_nor_others(web: WebProcess, act: Callable[[WebProcess], None]) -> None:
    with ThreadPoolExecutor(1) as threads, httpx.Client(base_url=web.url) as client:
        under_way = threads.submit(act, web)
        answered = 0
        while not under_way.done():
            answered += client.get("/api/topics/large/messages/0/2", timeout=100).status_code == 200
        under_way.result()
    peak = peak_kib(web.process.pid)
    print(f"{act.__name__}: peak {peak / 1024:.0f} MB, {answered} answered meanwhile")
    assert answered > 1
    assert peak < MAX_KIB


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0])
