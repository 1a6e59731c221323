"""The pictures of docs/web.md and README: `make pictures` writes them again.

They show a cluster of three brokers with a shop's topics, which somebody writes to and groups read from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.web.browser.chromium import ARTEFACTS, assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not ARTEFACTS, reason="BARNABAS_ARTEFACTS names no folder: make pictures does"),
    pytest.mark.timeout(300),
]
TOPICS = {"orders": 6, "payments": 3, "shipments": 3, "returns": 1}
CITIES = ("Lyon", "Porto", "Gdansk", "Malmo", "Graz")
OFTEN = {"barnabas.web.history.interval.ms": "200"}
SEARCH = "/ui/topics/orders/messages?where=json:$.city:is:Lyon&where=json:$.amount:matches:^9"


def write(servers: str, count: int, seed: int) -> None:
    chosen = random.Random(seed)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in range(count):
        order = {"order": number, "city": chosen.choice(CITIES), "amount": round(chosen.uniform(5, 99), 2)}
        headers = {"trace-id": f"{chosen.getrandbits(64):016x}"}
        topic = chosen.choice(("orders", "orders", "payments", "shipments"))
        producer.produce(topic, json.dumps(order), key=f"order-{number}", headers=headers)
    assert producer.flush(60) == 0


def read(servers: str, group: str, topic: str, until: int) -> None:
    """Commit, as a member that has read some of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    offsets = [TopicPartition(topic, partition, until + partition) for partition in range(TOPICS[topic])]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with (
        EmbeddedBroker(TOPICS, brokers=3) as brokers,
        running_web(brokers.bootstrap_servers, OFTEN) as web,
        chromium() as browser,
        opened(browser, f"{web.url}/ui/") as page,
    ):
        for seed in range(6):
            write(brokers.bootstrap_servers, 1_500, seed)
        for group, topic, until in (("billing", "orders", 600), ("shipping", "payments", 400), ("mail", "orders", 500)):
            read(brokers.bootstrap_servers, group, topic, until)
        write(brokers.bootstrap_servers, 500, 7)
        yield page


@pytest.mark.parametrize(
    ("name", "path", "shown"),
    [
        ("web-group", "/ui/groups/billing", "orders"),
        ("web-overview", "/ui/", "healthy"),
        ("web-topic", "/ui/topics/orders", "Records written"),
        ("web-messages", SEARCH, "Lyon"),
    ],
)
def test_a_picture(page: Page, name: str, path: str, shown: str) -> None:
    page.goto(page.url.partition("/ui/")[0] + path)
    expect(page.get_by_text(shown).first).to_be_visible()
    assert_accessible(page)
    screenshot(page, name)
