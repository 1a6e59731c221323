"""The views of the cluster, its brokers and topics in the browser: what they show, and what each button changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.browser.clusters import BOTH_KINDS
from tests.web.running import WRITES, running_web

pytestmark = [needs_chromium, pytest.mark.timeout(120)]


@pytest.fixture(scope="module", params=BOTH_KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with request.param({"orders": 3, "payments": 1}, {}) as servers, running_web(servers, WRITES) as web:
        yield web.url


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Page]:
    with chromium() as browser, opened(browser, url) as page:
        yield page


def test_the_first_view_tells_how_the_cluster_is(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.get_by_role("region", name="Health")).to_contain_text("Healthy")
    expect(page.locator(".card", has_text="Partitions")).to_contain_text("4 replicas")
    expect(page.locator("main")).to_contain_text(re.compile("Overview.*Healthy.*Brokers.*The last hour", re.DOTALL))
    assert_accessible(page)
    screenshot(page, "overview")


def test_a_broker_has_disks_and_settings(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/brokers")
    row = page.get_by_role("table", name="Brokers").get_by_role("row").nth(1)
    expect(row).to_contain_text("controller")
    assert_accessible(page)
    screenshot(page, "brokers")
    row.get_by_role("link").click()
    expect(page.get_by_role("table", name="Directories of the broker")).to_contain_text("online")
    page.get_by_label("Find settings").fill("log.retention.hours")
    settings = page.get_by_role("table", name=re.compile("Settings of broker"))
    expect(settings).to_contain_text("168")
    expect(settings).to_contain_text("default")
    assert_accessible(page)
    screenshot(page, "broker")


def test_a_topic_has_partitions_with_their_replicas(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    expect(page.get_by_role("row", name=re.compile("^orders"))).to_contain_text("in sync")
    screenshot(page, "topics")
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("table", name="Partitions of orders").get_by_role("row")).to_have_count(4)
    page.get_by_role("button", name="Next offset").click()
    expect(page).to_have_url(re.compile(r"\?sort=-end$"))
    assert_accessible(page)
    screenshot(page, "topic")


def test_a_topic_is_created_given_partitions_and_deleted(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    page.get_by_role("button", name="Create a topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("views")
    dialog.get_by_label("Partitions").fill("2")
    dialog.get_by_label("Settings, one a line").fill("retention.ms")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("write name=value")
    dialog.get_by_label("Settings, one a line").fill("retention.ms=60000")
    assert_accessible(page)
    screenshot(page, "topic-create")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic views")
    partitions = page.get_by_role("table", name="Partitions of views").get_by_role("row")
    expect(partitions).to_have_count(3)
    page.get_by_role("button", name="Add partitions").click()
    dialog.get_by_label("Partitions, from now on").fill("5")
    dialog.get_by_role("button", name="Add partitions").click()
    expect(partitions).to_have_count(6)
    page.get_by_role("button", name="Delete").click()
    delete = dialog.get_by_role("button", name="Delete the topic")
    expect(delete).to_be_disabled()
    dialog.get_by_label("to confirm").fill("views")
    delete.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.get_by_role("link", name="views", exact=True)).to_have_count(0)


def test_a_setting_is_set_refused_and_taken_back(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics/payments/settings?filter=retention.ms")
    row = page.get_by_role("row", name=re.compile("^retention.ms"))
    expect(row).to_contain_text("default")
    change = row.get_by_role("button", name="Change retention.ms")
    change.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value of retention.ms").fill("a week")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("alert")).to_contain_text("retention.ms")
    dialog.get_by_label("Value of retention.ms").fill("3600000")
    expect(dialog).to_contain_text("= 1 h")
    dialog.get_by_role("button", name="Set").click()
    expect(row).to_contain_text("set on this topic")
    assert_accessible(page)
    screenshot(page, "topic-settings")
    change.click()
    dialog.get_by_label("Take the value back").check()
    dialog.get_by_role("button", name="Use the value below").click()
    expect(row).to_contain_text("default")


def test_a_topic_that_is_not_there_says_so(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics/nothing")
    expect(page.get_by_role("alert").first).to_contain_text("This server does not host this topic-partition")
