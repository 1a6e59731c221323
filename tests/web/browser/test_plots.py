"""Plots of the last hour in the browser: they come by themselves, and say in words what they show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.web.browser.chromium import PATIENCE_MS, assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [needs_chromium, pytest.mark.timeout(120)]
OFTEN = {"barnabas.web.history.interval.ms": "200"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedBroker({"orders": 3}, {"barnabas.http.port": 0}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"value")
        assert producer.flush(30) == 0
        metrics = {"barnabas.web.metrics.urls": f"http://{broker.http}/metrics"}
        with running_web(broker.bootstrap_servers, {**OFTEN, **metrics}) as web:
            yield web.url


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with opened(browser, f"{url}/ui/topics/orders") as page:
        yield page


def test_a_topic_has_its_throughput(page: Page) -> None:
    plot = page.get_by_role("img", name="Records written. orders: now 0/s, at most 0/s")
    expect(plot).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("figure", name="Size of the logs")).to_be_visible()
    tab, drawn = page.get_by_role("link", name="Messages").bounding_box(), plot.bounding_box()
    assert tab is not None and drawn is not None and tab["y"] < drawn["y"], "parts keep their places as they load"
    assert_accessible(page)
    screenshot(page, "topic-plots")


def test_the_cluster_has_its_throughput_and_the_response_times_of_brokers(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/")
    for title in ("Records written. all topics: now", "Response times of brokers, 99th percentile. localhost"):
        expect(page.get_by_role("img", name=title)).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("figure", name="Response times")).to_contain_text("Produce")
    assert_accessible(page)
    screenshot(page, "overview-plots")


def test_a_time_in_which_nobody_looked_is_a_gap(page: Page) -> None:
    minutes = (0, 1, 2, 30, 31, 32)
    line = {"measure": "records", "unit": "records/s", "name": "", "values": [1, 2, 3, 4, None, 5]}
    answer = {
        "interval_ms": 10_000,
        "times_ms": [1_700_000_000_000 + each * 60_000 for each in minutes],
        "lines": [line],
        "problem": "",
        "left_out": 2,
    }
    page.route("**/api/history**", lambda route: route.fulfill(json=answer))
    page.reload()
    plot = page.get_by_role("img", name="Records written. orders: now 5/s, at most 5/s")
    expect(plot).to_be_visible()
    drawn = plot.locator("path.line").get_attribute("d") or ""
    pieces = [piece.count("L") for piece in drawn.split("M")[1:]]
    assert pieces == [2, 0, 0]
    expect(page.get_by_text("Not everything is sampled: 2 topics or groups")).to_be_visible()
