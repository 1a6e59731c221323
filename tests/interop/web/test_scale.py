"""A cluster of 10,000 partitions and 1,000 groups: what sampling costs its brokers, in requests, which docs/web.md tells; how
fast views are there, and how small the process stays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from time import monotonic, sleep

import pytest
from playwright.sync_api import Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.interop.web.large_cluster import GROUPS, PARTITIONS, TOPICS, large_cluster, topic_name
from tests.web.browser.chromium import chromium, needs_chromium, opened
from tests.web.history.sampling_world import requests_of, world_of
from tests.web.running import WebProcess, running_web
from web.history.history import Measure
from web.history.sampler import GROUPS_PER_REQUEST, PARTITIONS_PER_REQUEST, PARTITIONS_PER_ROUND

pytestmark = [pytest.mark.interop, pytest.mark.long]
FIRST_VIEW_S = 2.0
MEMORY_KIB = 300 * 1024
ATTEMPTS = 3
CACHED_S = 5
"""What the process has been told is old after this time, and asked again."""
PATIENCE_MS = 30_000
ALL = TOPICS * PARTITIONS + 4  # those of __consumer_offsets
LONG_ROUNDS = 1 + ALL // PARTITIONS_PER_ROUND
"""One in so many rounds asks for metadata and sizes."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with large_cluster() as broker:
        yield broker


@pytest.mark.timeout(120)
def test_the_requests_of_a_round_are_as_few_as_they_are_said_to_be(broker: EmbeddedBroker) -> None:
    with ThreadPoolExecutor(1) as thread:  # the driver of the browser has an event loop in this one
        thread.submit(asyncio.run, look_at_requests(broker)).result()


async def look_at_requests(broker: EmbeddedBroker) -> None:
    async with world_of(broker) as world:
        await world.look()
        before = requests_of(broker)
        for _ in range(LONG_ROUNDS):
            await world.look()
        asked = {name: each - before.get(name, 0) for name, each in requests_of(broker).items()}
    assert {name: each for name, each in asked.items() if each} == {
        "ListOffsets": LONG_ROUNDS * ceil(ALL / PARTITIONS_PER_REQUEST),
        "ListGroups": LONG_ROUNDS,
        "OffsetFetch": LONG_ROUNDS * ceil(GROUPS / GROUPS_PER_REQUEST),
        "Metadata": 1 + LONG_ROUNDS,  # all topics once; which brokers there are, in each round
        "DescribeLogDirs": ceil(ALL / PARTITIONS_PER_ROUND),
    }
    assert world.latest(Measure.RECORDS, topic_name(TOPICS - 1)) == 0.0
    assert world.latest(Measure.LAG, f"group-{GROUPS - 1:04}", topic_name(GROUPS - 1)) == 0
    assert all(world.history.left_out(measure) == 0 for measure in Measure)
    assert world.sampler.groups_left_out == 0


@pytest.fixture(scope="module")
def web(broker: EmbeddedBroker) -> Iterator[WebProcess]:
    with running_web(broker.bootstrap_servers) as web:
        yield web


@pytest.fixture(scope="module")
def page(web: WebProcess) -> Iterator[Page]:
    with chromium() as browser, opened(browser, f"{web.url}/ui/nothing") as page:
        yield page


@needs_chromium
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/ui/", "10,004"),
        ("/ui/brokers", "10,004"),
        ("/ui/topics", topic_name(0)),
        (f"/ui/topics/{topic_name(0)}", f"Partitions of {topic_name(0)}"),
        ("/ui/groups", "group-0000"),
    ],
)
def test_each_view_is_there_within_two_seconds(page: Page, web: WebProcess, path: str, what: str) -> None:
    """Measured by the best of three, since the machine may be busy: each is a new page, whose data nobody has asked for."""
    times_s = []
    for _ in range(ATTEMPTS):
        sleep(CACHED_S)
        began_s = monotonic()
        page.goto(f"{web.url}{path}")
        expect(page.locator("main")).to_contain_text(what, timeout=PATIENCE_MS)
        times_s.append(monotonic() - began_s)
    print(f"{path}: {min(times_s):.2f} s")
    assert min(times_s) < FIRST_VIEW_S


@needs_chromium
def test_the_process_stays_small(page: Page, web: WebProcess) -> None:
    page.goto(f"{web.url}/ui/topics")
    expect(page.locator("main")).to_contain_text(topic_name(0), timeout=PATIENCE_MS)
    status = Path(f"/proc/{web.process.pid}/status").read_text(encoding="ascii")
    peak_kib = int(status.split("VmHWM:")[1].split()[0])
    assert peak_kib < MEMORY_KIB
