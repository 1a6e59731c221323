"""The command line tools of Apache Kafka 4.3.0: groups of the consumer protocol, settings of groups, transactions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.conftest import need_java
from tests.interop.groups.members import CONSUMER, Group, LibrdkafkaConsumer
from tests.oracle import java
from tests.oracle.process import wait_until
from tests.oracle.tools import ToolsJvm

pytestmark = [pytest.mark.interop, pytest.mark.oracle]

Fresh = Callable[[str], str]
Run = Callable[..., list[list[str]]]
"""Runs a tool with arguments; the words of each line."""


@pytest.fixture(scope="module")
def tools_jvm() -> Iterator[ToolsJvm]:
    need_java()
    with ToolsJvm(java.KRAFT_MODE) as jvm:
        yield jvm


@pytest.fixture
def tool(newer: str, tools_jvm: ToolsJvm) -> Run:
    def run(name: str, *arguments: str) -> list[list[str]]:
        output = tools_jvm.run(name, "--bootstrap-server", newer, *arguments)
        return [line.split() for line in output.splitlines() if line.strip()]

    return run


def topic_with_records(bootstrap: str, topic: str) -> str:
    """Two partitions, ten records in each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    return topic


def row_of(rows: list[list[str]], *words: str) -> list[str]:
    """The row that begins with the words."""
    (found,) = [row for row in rows if row[: len(words)] == list(words)]
    return found


def test_a_group_from_its_members_to_its_deletion(newer: str, fresh: Fresh, tool: Run) -> None:
    topic, name = topic_with_records(newer, fresh("t")), fresh("g")
    group = Group(name, 2, lambda protocol: LibrdkafkaConsumer(newer, name, topic, protocol, **{"client.id": "c"}))
    of_group = ("consumer-groups", "--group", name)
    with group:
        group.join(CONSUMER)
        group.wait_until_read(range(20))
        group.wait_until_shared()
        state = row_of(tool(*of_group, "--describe", "--state"), name)
        assert state[2:] == ["(0)", "uniform", "Stable", "1"]
        verbose = row_of(tool(*of_group, "--describe", "--state", "--verbose"), name)
        assert verbose[2:5] == ["(0)", "uniform", "Stable"] and verbose[5] == verbose[6] and verbose[-1] == "1"
        member = row_of(tool(*of_group, "--describe", "--members", "--verbose"), name)
        assert "c" in member and f"{topic}:0,1" in member
        listed = tool("consumer-groups", "--list", "--type", "consumer", "--state")
        assert row_of(listed, name) == [name, "Consumer", "Stable"]
        assert row_of(tool("groups", "--list"), name) == [name, "Consumer", "consumer"]
        assert row_of(tool("groups", "--list", "--group-type", "consumer"), name)
        assert not [row for row in tool("groups", "--list", "--group-type", "classic") if row[0] == name]
    offsets = tool(*of_group, "--describe")
    assert [row_of(offsets, name, topic, str(partition))[3:6] for partition in range(2)] == [["10", "10", "0"]] * 2
    assert row_of(tool(*of_group, "--describe", "--state"), name)[-2:] == ["Empty", "0"]
    reset = tool(*of_group, "--reset-offsets", "--topic", topic, "--to-offset", "3", "--execute")
    assert [row_of(reset, name, topic, str(partition))[3] for partition in range(2)] == ["3", "3"]
    tool(*of_group, "--delete-offsets", "--topic", f"{topic}:1")
    assert row_of(tool(*of_group, "--describe"), name, topic, "0")[3:6] == ["3", "10", "7"]
    assert not [row for row in tool(*of_group, "--describe") if row[:3] == [name, topic, "1"]]
    tool(*of_group, "--delete")
    assert not [row for row in tool("groups", "--list") if row[0] == name]


def test_settings_of_a_group(fresh: Fresh, tool: Run) -> None:
    name = fresh("g")
    of_group = ("configs", "--entity-type", "groups", "--entity-name", name)
    tool(*of_group, "--alter", "--add-config", "consumer.session.timeout.ms=5000,consumer.heartbeat.interval.ms=500")
    described = " ".join(word for row in tool(*of_group, "--describe") for word in row)
    assert set(re.findall(r"(consumer\.\S+)=(\d+) sensitive", described)) >= {
        ("consumer.session.timeout.ms", "5000"),
        ("consumer.heartbeat.interval.ms", "500"),
    }
    tool(*of_group, "--alter", "--delete-config", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    described = " ".join(word for row in tool(*of_group, "--describe") for word in row)
    assert "consumer.session.timeout.ms=5000" not in described


def test_subscriptions_of_client_metrics(fresh: Fresh, tool: Run) -> None:
    name = fresh("s")
    change = (
        "--metrics",
        "org.a.,org.b.",
        "--interval",
        "1000",
        "--match",
        f"client_id={name},client_software_name=.*",
    )
    tool("client-metrics", "--alter", "--name", name, *change)
    assert [name] in tool("client-metrics", "--list")
    described = {word for row in tool("client-metrics", "--describe", "--name", name) for word in row}
    assert {"interval.ms=1000", "metrics=org.a.,org.b.", f"match=client_id={name},client_software_name=.*"} <= described
    of_name = ("configs", "--entity-type", "client-metrics", "--entity-name", name)
    tool(*of_name, "--alter", "--add-config", "interval.ms=2000,metrics=[org.c.]", "--delete-config", "match")
    described = {word for row in tool(*of_name, "--describe") for word in row}
    assert {"interval.ms=2000", "metrics=org.c."} <= described
    assert f"match=client_id={name},client_software_name=.*" not in described
    tool("client-metrics", "--delete", "--name", name)
    assert [name] not in tool("client-metrics", "--list")


@pytest.mark.long
def test_transactions(newer: str, fresh: Fresh, tool: Run) -> None:
    topic, transactional_id = topic_with_records(newer, fresh("t")), fresh("tx")
    producer = Producer({"bootstrap.servers": newer, "transactional.id": transactional_id})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush(60)
    assert row_of(tool("transactions", "list"), transactional_id)[-1] == "Ongoing"
    described = tool("transactions", "describe", "--transactional-id", transactional_id)
    assert [row for row in described if transactional_id in row and "Ongoing" in row and f"{topic}-0" in row]
    producers = tool("transactions", "describe-producers", "--topic", topic, "--partition", "0")
    assert len(producers) >= 2 and producers[0][0] == "ProducerId"
    producer.commit_transaction(60)
    is_complete = wait_until(lambda: row_of(tool("transactions", "list"), transactional_id)[-1] == "CompleteCommit", 60)
    assert is_complete
