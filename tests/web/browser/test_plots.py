"""Plots of the last hour in the browser: they come by themselves, and say in words what they show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.web.browser.chromium import PATIENCE_MS, assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [needs_chromium, pytest.mark.timeout(120)]
OFTEN = {"barnabas.web.history.interval.ms": "200"}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with (
        EmbeddedBroker({"orders": 3}) as broker,
        running_web(broker.bootstrap_servers, OFTEN) as web,
        chromium() as browser,
        opened(browser, f"{web.url}/ui/topics/orders") as page,
    ):
        yield page


def test_a_topic_has_its_throughput(page: Page) -> None:
    plot = page.get_by_role("img", name="Records written. orders: now 0/s, at most 0/s")
    expect(plot).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("figure", name="Size of the logs")).to_be_visible()
    assert_accessible(page)
    screenshot(page, "topic-plots")
