"""What happens to the cluster under an open page: it says so in plain words, keeps what it has shown, and recovers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, expect

from barnabas.embedded import EmbeddedBroker
from client.admin import acls as acl_steps
from client.admin import topics as topic_steps
from client.admin.acls import AclWords
from client.admin.brokers import checked
from client.blocking.cluster_client import ClusterClient
from client.settings.parsing import parse_client
from protocol.messages.create_topics import CreatableTopic
from tests.interop.conftest import need_java
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port
from tests.web.access.secured import ACLS, SETTINGS, USERS
from tests.web.browser.chromium import assert_accessible, chromium, needs_chromium, opened, screenshot
from tests.web.running import running_web

pytestmark = [pytest.mark.interop, needs_chromium, pytest.mark.timeout(240)]
OFTEN = {"barnabas.web.history.interval.ms": "200"}
PATIENCE_MS = 30_000
LIMIT_MS = 30_000
RIGHT = AclWords("topic", "orders", "literal", "User:alice", "*", "describe", "allow")


@dataclass
class Cluster:
    """One broker, on which alice may describe the topic "orders". `servers` are for users who log in, `administration` are a
    client's settings of who may do everything."""

    servers: str
    administration: Mapping[str, str]
    kill: Callable[[], None]
    restart: Callable[[], None]


@contextmanager
def barnabas() -> Iterator[Cluster]:
    with EmbeddedBroker(["orders", "secrets"], security="sasl_plaintext", users=USERS, acls=ACLS) as broker:
        yield Cluster(broker.bootstrap_servers, broker.client_settings(), broker.kill, broker.restart)


@contextmanager
def apache_kafka() -> Iterator[Cluster]:
    plain, secured = lasting_port(), lasting_port()
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_alice="{USERS["alice"]}";',
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with ApacheKafka(settings, port=plain) as kafka:
        administration = {"bootstrap.servers": f"127.0.0.1:{plain}"}
        with ClusterClient(parse_client(administration)) as cluster:
            create_topic(cluster)
            cluster.run(acl_steps.create([RIGHT]))
        yield Cluster(f"127.0.0.1:{secured}", administration, kafka.kill, kafka.start)


def create_topic(cluster: ClusterClient) -> None:
    wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    checked(cluster.run(topic_steps.create({"orders": wanted}, LIMIT_MS, validate_only=False)))


@dataclass
class World:
    cluster: Cluster
    page: Page

    def administration(self) -> ClusterClient:
        return ClusterClient(parse_client(self.cluster.administration))

    @property
    def last_hour(self) -> Locator:
        return self.page.get_by_role("region", name="The last hour")

    def look_again(self) -> None:
        """Have the page ask at once, as when its reader comes back to it."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Alice, who may describe one topic, has its view open."""
    if request.param == "kafka":
        need_java()
    with (
        (apache_kafka if request.param == "kafka" else barnabas)() as cluster,
        running_web(cluster.servers, {**SETTINGS, **OFTEN}) as web,
        chromium() as browser,
        opened(browser, f"{web.url}/ui/topics/orders") as page,
    ):
        page.get_by_label("User").fill("alice")
        page.get_by_label("Password").fill(USERS["alice"])
        page.get_by_role("button", name="Log in").click()
        world = World(cluster, page)
        expect_plot(world)
        yield world


def expect_plot(world: World) -> None:
    """The plot is there, and nothing is wrong."""
    expect(world.last_hour.get_by_role("img")).to_be_visible(timeout=PATIENCE_MS)
    expect(world.last_hour.get_by_role("alert")).to_have_count(0, timeout=PATIENCE_MS)


def test_a_broker_is_killed_and_comes_back(world: World) -> None:
    world.cluster.kill()
    world.look_again()
    alert = world.last_hour.get_by_role("alert")
    expect(alert).to_contain_text("Not reached since", timeout=PATIENCE_MS)
    expect(alert).to_contain_text("No broker answers")
    expect(world.last_hour.get_by_role("img")).to_be_visible()
    assert_accessible(world.page)
    screenshot(world.page, "broker-killed")
    world.cluster.restart()
    expect_plot(world)


def test_rights_are_taken_away_and_given_back(world: World) -> None:
    with world.administration() as cluster:
        assert cluster.run(acl_steps.delete(RIGHT)) == [RIGHT]
    world.look_again()
    alert = world.last_hour.get_by_role("alert")
    expect(alert).to_contain_text("Topic authorization failed", timeout=PATIENCE_MS)
    screenshot(world.page, "rights-taken")
    with world.administration() as cluster:
        cluster.run(acl_steps.create([RIGHT]))
    world.look_again()
    expect_plot(world)


def test_a_topic_is_deleted_and_made_again(world: World) -> None:
    with world.administration() as cluster:
        checked(cluster.run(topic_steps.delete(["orders"], LIMIT_MS)))
    world.look_again()
    alert = world.last_hour.get_by_role("alert")
    expect(alert).to_contain_text("does not host this topic", timeout=PATIENCE_MS)
    screenshot(world.page, "topic-deleted")
    with world.administration() as cluster:
        create_topic(cluster)
    world.look_again()
    expect_plot(world)
