"""The views of the cluster while one of three brokers is stopped, and while replicas fall behind: they tell what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Locator, Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [pytest.mark.interop, needs_chromium, pytest.mark.timeout(180)]
PARTITIONS = 3
QUICK = {"replica.lag.time.max.ms": "2000"}
"""A replica that does not fetch is soon not in sync."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"orders": PARTITIONS}, QUICK, brokers=3) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def url(brokers: EmbeddedBroker) -> Iterator[str]:
    with running_web(brokers.bootstrap_servers) as web:
        yield f"{web.url}/ui"


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Page]:
    with chromium() as browser, opened(browser, url) as page:
        yield page


def replicas(page: Page, words: str) -> Locator:
    """The replicas of whose state this is said."""
    return page.get_by_role("table", name="Partitions of orders").locator("span.tag", has_text=re.compile(f"^{words}$"))


def test_a_stopped_broker_is_named_until_it_is_back(page: Page, url: str, brokers: EmbeddedBroker) -> None:
    stopped = brokers.broker_ids[-1]
    brokers.stop(stopped)
    page.goto(f"{url}/brokers")
    alert = page.locator("main").get_by_role("alert")
    expect(alert).to_contain_text(f"Brokers that hold replicas are missing: {stopped}.")
    expect(page.get_by_role("table", name="Brokers").get_by_role("row")).to_have_count(3)
    assert_accessible(page)
    screenshot(page, "broker-missing")

    page.goto(f"{url}/brokers/{stopped}")
    expect(page.locator("main")).to_contain_text("This broker is not there.")
    assert_accessible(page)
    screenshot(page, "broker-missing-own")

    page.goto(f"{url}/topics/orders")
    expect(replicas(page, f"{stopped} offline")).to_have_count(PARTITIONS)
    assert_accessible(page)
    screenshot(page, "topic-offline")

    page.goto(url)
    expect(page.locator("div.card", has_text="Brokers")).to_contain_text(f"missing: {stopped}")
    expect(page.locator("div.card", has_text="Replicas not in sync").locator(".figure")).to_have_text(str(PARTITIONS))
    expect(page.get_by_role("region", name="Health")).to_contain_text(
        "it is gone, and 3 partitions have a replica on it"
    )
    assert_accessible(page)
    screenshot(page, "overview-broker-missing")

    brokers.restart(stopped)
    expect(page.locator("div.card", has_text="Replicas not in sync")).to_contain_text("all are in sync")
    page.goto(f"{url}/brokers")
    expect(page.get_by_role("table", name="Brokers").get_by_role("row")).to_have_count(4)
    expect(alert).to_have_count(0)


def test_replicas_that_fall_behind_say_so(page: Page, url: str, brokers: EmbeddedBroker) -> None:
    page.goto(f"{url}/topics/orders")
    expect(replicas(page, r"\d")).to_have_count(3 * PARTITIONS)
    brokers.inject("FetchFollower", disconnect=True, times=0)
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "1"})
    for partition in range(PARTITIONS):
        producer.produce("orders", b"what followers do not have", partition=partition)
    assert producer.flush(30) == 0
    expect(replicas(page, r"\d not in sync")).to_have_count(2 * PARTITIONS)
    assert_accessible(page)
    screenshot(page, "topic-behind")
    page.goto(f"{url}/topics")
    expect(page.get_by_role("row", name=re.compile("^orders"))).to_contain_text(f"{PARTITIONS} partitions not in sync")
    brokers.clear_faults()
    expect(page.get_by_role("row", name=re.compile("^orders"))).not_to_contain_text("not in sync")
    page.goto(f"{url}/topics/orders")
    expect(replicas(page, r"\d")).to_have_count(3 * PARTITIONS)
