"""Options that the kafka-*.sh tools have, on commands that do the same: each from its arguments to what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from client.admin.groups import MemberName
from protocol.errors import ErrorCode, KafkaError
from runtime.command_line.failure import Failure
from tests.tools.test_commands import Run, Tool, broker, ok, secured, tool, write
from tools.cluster import Cluster
from tools.commands import groups

__all__ = ["broker", "secured", "tool"]

PATIENCE_S = 60


def test_a_topic_may_be_named_by_its_option(tool: Tool) -> None:
    assert ok(tool("topics", "create", "--topic", "by-option", "--partitions", "1")).lines == ["by-option: created"]
    write(tool, "--topic", ["one"], "by-option")
    assert ok(tool("consume", "--topic", "by-option", "--offset", "earliest", "--max-messages", "1")).lines == ["one"]
    assert ok(tool("topics", "list", "--topic", "by-opt.*")).lines == ["by-option"]
    assert len(ok(tool("topics", "describe", "--topic", "by-option,by-option", "--json")).json) == 1
    assert tool("consume", "by-option", "--topic", "by-option").code == 2
    assert "name one topic" in tool("consume").err
    assert tool("topics", "delete").code == 2


def test_empty_names_are_refused(tool: Tool) -> None:
    for command in (("topics", "describe", ""), ("consume", "--topic", ""), ("groups", "describe", "a", ""),
                    ("configs", "describe", "--topic", ""), ("topics", "delete", "--topic", "a,")):  # fmt: skip
        run = tool(*command)
        assert (run.code, " is empty" in run.err) == (2, True), command
    assert "the name of a topic is empty" in tool("partitions", "elect", "--topic", "").err


def test_topics_are_described_as_asked(tool: Tool) -> None:
    ok(tool("topics", "create", "described-a", "described-b"))
    ok(tool("configs", "alter", "--topic", "described-b", "--add-config", "retention.ms=5000"))
    rows = ok(tool("topics", "describe", "described-.*", "--topics-with-overrides", "--json")).json
    assert [row["topic"] for row in rows if "retention.ms" in row["configs"]] == ["described-b"]
    assert rows[-1]["configs"] == {"retention.ms": "5000"}
    [listed] = ok(tool("topics", "list", "described-b", "--json")).json
    [row] = ok(tool("topics", "describe", "--topic-id", listed["topic_id"], "--json")).json
    assert row["topic"] == "described-b"
    assert ok(tool("topics", "describe", "none", "--if-exists", "--json")).json == []
    assert [row["topic"] for row in ok(tool("topics", "list", r"described-[\p{Lower}&&[^a]]", "--json")).json] == [
        "described-b"
    ]
    assert "no regular expression" in tool("topics", "list", "a(").err


def test_offsets_are_shown_of_many_topics(tool: Tool) -> None:
    ok(tool("topics", "create", "ends-a", "ends-b", "--partitions", "2"))
    records = [{"value": "x", "timestamp": at, "partition": 1} for at in (3_000, 9_000, 6_000)]
    ok(tool("produce", "ends-a", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()))
    chosen = ok(tool("topics", "offsets", "--topic-partitions", "ends-a:1,ends-b", "--time", "-3", "--json")).json
    assert [(row["topic"], row["partition"], row["end_offset"], row["youngest_offset"]) for row in chosen] == [
        ("ends-a", 1, 3, 1), ("ends-b", 0, 0, None), ("ends-b", 1, 0, None),
    ]  # fmt: skip
    found = ok(tool("topics", "offsets", "--exclude-internal-topics", "--json")).json
    assert {("ends-a", 0), ("ends-b", 1)} <= {(row["topic"], row["partition"]) for row in found}
    assert not any(row["topic"].startswith("__") for row in found)


def test_new_partitions_may_have_brokers(tool: Tool) -> None:
    ok(tool("topics", "create", "assigned", "--partitions", "1"))
    ok(tool("topics", "alter", "--topic", "assigned", "--partitions", "3", "--replica-assignment", "0,0,0"))
    assert len(ok(tool("topics", "describe", "assigned", "--json")).json) == 3
    assert tool("topics", "alter", "assigned", "--partitions", "4", "--replica-assignment", "0").code == 2
    ok(tool("topics", "alter", "none", "--partitions", "4", "--if-exists"))


def test_lines_are_parsed_and_printed_as_the_console_tools_do(tool: Tool) -> None:
    ok(tool("topics", "create", "console"))
    parsed = ("--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=NULL")
    options = (*parsed, "--sync", "--request-required-acks", "-1", "--compression-codec")
    ok(tool("produce", "--topic", "console", *options, stdin=b"h:1,i:2\tk\tv\nNULL\tNULL\tNULL\n"))
    printed = [option for name in ("offset", "key", "headers") for option in ("--property", f"print.{name}=true")]
    run = ok(
        tool("consume", "--topic", "console", "--partition", "0", "--offset", "0", "--max-messages", "2", *printed)
    )
    assert run.lines == ["Offset:0\th:1,i:2\tk\tv", "Offset:1\tNO_HEADERS\tnull\tnull"]
    assert tool("produce", "console", "--property", "parse.keys=true", stdin=b"x\n").code == 2
    assert tool("consume", "console", "--offset", "end").code == 2


def test_a_record_that_is_no_number_can_be_skipped(tool: Tool) -> None:
    ok(tool("topics", "create", "skipped"))
    write(tool, "skipped", ["7"], "--value-serializer", "long")
    write(tool, "skipped", ["no number"])
    number = ("--property", "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer")
    assert tool("consume", "skipped", "--until-end", *number).code == 1
    run = ok(tool("consume", "skipped", "--until-end", *number, "--skip-message-on-error"))
    assert run.lines == ["7"]
    assert "skipped: the record of skipped-0 at offset 1 cannot be shown" in run.err


def test_the_last_records_are_records_and_not_markers(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "last"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "last"})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.produce("last", str(number))
        producer.flush()
        producer.commit_transaction() if number < 3 else producer.abort_transaction()
    assert ok(tool("consume", "last", "--last", "1")).lines == ["2"]
    assert ok(tool("consume", "last", "--last", "2")).lines == ["1", "2"]
    assert ok(tool("consume", "last", "--last", "50")).lines == ["0", "1", "2"]


def test_what_an_open_transaction_hides_is_told(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "hidden"))
    write(tool, "hidden", ["before"])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "hiding"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("hidden", "open")
    producer.flush()
    for command in (("find", "hidden", "--value-contains", "e"), ("consume", "hidden", "--until-end"),
                    ("consume", "hidden", "--last", "5")):  # fmt: skip
        run = ok(tool(*command, "--json"))
        assert [json.loads(line)["value"] for line in run.lines] == ["before"]
        assert "1 offset of hidden-0" in run.err and "--isolation-level read_uncommitted" in run.err
    run = ok(tool("find", "hidden", "--value-contains", "e", "--isolation-level", "read_uncommitted", "--format", "%v"))
    assert run.lines == ["before", "open"]
    producer.abort_transaction()


def test_a_search_by_time_takes_no_record_of_another_time(tool: Tool) -> None:
    """Timestamps are the producers' and need not grow."""
    ok(tool("topics", "create", "unordered"))
    records = [{"value": f"v{at}", "timestamp": at} for at in (1_000, 5_000, 2_000, 6_000, 3_000)]
    ok(tool("produce", "unordered", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()))
    options = ("--value-contains", "v", "--format", "%v")
    assert ok(tool("find", "unordered", *options, "--from-time", "3000")).lines == ["v5000", "v6000", "v3000"]
    run = ok(tool("find", "unordered", *options, "--from-time", "1500", "--until-time", "5500"))
    assert run.lines == ["v5000", "v2000"]
    assert "to the first one since 5500 in each of 1 partition" in run.err


def test_an_offset_that_is_not_there_is_told(tool: Tool) -> None:
    ok(tool("topics", "create", "short"))
    write(tool, "short", ["0", "1", "2"])
    run = tool("consume", "short", "--offset", "7")
    assert run.code == 1
    assert "short-0 has no offset 7: it ends at 3" in run.err
    ok(tool("records", "delete", "short", "--before-offset", "2", "--execute"))
    for end in (("--until-end",), ("--max-messages", "1")):
        run = ok(tool("consume", "short", "--offset", "1", *end))
        assert (run.lines, "1 of short-0" in run.err) == (["2"], True)
    assert "to the end of 1 partition" in ok(tool("find", "short", "--key", "k", "--from-offset", "9")).err


def test_a_topic_that_nobody_creates_is_missing_at_once(tool: Tool) -> None:
    run = tool("produce", "never-there", stdin=b"x\n")
    assert run.code == 1
    assert "UNKNOWN_TOPIC_OR_PART" in run.err


def test_several_groups_are_described_and_reset(tool: Tool, tmp_path: Path) -> None:
    ok(tool("topics", "create", "several"))
    write(tool, "several", [str(number) for number in range(9)])
    for group, count in (("several-a", "3"), ("several-b", "5")):
        ok(tool("consume", "several", "--group", group, "--from-beginning", "--max-messages", count))
    both = ("--group", "several-a", "--group", "several-b")
    documents = ok(tool("groups", "describe", *both, "--json")).json
    assert [(each["group"], each["total_lag"]) for each in documents] == [("several-a", 6), ("several-b", 4)]
    table = ok(tool("groups", "describe", *both, "--state")).lines
    assert [line.split()[0] for line in table] == ["GROUP", "several-a", "several-b"]
    assert {"several-a", "several-b"} <= {
        each["group"] for each in ok(tool("groups", "describe", "--all-groups", "--json")).json
    }
    kept = ok(tool("groups", "reset", *both, "--all-topics", "--to-current", "--export", "--dry-run")).out
    assert kept.splitlines() == ["several-a,several,0,3", "several-b,several,0,5"]
    (tmp_path / "kept.csv").write_text(kept)
    ok(tool("groups", "reset", *both, "--topic", "several", "--shift-by", "-1", "--execute"))
    rows = ok(tool("groups", "reset", *both, "--from-file", str(tmp_path / "kept.csv"), "--execute", "--json")).json
    assert [(row["group"], row["current_offset"], row["new_offset"]) for row in rows] == [
        ("several-a", 2, 3), ("several-b", 4, 5),
    ]  # fmt: skip
    assert {"several-a"} <= {
        row["group"] for row in ok(tool("groups", "list", "--state", "Empty,Stable", "--json")).json
    }
    assert "nothing was deleted" in ok(tool("groups", "delete", "--all-groups")).err
    assert len(ok(tool("groups", "delete", *both, "--execute")).lines) == 2


def test_a_group_that_has_committed_nothing_is_not_reset(tool: Tool, tmp_path: Path) -> None:
    run = tool("groups", "reset", "never-there", "--all-topics", "--to-earliest", "--execute")
    assert (run.code, "has committed nothing" in run.err) == (1, True)
    (tmp_path / "large.csv").write_text(f"t,{2**31},3\n")
    run = tool("groups", "reset", "never-there", "--from-file", str(tmp_path / "large.csv"), "--execute")
    assert (run.code, "names partition 2147483648 of t" in run.err) == (1, True)
    (tmp_path / "others.csv").write_text("other,t,0,3\n")
    run = tool("groups", "reset", "never-there", "--from-file", str(tmp_path / "others.csv"), "--execute")
    assert (run.code, "has no offsets of group never-there" in run.err) == (1, True)


def test_members_are_removed_only_when_asked(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "left"))
    settings = {"group.id": "leaving", "group.instance.id": "static-1", "session.timeout.ms": 60_000}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", **settings})
    write(tool, "left", ["x"])
    try:
        consumer.subscribe(["left"])
        assert consumer.poll(PATIENCE_S) is not None
        shown = ok(tool("groups", "describe", "leaving", "--members", "--verbose"))
        assert "static-1" in shown.lines[1].split()
        ask = ("groups", "remove-members", "leaving", "--instance-id", "static-1")
        assert "nobody was removed" in ok(tool(*ask)).err
        [row] = ok(tool(*ask, "--execute", "--json")).json
        assert row["instance_id"] == "static-1"
        assert tool(*ask, "--execute").code == 1
    finally:
        consumer.close()
    assert tool("groups", "remove-members", "leaving").code == 2


def test_a_member_that_has_gone_meanwhile_is_told() -> None:
    refused = {MemberName("m-1", None): KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)}
    cluster = cast("Cluster", SimpleNamespace(run=lambda _steps: refused))
    with pytest.raises(Failure, match="m-1: UNKNOWN_MEMBER_ID"):
        groups._remove(cluster, "left", [{"member_id": "m-1", "instance_id": None}])


@pytest.mark.parametrize("option", ["--consumer.config", "--producer.config", "--admin.config"])
def test_the_file_of_a_client_has_the_names_of_the_tools(tool: Tool, tmp_path: Path, option: str) -> None:
    (tmp_path / "client.properties").write_text("security.protocol=NONE\n")
    run = tool("topics", "list", option, str(tmp_path / "client.properties"))
    assert "security.protocol=NONE is not one of" in run.err


def test_settings_are_those_of_an_entity(tool: Tool, tmp_path: Path) -> None:
    ok(tool("topics", "create", "entity"))
    entity = ("--entity-type", "topics", "--entity-name", "entity")
    several = "retention.ms=5000,cleanup.policy=[compact,delete],follower.replication.throttled.replicas=0:1,1:1"
    ok(tool("configs", "alter", *entity, "--add-config", several))
    rows = ok(tool("configs", "describe", "--entity-type", "topics", "--changed", "--json")).json
    assert {row["name"]: row["value"] for row in rows if row["topic"] == "entity" and row["source"] == "topic"} == {
        "cleanup.policy": "compact,delete", "follower.replication.throttled.replicas": "0:1,1:1", "retention.ms": "5000",
    }  # fmt: skip
    # Else it would be a problem for the health of the cluster, which other tests look at.
    ok(tool("configs", "alter", *entity, "--delete-config", "follower.replication.throttled.replicas"))
    (tmp_path / "added.properties").write_text("retention.ms=6000\nmin.insync.replicas=1\n")
    ok(tool("configs", "alter", *entity, "--add-config-file", str(tmp_path / "added.properties")))
    assert "6000" in ok(tool("configs", "describe", *entity, "--name", "retention.ms")).out
    for wrong in (("--entity-type", "users"), ("--entity-name", "x"), (*entity, "--topic", "entity"), ()):
        assert tool("configs", "describe", *wrong).code == 2
    assert "barnabas quotas" in tool("configs", "describe", "--entity-type", "clients").err


def test_all_brokers_have_dynamic_settings(tool: Tool) -> None:
    defaults = ("--entity-type", "brokers", "--entity-default")
    ok(tool("configs", "alter", *defaults, "--add-config", "log.cleaner.threads=2"))
    [row] = ok(tool("configs", "describe", "--broker-defaults", "--json")).json
    assert (row["name"], row["value"], row["source"]) == ("log.cleaner.threads", "2", "cluster default")
    [row] = ok(tool("configs", "describe", "--entity-type", "brokers", "--name", "log.cleaner.threads", "--json")).json
    assert (row["broker"], row["value"], row["source"]) == ("0", "2", "cluster default")
    wrong = tool("configs", "alter", "--broker-defaults", "--add-config", "log.cleaner.threads=many")
    assert (wrong.code, "log.cleaner.threads" in wrong.err) == (1, True)
    ok(tool("configs", "alter", "--broker-defaults", "--delete-config", "log.cleaner.threads"))
    assert ok(tool("configs", "describe", "--broker-defaults", "--json")).json == []


def test_quotas_are_shown_as_they_are(tool: Tool) -> None:
    ok(
        tool(
            "quotas", "alter", "--client", "shown", "--add-config", "producer_byte_rate=1234567,request_percentage=12.5"
        )
    )
    [line] = [line for line in ok(tool("quotas", "list")).lines if "shown" in line]
    assert line.split()[-1] == "producer_byte_rate=1234567,request_percentage=12.5"
    ok(tool("quotas", "alter", "--client", "shown", "--delete-config", "producer_byte_rate,request_percentage"))


def test_partitions_are_named_in_files(tool: Tool, tmp_path: Path) -> None:
    def file(document: object) -> str:
        (tmp_path / "file.json").write_text(json.dumps(document))
        return str(tmp_path / "file.json")

    ok(tool("topics", "create", "filed", "--partitions", "2"))
    write(tool, "filed", ["0", "1", "2"], "--partition", "0")
    write(tool, "filed", ["0", "1"], "--partition", "1")
    offsets = [{"topic": "filed", "partition": 0, "offset": 2}, {"topic": "filed", "partition": 1, "offset": -1}]
    path = file({"partitions": offsets, "version": 1})
    assert "nothing was deleted" in ok(tool("records", "delete", "--offset-json-file", path)).err
    rows = ok(tool("records", "delete", "--offset-json-file", path, "--execute", "--json")).json
    assert [(row["partition"], row["first_offset"], row["new_first_offset"]) for row in rows] == [(0, 0, 2), (1, 0, 2)]
    assert "ends at 3: it has no offset 9" in tool("records", "delete", "filed", "--before-offset", "9").err
    for wrong in ({}, {"partitions": []}, {"partitions": [{"topic": "filed", "partition": 0}]},
                  {"partitions": [offsets[0], offsets[0]]}, {"partitions": [{**offsets[0], "partition": 7}]}):  # fmt: skip
        assert tool("records", "delete", "--offset-json-file", file(wrong)).code == 1
    assert tool("records", "delete", "filed", "--offset-json-file", path).code == 2
    path = file({"partitions": [{"topic": "filed", "partition": 1}]})
    assert (
        ok(tool("partitions", "elect", "--path-to-json-file", path, "--election-type", "PREFERRED", "--json")).json
        == []
    )
    assert ok(tool("partitions", "elect", "--all-topic-partitions", "--json")).json == []
    path = file({"topics": [{"topic": "filed"}], "version": 1})
    plan = ok(tool("partitions", "plan", "--topics-to-move-json-file", path, "--broker-list", "0")).out
    path = file(json.loads(plan))
    rows = ok(tool("partitions", "verify", "--reassignment-json-file", path, "--json")).json
    assert [row["state"] for row in rows] == ["done", "done"]


def test_a_transaction_that_its_coordinator_knows_does_not_hang(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "known"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "known"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("known", "open")
    producer.flush()
    [row] = ok(tool("transactions", "producers", "--topic", "known", "--partition", "0", "--json")).json
    assert row["open_since_offset"] == 0
    assert ok(tool("transactions", "find-hanging", "known", "--max-transaction-timeout", "0", "--json")).json == []
    [listed] = [each for each in ok(tool("transactions", "list", "--state", "Ongoing,PrepareCommit", "--json")).json
                if each["transactional_id"] == "known"]  # fmt: skip
    assert listed["producer_id"] == row["producer_id"]
    shown = ok(tool("transactions", "abort", "known", "--partition", "0", "--producer-id", str(row["producer_id"])))
    assert "nothing was aborted" in shown.err
    assert tool("transactions", "abort", "known", "--partition", "0", "--producer-id", "123456789").code == 1
    producer.abort_transaction()


def test_acls_are_those_of_the_tool(secured: EmbeddedBroker, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> Run:
        code = main(["acls", *arguments, "--bootstrap-server", secured.bootstrap_servers])
        out, err = capfd.readouterr()
        return Run(code, out, err)

    eve = ("--allow-principal", "User:eve")
    ok(run("add", "--topic", "acl-a", "--topic", "acl-b", "--group", "acl-g", *eve, "--allow-host", "10.0.0.1",
           "--operation", "Read", "--operation", "DESCRIBE"))  # fmt: skip
    ok(run("add", "--topic", "acl-a", "--producer", "--idempotent", *eve))
    ok(run("add", "--user-principal", "User:acl", "--delegation-token", "acl", *eve, "--operation", "DescribeTokens"))
    rows = ok(run("list", "--principal", "User:eve", "--json")).json
    assert len(rows) == 6 + 4 + 2
    assert {row["host"] for row in rows if row["operation"] == "read"} == {"10.0.0.1"}
    assert {row["resource_type"] for row in rows if row["operation"] == "describe-tokens"} == {
        "user",
        "delegation-token",
    }
    dry = ok(run("remove", "--topic", "acl-a", "--producer", *eve, "--json"))
    assert ({row["operation"] for row in dry.json}, len(dry.json)) == ({"write", "describe", "create"}, 4)
    assert len(ok(run("remove", "--topic", "acl-a", "--topic", "acl-b", *eve, "--execute", "--json")).json) == 7
    for others in (
        ("--group", "acl-g"),
        ("--user-principal", "User:acl"),
        ("--delegation-token", "acl"),
        ("--cluster",),
    ):
        ok(run("remove", *others, *eve, "--execute"))
    assert "there are no such ACLs" in ok(run("remove", "--group", "acl-g", *eve, "--execute")).err
    assert run("add", "--topic", "x", *eve, "--operation", "Reed").code == 2
    assert run("add", "--topic", "x", "--allow-host", "h").code == 2


def test_numbers_that_fit_into_no_message_are_refused(tool: Tool) -> None:
    ok(tool("topics", "create", "numbers"))
    huge = str(2**63)
    for command in (
        ("consume", "numbers", "--offset", huge),
        ("consume", "numbers", "--from-time", huge),
        ("consume", "numbers", "--partitions", "0-99999999999"),
        ("find", "numbers", "--key", "k", "--from-offset", huge),
        ("topics", "create", "more", "--partitions", str(2**31)),
        ("topics", "alter", "numbers", "--partitions", str(2**31)),
        ("records", "delete", "numbers", "--before-offset", huge),
        ("perf", "produce", "numbers", "--record-size", "999999999999"),
        ("quotas", "alter", "--client-id", "numbers", "--add", "producer_byte_rate=nan"),
    ):
        assert tool(*command).code == 2, command
    for given in ({"value": "x", "timestamp": 2**63}, {"value": "x", "partition": 2**31}):
        run = tool("produce", "numbers", "--input", "json", stdin=json.dumps(given).encode())
        assert (run.code, "is too large" in run.err) == (1, True)


def test_json_that_is_too_deep_is_none(tool: Tool) -> None:
    ok(tool("topics", "create", "deep"))
    deep = "[" * 200_000
    write(tool, "deep", [deep, '{"a": 1}'])
    assert ok(tool("find", "deep", "--json-path", "a=1", "--format", "%v")).lines == ['{"a": 1}']
    run = tool("produce", "deep", "--input", "json", stdin=deep.encode())
    assert (run.code, "line 1 is no record in JSON" in run.err) == (1, True)
