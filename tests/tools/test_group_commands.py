"""Groups whose names have commas, and offsets outside of the log, on a broker of ours (and of Apache Kafka, in tests/interop).

The numbers are what kafka-consumer-groups.sh 3.9.1 shows and writes for the same commits.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.embedded import EmbeddedBroker
from tests.tools.test_commands import Tool, broker, ok, tool, write

__all__ = ["broker", "tool"]


def commit(broker: EmbeddedBroker, group: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]
    admin.alter_consumer_group_offsets(asked)[group].result(60)


def committed(tool: Tool, group: str) -> int | None:
    run = tool("groups", "describe", group, "--json")
    offset: int | None = run.json["partitions"][0]["current_offset"] if run.code == 0 else None
    return offset


@pytest.mark.parametrize("named", [("c,d",), ("--group", "c,d")])
def test_a_name_with_a_comma_is_one_group(tool: Tool, broker: EmbeddedBroker, named: tuple[str, ...]) -> None:
    ok(tool("topics", "create", "commas", "--if-not-exists"))
    write(tool, "commas", ["0"] * 10)
    for group, offset in (("c", 3), ("d", 4), ("c,d", 5)):
        commit(broker, group, "commas", offset)
    ok(tool("groups", "reset", *named, "--topic", "commas", "--to-earliest", "--execute"))
    assert [committed(tool, group) for group in ("c", "d", "c,d")] == [3, 4, 0]
    ok(tool("groups", "delete", *named, "--execute"))
    assert [committed(tool, group) for group in ("c", "d", "c,d")] == [3, 4, None]


def test_a_transactional_id_with_a_comma_is_one(tool: Tool, broker: EmbeddedBroker) -> None:
    Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t,u"}).init_transactions()
    [row] = ok(tool("transactions", "describe", "--transactional-id", "t,u", "--json")).json
    assert row["transactional_id"] == "t,u"


def test_what_is_committed_is_kept_and_shown_as_it_is(tool: Tool, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Also where the log has no such offset any more, or not yet."""
    ok(tool("topics", "create", "outside"))
    write(tool, "outside", ["0"] * 10)
    ok(tool("records", "delete", "outside", "--before-offset", "6", "--execute"))
    for group, offset, lag in (("ahead", 500, -490), ("late", 2, 8)):
        commit(broker, group, "outside", offset)
        described = ok(tool("groups", "describe", group, "--json")).json
        assert (described["partitions"][0]["lag"], described["total_lag"]) == (lag, max(lag, 0))
        kept = ok(tool("groups", "reset", group, "--all-topics", "--to-current", "--export"))
        assert kept.out == f"outside,0,{offset}\n"
        ok(tool("groups", "reset", group, "--topic", "outside", "--to-current", "--execute"))
        assert committed(tool, group) == offset
        # What is asked for becomes the nearest that there is, and this is told.
        (tmp_path / "kept.csv").write_text(kept.out)
        taken_back = ok(tool("groups", "reset", group, "--from-file", str(tmp_path / "kept.csv"), "--json"))
        nearest = min(max(offset, 6), 10)
        assert taken_back.json[0]["new_offset"] == nearest
        assert f"outside-0: {nearest} instead of {offset}" in taken_back.err
    shifted = ok(tool("groups", "reset", "late", "--topic", "outside", "--shift-by", "1"))
    assert "outside-0: 6 instead of 3" in shifted.err


def test_a_partition_without_a_commit_is_kept_at_its_end(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "half", "--partitions", "2"))
    write(tool, "half", ["0"] * 3, "--partition", "1")
    commit(broker, "halves", "half", 7)
    kept = ok(tool("groups", "reset", "halves", "--topic", "half", "--to-current", "--export"))
    assert kept.out == "half,0,7\nhalf,1,3\n"


def test_what_was_deleted_is_no_lag_for_the_health_of_a_cluster(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "emptied"))
    write(tool, "emptied", ["0"] * 10)
    commit(broker, "left-behind", "emptied", 3)

    def causes() -> list[str]:
        problems = ok(tool("cluster", "health", "--json")).json["problems"]
        return [each["cause"] for each in problems if each["subject"] == "group left-behind"]

    assert "its lag is 7" in causes()[0]
    ok(tool("records", "delete", "emptied", "--before-offset", "8", "--execute"))
    assert "its lag is 7, of which 2 are still there" in causes()[0]
    ok(tool("records", "delete", "emptied", "--all", "--execute"))
    assert causes() == []
    assert ok(tool("groups", "describe", "left-behind", "--json")).json["total_lag"] == 7
