"""What is around every view: navigation, keys, the theme."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.web.browser.chromium import PATIENCE_MS, assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [needs_chromium, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedBroker({"orders": 3, "payments": 1}) as broker, running_web(broker.bootstrap_servers) as web:
        yield web.url


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Page]:
    with chromium() as browser, opened(browser, f"{url}/ui/topics") as page:
        yield page


def test_a_link_an_address_and_a_key_lead_to_the_same_view(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic orders")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic orders")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic orders")


def test_a_search_in_a_table_is_in_the_address(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("pay")
    expect(page.get_by_role("link", name="orders")).to_have_count(0)
    expect(page.get_by_role("link", name="payments")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?filter=pay$"))


def test_the_keys_are_told_and_the_window_closes_by_escape(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    page.get_by_role("link", name="orders").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("go to the search box")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_light_and_dark_are_readable(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    for theme in ("dark", "light"):
        page.get_by_label("Colours").select_option(theme)
        expect(page.get_by_role("link", name="orders")).to_be_visible()
        assert_accessible(page)
        screenshot(page, f"topics-{theme}")


def test_an_address_without_a_view_says_where_to_begin(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/nothing/here")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")


def test_every_view_has_a_key_a_heading_and_is_readable_in_the_dark(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    page.get_by_label("Colours").select_option("dark")
    views = page.evaluate("import('/static/views/index.js').then(({VIEWS}) => VIEWS.map(({nav, key}) => [nav, key]))")
    views = [[name, key] for name, key in views if name]
    assert len(views) > 10
    for name, key in views:
        page.locator("main").focus()
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text([name])
        expect(page.get_by_role("navigation", name="Views").locator("[aria-current]")).to_have_text([name])
        expect(page.locator(".loading")).to_have_count(0, timeout=PATIENCE_MS)
        assert_accessible(page)
    page.get_by_label("Colours").select_option("auto")


def test_a_page_that_only_reads_says_what_allows_changes(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/topics")
    create = page.get_by_role("button", name="Create a topic")
    expect(create).to_be_disabled()
    expect(create).to_have_attribute("title", re.compile("barnabas.web.write.enable=true"))
