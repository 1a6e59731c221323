"""Groups, access, transactions, replicas, features and health in a browser: what is shown, and every change by its dialog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Locator, Page, expect

from tests.differential.hanging_transaction import hang
from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.browser.clusters import BOTH_KINDS, apache_kafka
from tests.web.running import WRITES, running_web

pytestmark = [needs_chromium, pytest.mark.timeout(180)]
TIMEOUT_S = 30
HOSTILE = "<img src=x onerror=alert(1)>/&"
AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
TOPICS = {"orders": 2, "payments": 1}
HANGS = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module", params=BOTH_KINDS)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    with request.param(TOPICS, AUTHORIZER | HANGS, brokers=2) as servers:
        producer = Producer({"bootstrap.servers": servers})
        for number in range(10):
            producer.produce("orders", b"value", partition=number % 2)
        assert producer.flush(TIMEOUT_S) == 0
        yield servers


@pytest.fixture(scope="module")
def url(servers: str) -> Iterator[str]:
    with running_web(servers, WRITES) as web:
        yield f"{web.url}/ui"


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Page]:
    with chromium() as browser, opened(browser, f"{url}/health") as page:
        yield page


def seen(page: Page, url: str, heading: str, name: str) -> None:
    """Go there, wait until the data are shown, look at it as axe does, and keep a picture."""
    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page.get_by_text("Loading…")).to_have_count(0)
    assert_accessible(page)
    screenshot(page, name)


def dialog(page: Page, button: str) -> Locator:
    page.get_by_role("button", name=button).first.click()
    return page.get_by_role("dialog")


def test_a_group_is_followed_reset_and_deleted(page: Page, url: str, servers: str) -> None:
    settings = {"group.id": HOSTILE, "client.id": HOSTILE, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with closing(Consumer({"bootstrap.servers": servers, **settings})) as consumer:
        consumer.subscribe(["orders"])
        consumer.consume(10, TIMEOUT_S)
        consumer.commit(offsets=[TopicPartition("orders", index, 2) for index in range(2)], asynchronous=False)
        seen(page, f"{url}/groups", "Groups", "groups")
        page.get_by_role("link", name=HOSTILE).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Group {HOSTILE}")
        expect(page.get_by_text("Stable")).to_be_visible()
        expect(page.get_by_role("region", name="Members of group")).to_contain_text("orders-0, orders-1")
        lag = page.locator("dl.facts")
        expect(lag).to_contain_text("Lag6")
        consumer.commit(asynchronous=False)
        expect(lag).to_contain_text("Lag0")
        assert_accessible(page)
        screenshot(page, "group")
    expect(page.get_by_text("This group has no members now.")).to_be_visible()
    box = dialog(page, "Set offsets…")
    box.get_by_role("combobox", name="To").select_option("offset")
    box.get_by_role("spinbutton", name="Offset").fill("3")
    box.get_by_role("button", name="Show what changes").click()
    expect(box.get_by_role("region", name="What changes")).to_contain_text("orders-1")
    assert_accessible(page)
    box.get_by_role("button", name="Set these offsets").click()
    expect(lag).to_contain_text("Lag4")
    box = dialog(page, "Delete the group…")
    expect(box.get_by_role("button", name="Delete the group")).to_be_disabled()
    box.get_by_role("textbox").fill(HOSTILE)
    box.get_by_role("button", name="Delete the group").click()
    expect(page.get_by_text("There are no groups yet.")).to_be_visible()


def test_users_acls_and_quotas_are_made_and_removed(page: Page, url: str) -> None:
    seen(page, f"{url}/users", "Users", "users")
    expect(page.get_by_text("No user has SCRAM credentials.")).to_be_visible()
    box = dialog(page, "Add a user…")
    box.get_by_label("Name").fill("alice")
    box.get_by_label("Password").fill("a secret")
    assert_accessible(page)
    box.get_by_role("button", name="Add the user").click()
    expect(page.get_by_role("cell", name="alice", exact=True)).to_be_visible()
    box = dialog(page, "Delete alice")
    box.get_by_role("textbox").fill("alice")
    box.get_by_role("button", name="Delete the user").click()
    expect(page.get_by_text("No user has SCRAM credentials.")).to_be_visible()

    page.goto(f"{url}/acls")
    box = dialog(page, "Add an ACL…")
    box.get_by_label("Principal").fill("User:<b>bob</b>")
    box.get_by_label("Name", exact=False).first.fill("orders")
    box.get_by_label("Operation").select_option("WRITE")
    expect(box).to_contain_text("ALLOW User:<b>bob</b> WRITE on TOPIC orders")
    box.get_by_role("button", name="Add the ACL").click()
    expect(page.get_by_role("cell", name="User:<b>bob</b>", exact=True)).to_be_visible()
    seen(page, f"{url}/acls", "ACLs", "acls")
    box = dialog(page, "Remove: ALLOW User:<b>bob</b> WRITE on TOPIC orders")
    box.get_by_role("button", name="Remove the ACL").click()
    expect(page.get_by_text("There are no ACLs.")).to_be_visible()

    page.goto(f"{url}/quotas")
    box = dialog(page, "Set a quota…")
    box.get_by_label("User name").fill("alice")
    box.get_by_label("Limit").fill("10M")
    box.get_by_role("button", name="Set the quota").click()
    expect(page.get_by_role("cell", name="10.0 MiB/s")).to_be_visible()
    seen(page, f"{url}/quotas", "Quotas", "quotas")
    box = dialog(page, "Remove producer_byte_rate of User alice")
    box.get_by_role("button", name="Remove the quota").click()
    expect(page.get_by_text("Nobody has a quota.")).to_be_visible()


def test_transactions_are_shown_and_those_that_hang_are_looked_for(page: Page, url: str, servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": HOSTILE})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("payments", b"value", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    seen(page, f"{url}/transactions?open=true", "Transactions", "transactions")
    row = page.get_by_role("row").filter(has_text=HOSTILE)
    expect(row).to_contain_text("Ongoing")
    expect(row).to_contain_text("payments-0")
    page.get_by_role("button", name="Find them").click()
    expect(page.get_by_text("No transaction hangs.")).to_be_visible()
    leader = AdminClient({"bootstrap.servers": servers}).list_topics("payments").topics["payments"].partitions[0].leader
    hang(servers.split(",")[leader], "payments")
    page.get_by_role("button", name="Find them").click()
    box = dialog(page, "Abort…")
    box.get_by_role("button", name="Abort it").click()
    expect(page.get_by_text("No transaction hangs.")).to_be_visible()
    producer.abort_transaction(TIMEOUT_S)
    expect(page.get_by_text("No transaction is open.")).to_be_visible()


def test_replicas_move_by_a_plan_and_back_by_a_balance(page: Page, url: str) -> None:
    seen(page, f"{url}/replicas", "Replicas", "replicas")
    box = dialog(page, "Move replicas…")
    box.get_by_label("Topics").fill("orders")
    box.get_by_label("Brokers that may have replicas").fill("0")
    box.get_by_label("Replicas of each partition").fill("1")
    box.get_by_label("Throttle").fill("10M")
    box.get_by_role("button", name="Show the plan").click()
    expect(box.get_by_role("region", name="The plan")).to_contain_text("orders-")
    assert_accessible(page)
    box.get_by_role("button", name="Begin to move").click()
    expect(page.get_by_text("Nothing is being moved.")).to_be_visible()
    dialog(page, "Remove throttles…").get_by_role("button", name="Remove the throttles").click()
    expect(page.get_by_text("throttles are removed from brokers 0,1")).to_be_visible()

    page.goto(f"{url}/balance")
    page.get_by_label("Move only topics").fill("orders")
    page.get_by_label("Measure for, in seconds").fill("0")
    page.get_by_role("button", name="Make a plan").click()
    expect(page.get_by_role("region", name="The plan").last).to_contain_text("orders-")
    seen_plan = page.get_by_text("1 partition to change")
    expect(seen_plan).to_be_visible()
    assert_accessible(page)
    screenshot(page, "balance")
    box = dialog(page, "Carry it out…")
    box.get_by_label("Throttle").fill("10M")
    box.get_by_role("button", name="Begin to move").click()
    expect(page.get_by_text("1 of 1 partitions are moved")).to_be_visible()
    expect(page.locator(".tag", has_text="done")).to_be_visible()
    assert_accessible(page)


def test_features_and_health_are_told(page: Page, url: str, request: pytest.FixtureRequest) -> None:
    seen(page, f"{url}/features", "Features", "features")
    if apache_kafka in request.node.callspec.params.values():
        expect(page.get_by_text("The brokers tell no features.")).to_be_visible()
    else:
        lower_a_level(page)
    seen(page, f"{url}/health", "Health", "health")
    expect(page.locator(".health-state")).to_contain_text("healthy")
    expect(page.get_by_role("button", name="Check again")).to_be_enabled()


def lower_a_level(page: Page) -> None:
    expect(page.get_by_role("cell", name="group.version", exact=True)).to_be_visible()
    box = dialog(page, "Change group.version")
    box.get_by_label("Level").fill("0")
    box.get_by_role("button", name="Set the level").click()
    expect(page.get_by_role("row").filter(has_text="group.version")).to_contain_text("0 to 1")
