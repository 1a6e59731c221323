"""Logging in and out, on a cluster whose users have passwords."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from barnabas.embedded import EmbeddedBroker
from tests.web.access.secured import ACLS, SETTINGS, USERS
from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [needs_chromium, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        EmbeddedBroker(["orders", "secrets"], security="sasl_plaintext", users=USERS, acls=ACLS) as broker,
        running_web(broker.bootstrap_servers, SETTINGS) as web,
    ):
        yield web.url


@pytest.fixture
def page(url: str) -> Iterator[Page]:
    with chromium() as browser, opened(browser, f"{url}/ui/topics") as page:
        yield page


def log_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_users_see_what_they_may_after_their_login_and_nothing_after_their_logout(page: Page, url: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    expect(page.get_by_label("User")).to_be_focused()
    assert_accessible(page)
    screenshot(page, "login")
    log_in(page, "alice", "wrong-secret")
    expect(page.get_by_role("alert")).to_contain_text("does not accept this login")
    expect(page.get_by_label("Password")).to_have_value("")
    log_in(page, "alice", USERS["alice"])
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page).to_have_url(f"{url}/ui/topics")
    expect(page.get_by_role("link", name="secrets")).to_have_count(0)
    assert USERS["alice"] not in page.content()
    assert page.evaluate("document.cookie") == ""  # no script reads it
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
    page.reload()
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    log_in(page, "bob", USERS["bob"])
    expect(page.get_by_role("link", name="secrets")).to_be_visible()
    expect(page.get_by_role("link", name="orders")).to_have_count(0)
    page.context.clear_cookies()  # as if the session had ended
    page.get_by_role("link", name="secrets").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
