"""Every view of the page over brokers of both kinds: it shows what there is, and screen readers can use it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, expect

from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import WRITES, running_web

pytestmark = [pytest.mark.interop, needs_chromium, pytest.mark.timeout(180)]
TABLE = Path(__file__).parents[3] / "web" / "static" / "views" / "index.js"
PATHS = re.findall(r'^  \{ path: "(/[^"]*)"', TABLE.read_text(encoding="utf-8"), re.MULTILINE)
OFTEN = {"barnabas.web.history.interval.ms": "200"}
REFUSED = {"/acls": "authorizer"}
"""What the cluster of these tests has not, and what the view says of it."""
PATIENCE_MS = 30_000
RECORDS = 20


@dataclass
class World:
    page: Page
    url: str
    names: dict[str, str]
    """What a part of a path with a colon stands for."""


@pytest.fixture(scope="module")
def world(bootstrap: str) -> Iterator[World]:
    topic, group = "pages-of-the-page", "group-of-the-page"
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, f"value {number}".encode())
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    consumer.close()
    broker = str(next(iter(producer.list_topics().brokers)))
    with (
        running_web(bootstrap, {**WRITES, **OFTEN}) as web,
        chromium() as browser,
        opened(browser, f"{web.url}/ui/topics") as page,
    ):
        yield World(page, f"{web.url}/ui", {"topic": topic, "group": group, "broker": broker})


@pytest.mark.parametrize("path", PATHS)
def test_a_view_shows_what_there_is(world: World, path: str) -> None:
    page = world.page
    page.goto(world.url + re.sub(r":(\w+)", lambda found: world.names[found[1]], path))
    expect(page.get_by_role("heading", level=1)).not_to_have_text("There is no such page")
    expect(page.get_by_text("Loading…")).to_have_count(0, timeout=PATIENCE_MS)
    if path in REFUSED:
        expect(page.get_by_role("alert")).to_contain_text(REFUSED[path], ignore_case=True)
    else:
        expect(page.get_by_role("alert")).to_have_count(0)
    assert_accessible(page)
    screenshot(page, f"view{path.replace('/', '-').replace(':', '')}")


def test_the_lag_of_a_group_is_a_plot_that_moves(world: World, bootstrap: str, fresh: Callable[[str], str]) -> None:
    page, topic, group = world.page, world.names["topic"], world.names["group"]
    page.goto(f"{world.url}/groups/{group}")
    expect(page.get_by_role("img", name=f"Lag. {topic}: now {RECORDS - 5} records")).to_be_visible(timeout=PATIENCE_MS)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, RECORDS)], asynchronous=False)
    consumer.close()
    expect(page.get_by_role("img", name=f"Lag. {topic}: now 0 records")).to_be_visible(timeout=PATIENCE_MS)
