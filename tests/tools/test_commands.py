"""The commands on a broker of their own, each from its arguments to what it prints."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from protocol.key_hashes import by_murmur2


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Tool = Callable[..., Run]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    # Some records are years old, and no test is about retention. Apache Kafka 3.9.1 plays the same tests.
    settings = {"auto.create.topics.enable": False, "log.retention.ms": -1, "barnabas.initial.features": "none"}
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    """A broker with an authorizer, that lets this client do everything."""
    authorizer = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings=authorizer) as running:
        yield running


@pytest.fixture
def tool(broker: EmbeddedBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    def run(*arguments: str, stdin: bytes = b"") -> Run:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([*arguments, "--bootstrap-server", broker.bootstrap_servers])
        out, err = capfd.readouterr()
        return Run(code, out, err)

    return run


def ok(run: Run) -> Run:
    assert run.code == 0, run.err
    return run


def write(tool: Tool, topic: str, values: Sequence[str], *options: str) -> None:
    ok(tool("produce", topic, *options, stdin="".join(f"{value}\n" for value in values).encode()))


def test_topics_are_created_listed_described_altered_and_deleted(tool: Tool) -> None:
    assert ok(tool("topics", "create", "made", "--partitions", "2", "--config", "retention.ms=1000")).lines == [
        "made: created"
    ]
    assert "made" in ok(tool("topics", "list")).lines
    [row] = [row for row in ok(tool("topics", "list", "--json")).json if row["topic"] == "made"]
    assert row.pop("topic_id")
    assert row == {"topic": "made", "partitions": 2, "replication_factor": 1, "is_internal": False}
    rows = ok(tool("topics", "describe", "made", "--json")).json
    assert [(each["partition"], each["leader"], each["isr"]) for each in rows] == [(0, 0, [0]), (1, 0, [0])]
    assert ok(tool("topics", "describe", "made")).lines[0].split() == [
        "TOPIC",
        "PARTITION",
        "LEADER",
        "REPLICAS",
        "ISR",
    ]
    ok(tool("topics", "alter", "made", "--partitions", "3"))
    assert len(ok(tool("topics", "describe", "made", "--json")).json) == 3
    dry = ok(tool("topics", "delete", "made"))
    assert (dry.lines, "--execute" in dry.err) == (["TOPIC  PARTITIONS", "made   3"], True)
    assert "made" in ok(tool("topics", "list")).lines
    ok(tool("topics", "delete", "made", "--execute"))
    assert "made" not in ok(tool("topics", "list")).lines


def test_a_topic_that_is_there_is_refused_or_accepted(tool: Tool) -> None:
    ok(tool("topics", "create", "twice"))
    refused = tool("topics", "create", "twice")
    assert refused.code == 1
    assert "TOPIC_ALREADY_EXISTS" in refused.err
    assert "--if-not-exists" in refused.err
    ok(tool("topics", "create", "twice", "--if-not-exists"))


def test_only_validation_creates_nothing(tool: Tool) -> None:
    assert ok(tool("topics", "create", "checked", "--validate-only")).lines == ["checked: is valid"]
    assert "checked" not in ok(tool("topics", "list")).lines


def test_a_topic_that_is_missing_names_the_list(tool: Tool) -> None:
    for arguments in (("topics", "describe", "none"), ("consume", "none"), ("topics", "delete", "none"),
                      ("topics", "delete", "none", "--execute")):  # fmt: skip
        run = tool(*arguments)
        assert run.code == 1
        assert "barnabas topics list" in run.err
    for options in ((), ("--execute",)):
        ok(tool("topics", "delete", "none", "--if-exists", *options))


def test_settings_are_described_and_altered(tool: Tool) -> None:
    ok(tool("topics", "create", "tuned"))
    ok(tool("configs", "alter", "--topic", "tuned", "--add-config", "retention.ms=5000"))
    rows = ok(tool("configs", "describe", "--topic", "tuned", "--changed", "--json")).json
    assert [(row["name"], row["value"], row["source"]) for row in rows] == [("retention.ms", "5000", "topic")]
    ok(tool("configs", "alter", "--topic", "tuned", "--delete-config", "retention.ms"))
    rows = ok(tool("configs", "describe", "--topic", "tuned", "--changed", "--json")).json
    assert [(row["name"], row["source"]) for row in rows] == [("retention.ms", "file")]
    assert "broker.id" in ok(tool("configs", "describe", "--broker", "0", "--name", "broker.id")).out
    wrong = tool("configs", "alter", "--topic", "tuned", "--add-config", "retention.ms=soon")
    assert wrong.code == 1
    assert "INVALID_CONFIG" in wrong.err
    assert tool("configs", "describe").code == 2


def test_levels_of_loggers_are_described_and_altered(tool: Tool) -> None:
    at = ("--broker-logger", "0")
    ok(tool("configs", "alter", *at, "--add-config", "replication=DEBUG", "--validate-only"))
    assert ok(tool("configs", "alter", *at, "--add-config", "replication=ERROR")).lines == ["changed: replication"]
    rows = ok(tool("configs", "describe", *at, "--name", "replication.partitions", "--json")).json
    assert rows == [{"name": "replication.partitions", "value": "ERROR"}]
    ok(tool("configs", "alter", *at, "--delete-config", "replication"))
    wrong = tool("configs", "alter", *at, "--add-config", "replication=LOUD")
    assert wrong.code == 1
    assert "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN" in wrong.err
    absent = tool("configs", "describe", "--broker-logger", "7")
    assert (absent.code, "there is no broker 7" in absent.err) == (1, True)
    assert tool("configs", "describe", *at, "--topic", "t").code == 2


def test_lines_are_written_and_printed_in_order(tool: Tool) -> None:
    ok(tool("topics", "create", "lines"))
    write(tool, "lines", ["one", "two", "three"])
    assert ok(tool("consume", "lines", "--from-beginning", "--max-messages", "3")).lines == ["one", "two", "three"]
    assert ok(tool("consume", "lines", "--last", "2")).lines == ["two", "three"]
    assert ok(tool("consume", "lines", "--until-end", "--offset", "1", "--format", "%o:%v")).lines == [
        "1:two",
        "2:three",
    ]


def test_keys_headers_and_filters(tool: Tool) -> None:
    ok(tool("topics", "create", "keyed", "--partitions", "3"))
    write(tool, "keyed", ["a=1", "b=2", "a="], "--key-separator", "=", "--header", "h=x", "--tombstones")
    records = [json.loads(line) for line in ok(tool("consume", "keyed", "--until-end", "--json", "--key", "a")).lines]
    assert [(record["key"], record["value"]) for record in records] == [("a", "1"), ("a", None)]
    assert records[0]["headers"] == [{"name": "h", "value": "x"}]
    assert ok(tool("consume", "keyed", "--until-end", "--header", "h=y")).out == ""
    assert ok(tool("consume", "keyed", "--until-end", "--value-contains", "2")).lines == ["2"]


def test_what_json_printed_can_be_written_again(tool: Tool) -> None:
    ok(tool("topics", "create", "first"))
    ok(tool("topics", "create", "second"))
    given = {
        "key_base64": "/w==",
        "value": "x",
        "headers": [{"name": "h", "value": None}],
        "timestamp": 1_700_000_000_000,
    }
    ok(tool("produce", "first", "--input", "json", stdin=json.dumps(given).encode()))
    printed = ok(tool("consume", "first", "--until-end", "--json")).out
    ok(tool("produce", "second", "--input", "json", stdin=printed.encode()))
    again = json.loads(ok(tool("consume", "second", "--until-end", "--json")).out)
    assert again == {"topic": "second", "partition": 0, "offset": 0} | given


def test_a_line_without_the_separator_ends_the_command(tool: Tool) -> None:
    ok(tool("topics", "create", "apart"))
    run = tool("produce", "apart", "--key-separator", ":", stdin=b"k:v\nnone\n")
    assert run.code == 1
    assert "line 2 has no key separator" in run.err


def test_a_record_is_found_in_the_partition_of_its_key_and_in_others(tool: Tool) -> None:
    ok(tool("topics", "create", "searched", "--partitions", "4"))
    write(tool, "searched", [f"k{number}={number}" for number in range(40)], "--key-separator", "=")
    write(tool, "searched", ["strayed"], "--key", "k7", "--partition", str((by_murmur2(b"k7", 4) + 1) % 4))
    run = ok(tool("find", "searched", "--key", "k7", "--format", "%v"))
    assert run.lines == ["7", "strayed"]
    assert "2 hits in 41 records, to the end of 4 partitions" in run.err
    assert ok(tool("find", "searched", "--key", "k7", "--key-partition-only", "--format", "%v")).lines == ["7"]
    assert ok(tool("find", "searched", "--key", "k7", "--max-messages", "1", "--format", "%v")).lines == ["7"]


def test_a_search_is_bounded_by_time_and_offset(tool: Tool) -> None:
    ok(tool("topics", "create", "timed"))
    records = [{"value": f'{{"n": {number}}}', "timestamp": 1_700_000_000_000 + number * 1000} for number in range(10)]
    ok(tool("produce", "timed", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()))
    found = ok(tool("find", "timed", "--json-path", "n=4", "--json"))
    assert json.loads(found.out)["offset"] == 4
    options = ("--from-time", "1700000003000", "--until-time", "1700000006000")
    assert "3 records" in ok(tool("find", "timed", "--value-contains", "n", *options)).err
    assert "2 records" in ok(tool("find", "timed", "--value-contains", "n", "--from-offset", "8")).err
    assert "0 hits in 4 records" in ok(tool("find", "timed", "--value-contains", "zz", "--until-offset", "4")).err
    assert tool("find", "timed").code == 2


def test_the_end_of_a_topic_may_be_a_marker_of_a_transaction(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "marked"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "marker"})
    producer.init_transactions()
    for value, is_committed in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        producer.produce("marked", value)
        producer.flush()
        producer.commit_transaction() if is_committed else producer.abort_transaction()
    assert ok(tool("consume", "marked", "--until-end")).lines == ["kept"]
    everything = ok(tool("consume", "marked", "--until-end", "--isolation-level", "read_uncommitted"))
    assert everything.lines == ["kept", "dropped"]


def test_a_group_commits_what_was_printed(tool: Tool) -> None:
    ok(tool("topics", "create", "shared"))
    write(tool, "shared", [str(number) for number in range(5)])
    first = ok(tool("consume", "shared", "--group", "readers", "--from-beginning", "--max-messages", "2"))
    assert first.lines == ["0", "1"]
    described = ok(tool("groups", "describe", "readers", "--json")).json
    assert (described["state"], described["total_lag"]) == ("Empty", 3)
    assert (
        described["partitions"][0] | {"current_offset": 2, "log_end_offset": 5, "lag": 3} == described["partitions"][0]
    )
    assert ok(tool("consume", "shared", "--group", "readers", "--max-messages", "1")).lines == ["2"]
    assert "readers" in [row["group"] for row in ok(tool("groups", "list", "--json")).json]


def test_offsets_are_reset_only_when_asked(tool: Tool) -> None:
    ok(tool("topics", "create", "reset"))
    write(tool, "reset", ["0", "1", "2", "3"])
    ok(tool("consume", "reset", "--group", "resetters", "--from-beginning", "--max-messages", "3"))
    dry = ok(tool("groups", "reset", "resetters", "--topic", "reset", "--to-earliest", "--json"))
    assert dry.json[0]["new_offset"] == 0
    assert "--execute" in dry.err

    def committed() -> int:
        offset: int = ok(tool("groups", "describe", "resetters", "--json")).json["partitions"][0]["current_offset"]
        return offset

    assert committed() == 3
    for options, expected in ((("--shift-by", "-2"), 1), (("--to-latest",), 4), (("--to-offset", "0"), 0),
                              (("--to-offset", "99"), 4), (("--to-datetime", "1h"), 0),
                              (("--by-duration", "PT1H"), 0)):  # fmt: skip
        ok(tool("groups", "reset", "resetters", "--all-topics", *options, "--execute"))
        assert committed() == expected
    assert tool("groups", "reset", "resetters", "--all-topics").code == 2
    dry = ok(tool("groups", "delete", "resetters", "--json"))
    assert (dry.json, "--execute" in dry.err) == ([{"group": "resetters", "state": "Empty", "members": 0}], True)
    assert committed() == 0
    ok(tool("groups", "delete", "resetters", "--execute"))
    assert "there is no group" in tool("groups", "delete", "resetters").err
    gone = tool("groups", "describe", "resetters")
    assert gone.code == 1
    assert "there is no group" in gone.err


def test_offsets_are_exported_taken_back_and_deleted(tool: Tool, tmp_path: Any) -> None:
    ok(tool("topics", "create", "kept", "--partitions", "2"))
    write(tool, "kept", ["0", "1", "2"], "--partition", "1")
    ok(tool("consume", "kept", "--group", "keepers", "--from-beginning", "--max-messages", "2"))
    kept = ok(tool("groups", "reset", "keepers", "--all-topics", "--to-current", "--export")).out
    assert "kept,1,2\n" in kept
    (tmp_path / "offsets.csv").write_text(kept)
    ok(tool("groups", "reset", "keepers", "--topic", "kept", "--to-earliest", "--execute"))
    back = ok(tool("groups", "reset", "keepers", "--from-file", str(tmp_path / "offsets.csv"), "--execute", "--json"))
    assert [(row["partition"], row["current_offset"], row["new_offset"]) for row in back.json][-1] == (1, 0, 2)
    assert "--execute" in ok(tool("groups", "delete-offsets", "keepers", "--topic", "kept:1")).err
    ok(tool("groups", "delete-offsets", "keepers", "--topic", "kept:1", "--execute"))
    gone = tool("groups", "delete-offsets", "keepers", "--topic", "kept:1", "--execute")
    assert gone.code == 1
    assert "has committed nothing for kept:1" in gone.err


def test_keys_and_values_may_be_numbers_or_bytes(tool: Tool) -> None:
    ok(tool("topics", "create", "typed", "--partitions", "3"))
    forms = ("--key-serializer", "long", "--value-serializer", "hex")
    write(tool, "typed", ["7=00ff", "-1=0a", "8="], "--key-separator", "=", *forms, "--tombstones")
    shown = (
        "--key-deserializer",
        "org.apache.kafka.common.serialization.LongDeserializer",
        "--value-deserializer",
        "hex",
    )
    lines = ok(tool("consume", "typed", "--until-end", "--format", "%k=%v", *shown)).lines
    assert sorted(lines) == ["-1=0a", "7=00ff", "8=null"]
    assert ok(tool("find", "typed", "--key", "7", "--key-partition-only", "--format", "%k=%v", *shown)).lines == [
        "7=00ff"
    ]
    printed = ok(tool("consume", "typed", "--until-end", "--key", "7", "--json", *shown)).out
    ok(tool("produce", "typed", "--input", "json", *forms, stdin=printed.encode()))
    assert len(ok(tool("find", "typed", "--key", "7", *shown)).lines) == 2
    short = tool(
        "consume",
        "typed",
        "--until-end",
        "--key",
        "-1",
        "--key-deserializer",
        "long",
        "--value-deserializer",
        "integer",
    )
    assert short.code == 1
    assert "1 byte is no integer" in short.err
    wrong = tool("produce", "typed", "--value-serializer", "integer", stdin=b"1\nx\n")
    assert (wrong.code, wrong.lines) == (1, ["1 record written to typed"])
    assert "record 2 cannot be written: 'x' is no integer" in wrong.err
    assert tool("find", "typed", "--key", "x", "--key-deserializer", "long").code == 2
    assert "is none of string, short" in tool("consume", "typed", "--key-deserializer", "avro").err


def test_a_reading_ends_before_an_offset_or_a_time(tool: Tool) -> None:
    ok(tool("topics", "create", "ended"))
    records = [{"value": str(number), "timestamp": 1_700_000_000_000 + number * 1000} for number in range(10)]
    ok(tool("produce", "ended", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()))
    assert ok(tool("consume", "ended", "--offset", "3", "--until-offset", "5")).lines == ["3", "4"]
    assert ok(tool("consume", "ended", "--until-time", "1700000001500")).lines == ["0", "1"]
    assert ok(tool("consume", "ended", "--last", "3", "--until-offset", "8")).lines == ["7"]
    assert ok(tool("consume", "ended", "--from-beginning", "--until-offset", "99")).lines == [str(n) for n in range(10)]
    assert ok(tool("consume", "ended", "--until-offset", "0")).lines == []
    assert tool("consume", "ended", "--group", "g", "--until-offset", "5").code == 2


def test_topics_are_deleted_by_pattern_only_when_asked(tool: Tool) -> None:
    ok(tool("topics", "create", "old-1", "old-2", "older"))
    dry = ok(tool("topics", "delete", "--pattern", r"old-\d"))
    assert [line.split()[0] for line in dry.lines] == ["TOPIC", "old-1", "old-2"]
    assert "--execute" in dry.err
    ok(tool("topics", "delete", "--pattern", r"old-\d", "--execute"))
    left = ok(tool("topics", "list")).lines
    assert "older" in left and not {"old-1", "old-2"} & set(left)
    assert tool("topics", "delete", "--pattern", "(").code == 2
    assert "no topic has such a name" in ok(tool("topics", "delete", "--pattern", "none", "--execute")).err


def test_partitions_that_may_soon_take_no_writes_are_listed(tool: Tool) -> None:
    ok(tool("topics", "create", "strict"))
    rows = ok(tool("topics", "describe", "strict", "--at-min-isr-partitions", "--json")).json
    assert [row["partition"] for row in rows] == [0]
    assert ok(tool("topics", "describe", "strict", "--under-min-isr-partitions", "--json")).json == []
    ok(tool("configs", "alter", "--topic", "strict", "--add-config", "min.insync.replicas=2"))
    rows = ok(tool("topics", "describe", "strict", "--under-min-isr-partitions", "--json")).json
    assert [row["partition"] for row in rows] == [0]


def test_offsets_of_a_topic_are_shown(tool: Tool) -> None:
    ok(tool("topics", "create", "measured", "--partitions", "2"))
    records = [{"value": "", "partition": 0, "timestamp": 1_700_000_000_000 + number * 1000} for number in range(5)]
    ok(tool("produce", "measured", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()))
    ok(tool("records", "delete", "measured", "--partition", "0", "--before-offset", "1", "--execute"))
    rows = ok(tool("topics", "offsets", "measured", "--time", "1700000002000", "--json")).json
    assert rows == [
        {"topic": "measured", "partition": 0, "first_offset": 1, "end_offset": 5, "offsets": 4, "offset_since": 2},
        {"topic": "measured", "partition": 1, "first_offset": 0, "end_offset": 0, "offsets": 0, "offset_since": None},
    ]


def test_api_versions_and_log_directories_of_brokers(tool: Tool) -> None:
    rows = ok(tool("brokers", "api-versions", "--broker", "0", "--json")).json
    assert {"broker": 0, "key": 0, "api": "Produce", "lowest": 0, "highest": 11} in rows
    ok(tool("topics", "create", "stored", "--partitions", "2"))
    write(tool, "stored", ["x"], "--partition", "1")
    [directory] = ok(tool("brokers", "log-dirs", "--topic-list", "stored", "--json")).json
    assert (directory["broker"], directory["error"], directory["partitions"]) == (0, None, 2)
    assert 0 < directory["bytes"] < directory["usable_bytes"] <= directory["total_bytes"]
    assert len(ok(tool("brokers", "log-dirs", "--topic-list", "stored", "--partitions")).lines) == 3
    head, row = ok(tool("brokers", "log-dirs", "--topic-list", "stored")).lines
    assert head.split()[-3:] == ["SIZE", "USABLE", "TOTAL"]
    assert row.split("  ")[-1].split()[-1] in ("MB", "GB", "TB")
    assert "there is no broker 7" in tool("brokers", "log-dirs", "--broker-list", "0,7").err


def test_records_are_deleted_only_when_asked(tool: Tool) -> None:
    ok(tool("topics", "create", "cut"))
    write(tool, "cut", ["0", "1", "2"])
    assert "--execute" in ok(tool("records", "delete", "cut", "--before-offset", "2")).err
    assert len(ok(tool("consume", "cut", "--until-end")).lines) == 3
    ok(tool("records", "delete", "cut", "--before-offset", "2", "--execute"))
    assert ok(tool("consume", "cut", "--until-end")).lines == ["2"]
    ok(tool("records", "delete", "cut", "--all", "--execute"))
    assert ok(tool("consume", "cut", "--until-end")).lines == []


def test_records_that_are_gone_are_counted_and_what_is_left_is_read(tool: Tool) -> None:
    ok(tool("topics", "create", "shortened"))
    write(tool, "shortened", [str(number) for number in range(10)])
    ok(tool("records", "delete", "shortened", "--before-offset", "6", "--execute"))
    left = ["6", "7", "8", "9"]
    behind = ok(tool("consume", "shortened", "--offset", "2", "--max-messages", "4"))
    assert behind.lines == left
    assert "deleted before they could be read: 4 of shortened-0" in behind.err
    assert ok(tool("consume", "shortened", "--offset", "2", "--until-end")).lines == left


def test_records_that_cannot_be_written_are_told_and_the_others_are_there(tool: Tool) -> None:
    ok(tool("topics", "create", "refusing"))
    run = tool("produce", "refusing", stdin=b"small\n" + b"x" * 2_000_000 + b"\nlast\n")
    assert run.code == 1
    assert run.lines == ["2 records written to refusing"]
    assert "1 record was not written: MESSAGE_TOO_LARGE" in run.err
    assert "max.message.bytes" in run.err
    for given in (
        '{"partition": "a"}',
        '{"timestamp": "a"}',
        '{"headers": [{"name": 5}]}',
        '{"value_base64": "?"}',
        "[]",
    ):
        run = tool("produce", "refusing", "--input", "json", stdin=given.encode())
        assert run.code == 1
        assert "line 1 is no record in JSON" in run.err
    assert ok(tool("consume", "refusing", "--until-end")).lines == ["small", "last"]


def test_what_is_not_there_is_told_at_once(tool: Tool) -> None:
    assert "there is no broker 77" in tool("configs", "describe", "--broker", "77").err
    assert "not of the form User:NAME" in tool("acls", "add", "--topic", "t", "--allow-principal", "alice").err


def test_brokers_and_health(tool: Tool) -> None:
    [row] = ok(tool("brokers", "list", "--json")).json
    assert (row["broker"], row["is_controller"]) == (0, True)
    document = ok(tool("cluster", "health", "--json")).json
    assert (document["status"], document["controller"]) == ("healthy", 0)
    # Groups of other tests may be there, which nobody reads with any more.
    assert {each["severity"] for each in document["problems"]} <= {"notice"}
    assert "healthy" in ok(tool("cluster", "health")).out


def test_nobody_at_the_address_is_told_with_the_address(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "no broker answers at 127.0.0.1:1" in capfd.readouterr().err


def test_a_profile_names_the_cluster(
    broker: EmbeddedBroker, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "barnabas").mkdir()
    (tmp_path / "barnabas" / "here.properties").write_text(f"bootstrap.servers={broker.bootstrap_servers}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["brokers", "list", "--profile", "here", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)[0]["broker"] == 0
    assert main(["brokers", "list", "--profile", "elsewhere"]) == 1
    assert "elsewhere.properties" in capfd.readouterr().err


def test_what_was_acknowledged_is_verified_or_named(tool: Tool, tmp_path: Any) -> None:
    ok(tool("topics", "create", "verified", "--partitions", "2"))
    state = str(tmp_path / "state.json")
    written = ok(tool("verify", "produce", "verified", "--num-records", "50", "--state", state, "--json")).json
    assert written["acknowledged"] == 50
    write(tool, "verified", ["of somebody else"])
    found = ok(tool("verify", "consume", "verified", "--state", state, "--json")).json
    assert (found["is_sound"], found["read"]) == (True, 50)
    ok(tool("records", "delete", "verified", "--partition", "1", "--before-offset", "3", "--execute"))
    lost = tool("verify", "consume", "verified", "--state", state)
    assert lost.code == 1
    assert "missing: {1: {'count': 3, 'sequences': [[0, 2]]}}" in lost.err


def test_a_record_that_is_twice_or_out_of_order_is_named(tool: Tool, tmp_path: Any) -> None:
    """What another client has written in the name of a run: 0 1 3 2 3, of which 0 to 4 were acknowledged."""
    ok(tool("topics", "create", "shuffled"))
    records = [
        {
            "value": "x",
            "headers": [{"name": "barnabas-producer", "value": "r"}, {"name": "barnabas-sequence", "value": n}],
        }
        for n in "01323"
    ]
    ok(tool("produce", "shuffled", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()))
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"topic": "shuffled", "run": "r", "acknowledged": {"0": [[0, 4]]}}))
    found = tool("verify", "consume", "shuffled", "--state", str(state), "--json")
    assert found.code == 1
    assert found.json == {
        "acknowledged": 5,
        "read": 4,
        "missing": {"0": {"count": 1, "sequences": [[4, 4]]}},
        "repeated": {"0": 1},
        "out_of_order": {"0": [3]},
        "is_sound": False,
    }
    for word in ("missing", "repeated", "out of order"):
        assert word in found.err


def test_performance_is_told_in_figures(tool: Tool) -> None:
    ok(tool("topics", "create", "fast"))
    produced = ok(tool("perf", "produce", "fast", "--num-records", "200", "--record-size", "10", "--json")).json
    assert produced["records"] == 200
    assert 0 < produced["p50_ms"] <= produced["p99_ms"] <= produced["max_ms"]
    consumed = ok(tool("perf", "consume", "fast", "--json")).json
    assert consumed["records"] == 200
    assert ok(tool("perf", "latency", "fast", "--num-records", "5", "--json")).json["records"] == 5
    assert "records/s" in ok(tool("perf", "consume", "fast")).out


def test_transactions_are_listed_described_and_aborted(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "moved"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "mover"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("moved", "open")
    producer.flush()
    rows = ok(tool("transactions", "list", "--json")).json
    assert [row["state"] for row in rows if row["transactional_id"] == "mover"] == ["Ongoing"]
    [row] = ok(tool("transactions", "describe", "mover", "--json")).json
    assert (row["state"], row["partitions"]) == ("Ongoing", ["moved-0"])
    [known] = ok(tool("transactions", "producers", "moved", "--json")).json
    assert known["open_since_offset"] == 0
    missing = tool("transactions", "abort", "moved", "--partition", "0", "--start-offset", "9")
    assert missing.code == 1
    assert "no transaction of moved-0 starts at offset 9" in missing.err
    assert "--execute" in ok(tool("transactions", "abort", "moved", "--partition", "0", "--start-offset", "0")).err
    ok(tool("transactions", "abort", "moved", "--partition", "0", "--start-offset", "0", "--execute"))
    assert ok(tool("transactions", "producers", "moved", "--json")).json[0]["open_since_offset"] is None
    unknown = tool("transactions", "describe", "nobody")
    assert unknown.code == 1
    assert "barnabas transactions list" in unknown.err


def test_partitions_are_planned_verified_and_led(tool: Tool, tmp_path: Any) -> None:
    ok(tool("topics", "create", "placed", "--partitions", "2"))
    text = ok(tool("partitions", "plan", "placed", "--brokers", "0")).out
    assert [row["replicas"] for row in json.loads(text)["partitions"]] == [[0], [0]]
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    assert "--execute" in ok(tool("partitions", "reassign", "--plan", str(plan))).err
    ok(tool("partitions", "reassign", "--plan", str(plan), "--execute", "--rollback", str(tmp_path / "back.json")))
    assert json.loads((tmp_path / "back.json").read_text()) == json.loads(text)
    assert ok(tool("partitions", "reassignments", "--json")).json == []
    assert [row["state"] for row in ok(tool("partitions", "verify", "--plan", str(plan), "--json")).json] == [
        "done"
    ] * 2
    ok(tool("partitions", "cancel", "--execute"))
    ok(tool("partitions", "elect", "--topic", "placed"))
    unclean = ok(tool("partitions", "elect", "--topic", "placed", "--election-type", "unclean", "--json"))
    assert (unclean.json, "every partition has a leader" in unclean.err) == ([], True)
    assert "there is no broker 7" in tool("partitions", "plan", "placed", "--brokers", "0,7").err
    plan.write_text("{}")
    assert "is no plan" in tool("partitions", "reassign", "--plan", str(plan)).err


def test_one_broker_has_nothing_to_give_away(tool: Tool) -> None:
    ok(tool("topics", "create", "alone", "--partitions", "3"))
    run = ok(tool("balance", "--json", "--sample-seconds", "0.05"))
    assert (run.json["moves"], run.json["copied_bytes"]) == ([], 0)
    [row] = run.json["brokers"]
    assert row["broker"] == 0 and row["before"] == row["after"] and row["before"]["leaders"] >= 3
    assert "the brokers are even" in run.err
    for options, problem in (
        (("--drain", "0"), "no broker is left"),
        (("--drain", "7"), "there is no broker 7"),
        (("--topics", "none*"), "there is no topic none*"),
    ):
        refused = tool("balance", "--sample-seconds", "0", *options)
        assert refused.code == 1
        assert problem in refused.err
    assert tool("balance", "--drain", "0", "--exclude-brokers", "0").code == 2


def test_quotas_are_altered_and_listed(tool: Tool) -> None:
    ok(tool("quotas", "alter", "--user", "alice", "--client-id", "<default>", "--add", "producer_byte_rate=1000"))
    rows = ok(tool("quotas", "list", "--user", "alice", "--json")).json
    assert rows == [{"user": "alice", "client_id": "<default>", "ip": None, "quotas": {"producer_byte_rate": 1000.0}}]
    assert "producer_byte_rate=1000" in ok(tool("quotas", "list")).out
    ok(tool("quotas", "alter", "--user", "alice", "--client-id", "<default>", "--delete", "producer_byte_rate"))
    assert ok(tool("quotas", "list", "--json")).json == []
    wrong = tool("quotas", "alter", "--user", "alice", "--add", "speed=1")
    assert wrong.code == 1
    assert tool("quotas", "alter", "--user", "alice").code == 2


def test_without_an_authorizer_acls_say_so(tool: Tool) -> None:
    for arguments in (("list",), ("add", "--topic", "t", "--allow-principal", "User:alice")):
        run = tool("acls", *arguments)
        assert run.code == 1
        assert "authorizer.class.name" in run.err


def test_acls_are_added_listed_and_removed(secured: EmbeddedBroker, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> Run:
        code = main([*arguments, "--bootstrap-server", secured.bootstrap_servers])
        out, err = capfd.readouterr()
        return ok(Run(code, out, err))

    alice = ("--allow-principal", "User:alice")
    run("acls", "add", "--topic", "orders", *alice, "--producer", "--transactional-id", "pay")
    run("acls", "add", "--topic", "log-", "--resource-pattern-type", "prefixed", "--deny-principal", "User:*",
        "--operation", "delete", "--host", "10.0.0.1")  # fmt: skip
    run("acls", "add", "--cluster", *alice, "--operation", "idempotent-write")
    rows = run("acls", "list", "--json").json
    assert [(row["resource_type"], row["resource"], row["operation"], row["permission"]) for row in rows] == [
        ("cluster", "kafka-cluster", "idempotent-write", "allow"),
        ("topic", "log-", "delete", "deny"),
        ("topic", "orders", "create", "allow"),
        ("topic", "orders", "describe", "allow"),
        ("topic", "orders", "write", "allow"),
        ("transactional-id", "pay", "describe", "allow"),
        ("transactional-id", "pay", "write", "allow"),
    ]
    assert len(run("acls", "list", "--topic", "log-1", "--resource-pattern-type", "match", "--json").json) == 1
    dry = run("acls", "remove", "--topic", "orders", "--operation", "write")
    assert "--execute" in dry.err
    assert len(run("acls", "list", "--json").json) == 7
    run("acls", "remove", "--topic", "orders", "--operation", "write", "--execute")
    run("acls", "remove", "--cluster", "--execute")
    assert len(run("acls", "list", "--json").json) == 5
