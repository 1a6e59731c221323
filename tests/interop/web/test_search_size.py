"""A search over a million records of 100 bytes by a web process: it finds the one that is asked for, looks at every
record, and the process stays small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, Stream, make_topic, write
from tests.web.running import WebProcess, running_web

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]
RECORDS, ROUND, PARTITIONS = 1_000_000, 50_000, 4
WANTED = 765_432
MEMORY_KIB = 300 * 1024
UNBOUNDED = {"barnabas.web.search.bytes.per.second": str(1 << 30)}
TOPIC = "million"


def value_of(number: int) -> bytes:
    return (b'{"order": {"id": %d}, "text": "' % number).ljust(98, b".") + b'"}'


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with EmbeddedBroker() as broker:
        make_topic(broker, TOPIC, PARTITIONS)
        for first in range(0, RECORDS, ROUND):  # as many as a producer holds
            numbers = range(first, first + ROUND)
            write(broker, TOPIC, (Row(value_of(each), b"order-%d" % each, each % PARTITIONS) for each in numbers))
        with running_web(broker.bootstrap_servers, UNBOUNDED) as web:
            yield web


@pytest.mark.parametrize(
    "where",
    [
        f"key:is:order-{WANTED}",
        f"json:order.id:is:{WANTED}",
        rf"value:matches:\b{WANTED}\b",
        f'value:contains~:ID": {WANTED}',
    ],
)
def test_one_of_a_million_records_is_found(web: WebProcess, where: str) -> None:
    response = httpx.get(f"{web.url}/api/topics/{TOPIC}/messages/search", params={"where": where}, timeout=120)
    found = Stream.of(response)
    [hit] = found.of_name("hit")
    assert (hit["partition"], hit["key"]["text"]) == (WANTED % PARTITIONS, f"order-{WANTED}")
    assert found.last[1]["reason"] == "complete", found.last
    figures = found.of_name("progress")[-1]
    assert figures["records_read"] == RECORDS
    assert all(at == end for _, at, end in found.positions().values())
    seconds = figures["elapsed_ms"] / 1000
    peak = peak_kib(web.process.pid)
    print(f"{where}: {seconds:.2f} s, {RECORDS / seconds:,.0f} records/s, peak {peak / 1024:.0f} MB")
    assert peak < MEMORY_KIB


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0])
