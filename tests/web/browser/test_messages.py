"""The Messages view: pages, search, follow, one message, writing; and messages that would like to be markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.browser.clusters import BOTH_KINDS
from tests.web.running import WRITES, running_web

pytestmark = [needs_chromium, pytest.mark.timeout(180)]

MARKUP = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
ORDERS = 60


class Place:
    """A running page with a topic `orders` of three partitions, `empty`, and `markup`."""

    def __init__(self, servers: str, url: str) -> None:
        self.servers = servers
        self.url = url
        self.producer = Producer({"bootstrap.servers": servers})

    def of(self, topic: str, query: str = "") -> str:
        return f"{self.url}/ui/topics/{topic}/messages{query}"

    def produce(
        self, topic: str, value: str, key: str | None = None, headers: list[tuple[str, bytes]] | None = None
    ) -> None:
        self.producer.produce(topic, value, key, headers=headers or [])
        assert self.producer.flush(30) == 0


@pytest.fixture(scope="module", params=BOTH_KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    topics = {"orders": 3, "empty": 1, "markup": 1, "live": 1, "written": 1}
    with request.param(topics, {}) as servers, running_web(servers, WRITES) as web:
        place = Place(servers, web.url)
        for number in range(ORDERS):
            place.producer.produce(
                "orders", f'{{"id": {number}, "state": "{"paid" if number % 10 else "open"}"}}', f"order-{number}"
            )
        assert place.producer.flush(30) == 0
        place.produce("markup", MARKUP, MARKUP, [(MARKUP, MARKUP.encode())])
        yield place


@pytest.fixture(scope="module")
def page(place: Place) -> Iterator[Page]:
    with chromium() as browser, opened(browser, place.of("orders")) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield page


def rows(page: Page):  # type: ignore[no-untyped-def]
    return page.locator("table.messages tbody tr")


def test_the_newest_messages_are_shown_page_by_page(page: Page, place: Place) -> None:
    page.goto(place.of("orders"))
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="Older").click()
    expect(rows(page)).to_have_count(ORDERS - 50)
    assert_accessible(page)


def test_typed_text_searches_by_itself_and_says_how_far_it_looked(page: Page, place: Place) -> None:
    page.goto(place.of("orders"))
    expect(rows(page)).to_have_count(50)
    page.get_by_label("Find").fill("OPEN")
    expect(rows(page)).to_have_count(ORDERS // 10)
    expect(page.get_by_text("Every record up to the end was looked at.")).to_be_visible()
    expect(page.get_by_text(re.compile(rf"100 % of {ORDERS} offsets in 3 partitions"))).to_be_visible()
    expect(page).to_have_url(re.compile("find=OPEN"))
    page.get_by_text("Each partition", exact=True).click()
    expect(page.get_by_role("cell", name="done", exact=True)).to_have_count(3)
    assert_accessible(page)
    screenshot(page, "search")


def test_conditions_are_combined_and_can_be_sent_as_a_link(page: Page, place: Place) -> None:
    page.goto(place.of("orders"))
    page.get_by_role("button", name="Add a condition").click()
    condition = page.get_by_role("group", name="Condition 1")
    condition.get_by_label("What is looked at").select_option("JSON field of the value")
    condition.get_by_label("Path, such as order.id").fill("id")
    condition.get_by_label("How", exact=True).select_option("is")
    condition.get_by_label("Text").fill("17")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("order-17")
    page.reload()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("group", name="Condition 1").get_by_label("Text")).to_have_value("17")
    page.get_by_role("button", name="Remove condition 1").click()
    expect(rows(page)).to_have_count(50)


def test_a_wrong_condition_is_told(page: Page, place: Place) -> None:
    page.goto(place.of("orders", f"?where={quote('value:matches:(')}"))
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Begin again")).to_be_visible()


def test_new_messages_appear_while_it_follows_also_with_a_condition(page: Page, place: Place) -> None:
    page.goto(place.of("live"))
    page.get_by_role("switch", name="Follow live").check()
    expect(page.get_by_text("Following.")).to_be_visible()
    place.produce("live", "first")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Find").fill("second")
    expect(rows(page)).to_have_count(0)
    expect(page.get_by_text("Following.")).to_be_visible()
    place.produce("live", "not this one")
    place.produce("live", "the second")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("switch", name="Follow live").uncheck()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_text("Every record up to the end was looked at.")).to_be_visible()


def test_one_message_has_an_address_and_every_form(page: Page, place: Place) -> None:
    page.goto(place.of("orders", "?find=order-17"))
    rows(page).get_by_role("link").click()
    message = page.get_by_role("complementary")
    expect(message.get_by_role("heading", level=2)).to_be_focused()
    expect(message.get_by_label("Value").locator("pre")).to_contain_text('"state": "paid"')
    message.get_by_role("group", name="Value as").get_by_role("button", name="Hex").click()
    expect(message.get_by_label("Value").locator("pre")).to_contain_text("7b226964223a203137")
    page.reload()
    expect(message.get_by_label("Key").locator("pre")).to_have_text("order-17")
    assert_accessible(page)
    screenshot(page, "message")
    message.get_by_role("heading", level=2).focus()
    page.keyboard.press("Escape")
    expect(message).to_have_count(0)
    expect(rows(page).get_by_role("link")).to_be_focused()


def test_a_message_is_produced_and_sent_again(page: Page, place: Place) -> None:
    page.goto(place.of("written"))
    page.get_by_role("button", name="Produce…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key as").select_option("Text")
    dialog.get_by_label("Key", exact=True).fill("k")
    dialog.get_by_label("Value", exact=True).fill("v")
    dialog.get_by_role("button", name="Add a header").click()
    dialog.get_by_label("Name of header 1").fill("source")
    dialog.get_by_label("Value of header 1").fill("page")
    assert_accessible(page)
    dialog.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("Written to written, partition 0, offset 0.")).to_be_visible()
    page.goto(place.of("written", "?record=0-0"))
    page.get_by_role("button", name="Send again…").click()
    page.get_by_role("dialog").get_by_role("button", name="Send again", exact=True).click()
    expect(page.get_by_text("Written to written, partition 0, offset 1.")).to_be_visible()
    page.goto(place.of("written", "?record=0-1"))
    expect(page.get_by_role("complementary").get_by_role("row", name="source")).to_contain_text("page")


def test_an_empty_topic_says_the_next_command(page: Page, place: Place) -> None:
    page.goto(place.of("empty"))
    expect(page.get_by_text("barnabas produce empty")).to_be_visible()


def test_markup_in_a_message_is_text(page: Page, place: Place) -> None:
    page.goto(place.of("markup", "?record=0-0"))
    expect(rows(page)).to_contain_text(MARKUP)
    expect(page.get_by_role("complementary").get_by_role("rowheader")).to_have_text(MARKUP)
    page.goto(place.of("markup", f"?find={quote(MARKUP)}"))
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_title("Messages of markup · Barnabas")
    assert page.locator("main img, main script").count() == 0


def test_messages_are_downloaded(page: Page, place: Place) -> None:
    page.goto(place.of("orders", "?find=order-17"))
    with page.expect_download() as started:
        page.get_by_role("link", name="Download what fits as JSON lines").click()
    assert '"order-17"' in started.value.path().read_text()
