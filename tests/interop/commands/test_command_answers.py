"""Apache Kafka's own tools and the command line are asked the same, about a broker of ours and about Apache Kafka 3.9.1.
They answer the same in substance. The tools run in one JVM."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.commands import main
from tests.interop.conftest import BROKERS, need_java
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.tools import ToolsJvm

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.retention.ms": "-1",  # some records are years old
}
OLD_MS = 1_700_000_000_000
Theirs = Callable[..., str]
Ours = Callable[..., Any]


@pytest.fixture(scope="module", params=BROKERS)
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    need_java()
    with Barnabas(SETTINGS) if request.param == "barnabas" else ApacheKafka(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def jvm() -> Iterator[ToolsJvm]:
    need_java()
    with ToolsJvm() as running:
        yield running


@pytest.fixture
def theirs(jvm: ToolsJvm, server: str) -> Theirs:
    """Patient are those tools that else wait no more than a few seconds for an answer."""
    patience = dict.fromkeys(("consumer-groups", "consumer-perf-test"), ("--timeout", "60000"))
    return lambda tool, *arguments, **given: jvm.run(
        tool, "--bootstrap-server", server, *patience.get(tool, ()), *arguments, **{"timeout_s": 120, **given}
    )


@pytest.fixture
def ours(server: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ours:
    """The answer as JSON, or as text with `text=True`."""

    def run(*arguments: str, stdin: str = "", text: bool = False) -> Any:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        code = main([*arguments, "--bootstrap-server", server, *([] if text else ["--json"])])
        out, err = capfd.readouterr()
        assert code == 0, err
        return out if text or not out else json.loads(out)

    return run


@pytest.fixture
def topic(ours: Ours, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions, with five old records in partition 0 and three in partition 1."""
    name = re.sub(r"\W", "-", request.node.name)
    ours("topics", "create", name, "--partitions", "2", "--config", "retention.ms=-1", text=True)
    records = [
        {"value": f"v{number}", "partition": int(number >= 5), "timestamp": OLD_MS + number * 1000}
        for number in range(8)
    ]
    ours("produce", name, "--input", "json", stdin="\n".join(map(json.dumps, records)), text=True)
    return name


def committed(ours: Ours, topic: str, group: str, count: int = 2) -> None:
    """Have a group commit offset `count` of partition 0."""
    ours("groups", "reset", group, "--topic", f"{topic}:0", "--to-offset", str(count), "--execute")


def commit(server: str, group: str, topic: str, offset: int) -> None:
    """Have a group commit any offset of partition 0."""
    admin = AdminClient({"bootstrap.servers": server})  # its end would end the request
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]
    admin.alter_consumer_group_offsets(asked)[group].result(60)


def fields(text: str) -> dict[str, str]:
    """Of a line "Topic: a<TAB>Partition: 0"."""
    return dict(part.strip().split(": ", 1) for part in text.strip().split("\t") if ": " in part)


def cells(text: str, first_head: str) -> list[list[str]]:
    """The rows of a table behind its head."""
    lines = [line.split() for line in text.splitlines()]
    return [row for row in lines[[row[:1] for row in lines].index([first_head]) + 1 :] if row]


def lag_rows(text: str) -> list[tuple[str, int, int | None, int | None, int | None]]:
    rows = [line.split() for line in text.splitlines() if re.search(r"\s\d+\s", line)]
    number = {"-": None}
    return sorted(
        (row[1], int(row[2]), *(number[cell] if cell in number else int(cell) for cell in row[3:6])) for row in rows
    )


def test_topics(theirs: Theirs, ours: Ours, topic: str) -> None:
    assert set(theirs("topics", "--list").split()) == {row["topic"] for row in ours("topics", "list")}
    described = [
        fields(line) for line in theirs("topics", "--describe", "--topic", topic).splitlines() if "Leader" in line
    ]
    assert [(int(row["Partition"]), int(row["Leader"]), row["Replicas"], row["Isr"]) for row in described] == [
        (row["partition"], row["leader"], ",".join(map(str, row["replicas"])), ",".join(map(str, row["isr"])))
        for row in ours("topics", "describe", topic)
    ]
    theirs("topics", "--alter", "--topic", topic, "--partitions", "4")
    assert len(ours("topics", "describe", topic)) == 4
    ours("topics", "delete", topic, "--execute", text=True)
    assert topic not in theirs("topics", "--list").split()


def test_configs(theirs: Theirs, ours: Ours, topic: str) -> None:
    ours("configs", "alter", "--topic", topic, "--add-config", "max.message.bytes=12345", text=True)
    for ask, entity in ((("--topic", topic), ("topics", topic)), (("--broker", "0"), ("brokers", "0"))):
        told = theirs("configs", "--describe", "--all", "--entity-type", entity[0], "--entity-name", entity[1])
        found = re.findall(r"^  ([\w.]+)=(.*?) sensitive=(\w+) synonyms=\{(\w*)", told, re.MULTILINE)
        assert len(found) > 20
        rows = {row["name"]: row for row in ours("configs", "describe", *ask)}
        assert {name for name, *_ in found} == rows.keys()
        for name, value, is_sensitive, source in found:
            row = rows[name]
            assert row["is_sensitive"] == (is_sensitive == "true"), name
            assert value == ("null" if row["value"] is None else row["value"]), name
            assert (source == "DYNAMIC_TOPIC_CONFIG") == (row["source"] == "topic"), name
    changed = ours("configs", "describe", "--topic", topic, "--changed")
    told = theirs("configs", "--describe", "--entity-type", "topics", "--entity-name", topic)
    assert set(re.findall(r"^  ([\w.]+)=", told, re.MULTILINE)) == {
        row["name"] for row in changed if row["source"] == "topic"
    }


def test_lag_of_groups(theirs: Theirs, ours: Ours, topic: str, server: str) -> None:
    """With an open transaction: it counts, for the tool and for us. Retention has passed what is committed."""
    group = f"{topic}-group"
    committed(ours, topic, group)
    producer = Producer({"bootstrap.servers": server, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush()
    ours("records", "delete", topic, "--partition", "0", "--before-offset", "4", "--execute")
    found = ours("groups", "describe", group)
    rows = [
        (row["topic"], row["partition"], row["current_offset"], row["log_end_offset"], row["lag"])
        for row in found["partitions"]
    ]
    assert rows == [(topic, 0, 2, 6, 4)]
    assert lag_rows(theirs("consumer-groups", "--describe", "--group", group)) == rows
    state = theirs("consumer-groups", "--describe", "--group", group, "--state")
    assert re.search(
        rf"^{group} .*\({found['coordinator']}\) .* {found['state']} +{len(found['members'])}\s*$", state, re.M
    )
    listed = dict(
        line.split() for line in theirs("consumer-groups", "--list", "--state").splitlines()[1:] if line.strip()
    )
    assert listed == {row["group"]: row["state"] for row in ours("groups", "list")}
    producer.abort_transaction()


TARGETS = [
    ("--to-earliest",), ("--to-latest",), ("--to-current",), ("--to-offset", "1"), ("--to-offset", "99"),
    ("--shift-by", "1"), ("--shift-by", "-9"), ("--to-datetime", "2023-11-14T22:13:22.500"), ("--by-duration", "PT1S"),
]  # fmt: skip


@pytest.mark.parametrize("offset", [3, 500])
def test_resets_of_groups(theirs: Theirs, ours: Ours, topic: str, server: str, offset: int) -> None:
    """Of one whose name has a comma, beside others that have its parts as names; also where a commit is behind the end."""
    group = f"{topic},group"
    for name in (topic, "group"):
        commit(server, name, topic, 2)
    commit(server, group, topic, offset)
    lag = ours("groups", "describe", group)["partitions"][0]["lag"]
    shown = [row[-1] for row in lag_rows(theirs("consumer-groups", "--describe", "--group", group))]
    assert shown == [lag] == [5 - offset]
    for target in TARGETS:
        asked = ("--group", group, "--topic", f"{topic}:0", *target, "--export")
        told = theirs("consumer-groups", "--reset-offsets", *asked, "--dry-run")
        mine = ours("groups", "reset", *asked[1:], text=True)
        # The tool quotes long names, and says between the lines what it falls back to.
        assert [row for row in csv.reader(told.splitlines()) if len(row) == 3] == list(csv.reader(mine.splitlines())), (
            target
        )


def test_offsets_of_a_file_and_their_deletion(theirs: Theirs, ours: Ours, topic: str, tmp_path: Path) -> None:
    group, path = f"{topic}-group", tmp_path / "offsets.csv"
    committed(ours, topic, group, 3)
    path.write_text(ours("groups", "reset", group, "--all-topics", "--to-current", "--export", text=True))
    committed(ours, topic, group, 1)
    theirs("consumer-groups", "--reset-offsets", "--group", group, "--from-file", str(path), "--execute")
    assert ours("groups", "describe", group)["partitions"][0]["current_offset"] == 3
    ours("groups", "delete-offsets", group, "--topic", topic, "--execute")
    assert lag_rows(theirs("consumer-groups", "--describe", "--group", group)) == []


def test_console_producer_and_consumer(theirs: Theirs, ours: Ours, topic: str) -> None:
    lines = ["h:1,g:2\tk\tv", "h:x\tk\t", "i:ü\tключ\tзначение"]
    parse = ("--property", "parse.key=true", "--property", "parse.headers=true")
    theirs("console-producer", "--topic", topic, *parse, standard_input="".join(f"{line}\n" for line in lines))
    found = ours("consume", topic, "--until-end", "--format", "%h\t%k\t%v", text=True).splitlines()
    mine = [line for line in found if not line.startswith("\tnull\t")]
    assert sorted(mine) == sorted(line.replace(":", "=") for line in lines)
    ours("produce", topic, "--key", "k2", "--header", "a=b", stdin="mine\n", text=True)
    shown = ("--property", "print.key=true", "--property", "print.headers=true")
    told = theirs(
        "console-consumer",
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "12",
        "--timeout-ms",
        "60000",
        *shown,
    )
    assert "a:b\tk2\tmine" in told.splitlines()
    assert len([line for line in told.splitlines() if line.startswith("NO_HEADERS\tnull\tv")]) == 8


def test_properties_of_the_console_tools(theirs: Theirs, ours: Ours, topic: str) -> None:
    """The same lines with the same properties are the same records, and are printed in the same lines."""
    names = ("parse.key=true", "parse.headers=true", "null.marker=NULL", "key.separator=|", "headers.key.separator==")
    parsed = [option for name in names for option in ("--property", name)]
    lines = "h1=v1,h2=NULL\tk|v|w\nNULL\tNULL|NULL\nh=\t|\n"
    ours("topics", "create", f"{topic}-a", f"{topic}-b", "--partitions", "1", text=True)
    theirs("console-producer", "--topic", f"{topic}-a", "--sync", *parsed, standard_input=lines)
    ours("produce", "--topic", f"{topic}-b", "--sync", *parsed, stdin=lines, text=True)
    for printed in (
        ("print.key=true", "print.headers=true", "print.offset=true", "print.partition=true"),
        ("print.key=true", "key.separator=;", "line.separator=|\n", "null.literal=NONE"),
        ("print.value=false", "print.headers=true", "headers.separator=/"),
    ):
        options = [option for name in printed for option in ("--property", name)]
        where = ("--partition", "0", "--offset", "0", "--max-messages", "3", *options)
        told = [
            theirs("console-consumer", "--topic", f"{topic}-{name}", *where).replace(
                "Processed a total of 3 messages\n", ""
            )
            for name in "ab"
        ]
        mine = [ours("consume", "--topic", f"{topic}-{name}", *where, text=True) for name in "ab"]
        assert told[0] == told[1] == mine[0] == mine[1]
    timed = ("--partition", "0", "--offset", "earliest", "--max-messages", "3", "--property", "print.timestamp=true")
    told = theirs("console-consumer", "--topic", f"{topic}-b", *timed).replace("Processed a total of 3 messages\n", "")
    assert told == ours("consume", "--topic", f"{topic}-b", *timed, text=True)


def test_offsets_and_deleted_records(theirs: Theirs, ours: Ours, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "delete.json"
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))
    assert "low_watermark: 2" in theirs("delete-records", "--offset-json-file", str(path))
    ours("records", "delete", topic, "--partition", "1", "--before-offset", "1", "--execute")
    rows = ours("topics", "offsets", topic, "--time", str(OLD_MS + 3_000))
    for time, name in (("-2", "first_offset"), ("-1", "end_offset"), (str(OLD_MS + 3_000), "offset_since")):
        told = theirs("get-offsets", "--topic", topic, "--time", time).split()
        assert told == [f"{topic}:{row['partition']}:{'' if row[name] is None else row[name]}" for row in rows], name


def test_reassignments(theirs: Theirs, ours: Ours, topic: str, tmp_path: Path) -> None:
    mine, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    mine.write_text(ours("partitions", "plan", topic, "--brokers", "0", text=True))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    told = theirs("reassign-partitions", "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "0")
    proposed = json.loads(told.splitlines()[-1])["partitions"]
    assert [(row["partition"], row["replicas"]) for row in proposed] == [
        (row["partition"], row["replicas"]) for row in json.loads(mine.read_text())["partitions"]
    ]
    told = theirs("reassign-partitions", "--verify", "--reassignment-json-file", str(mine))
    assert f"Reassignment of partition {topic}-0 is completed." in told
    generated = tmp_path / "theirs.json"
    generated.write_text(json.dumps({"version": 1, "partitions": proposed}))
    assert [row["state"] for row in ours("partitions", "verify", "--plan", str(generated))] == ["done", "done"]
    assert "No partition reassignments found." in theirs("reassign-partitions", "--list")
    assert ours("partitions", "reassignments") == []


def test_elections(theirs: Theirs, ours: Ours, topic: str) -> None:
    told = theirs("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected" in told
    assert ours("partitions", "elect", "--topic", topic, "--partition", "0") == []


def test_acls(theirs: Theirs, ours: Ours, topic: str) -> None:
    ours("acls", "add", "--topic", topic, "--allow-principal", "User:alice", "--producer", text=True)
    theirs(
        "acls",
        "--add",
        "--topic",
        topic,
        "--deny-principal",
        "User:bob",
        "--operation",
        "Read",
        "--deny-host",
        "10.0.0.1",
    )
    theirs("acls", "--add", "--topic", topic, "--group", "g", "--allow-principal", "User:eve", "--consumer")
    told = theirs("acls", "--list", "--topic", topic)
    found = re.findall(r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)", told)
    rows = ours("acls", "list", "--topic", topic)
    assert sorted(found) == sorted(
        (row["principal"], row["host"], row["operation"].upper().replace("-", "_"), row["permission"].upper())
        for row in rows
    )
    assert len(rows) == 6
    ours("acls", "remove", "--topic", topic, "--execute")
    assert "principal=" not in theirs("acls", "--list", "--topic", topic)


def test_transactions(theirs: Theirs, ours: Ours, topic: str, server: str) -> None:
    producer = Producer({"bootstrap.servers": server, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "open", partition=1)
    producer.flush()
    listed = {tuple(row) for row in cells(theirs("transactions", "list"), "TransactionalId")}
    assert listed == {
        (row["transactional_id"], str(row["coordinator"]), str(row["producer_id"]), row["state"])
        for row in ours("transactions", "list")
    }
    [row] = ours("transactions", "describe", topic)
    [told] = cells(theirs("transactions", "describe", "--transactional-id", topic), "CoordinatorId")
    assert told[:5] == [
        str(row["coordinator"]),
        topic,
        str(row["producer_id"]),
        str(row["producer_epoch"]),
        row["state"],
    ]
    assert told[5] == str(row["timeout_ms"])
    assert told[-1] == ",".join(row["partitions"])
    known = cells(theirs("transactions", "describe-producers", "--topic", topic, "--partition", "1"), "ProducerId")
    assert {row[0]: row[-1] for row in known} == {
        str(row["producer_id"]): str(row["open_since_offset"])
        for row in ours("transactions", "producers", topic, "--partition", "1")
    }
    ours("transactions", "abort", topic, "--partition", "1", "--start-offset", "3", "--execute")
    known = cells(theirs("transactions", "describe-producers", "--topic", topic, "--partition", "1"), "ProducerId")
    assert {row[-1] for row in known} == {"None"}


def test_log_directories(theirs: Theirs, ours: Ours, topic: str) -> None:
    told = json.loads(theirs("log-dirs", "--describe", "--topic-list", topic).splitlines()[-1])
    found = [
        (
            broker["broker"],
            directory["logDir"],
            replica["partition"],
            replica["size"],
            replica["offsetLag"],
            replica["isFuture"],
        )
        for broker in told["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    ]
    assert sorted(found) == [
        (
            row["broker"],
            row["log_dir"],
            f"{row['topic']}-{row['partition']}",
            row["bytes"],
            row["offset_lag"],
            row["is_future"],
        )
        for directory in ours("brokers", "log-dirs", "--topic-list", topic)
        for row in directory["replicas"]
    ]


def test_api_versions(theirs: Theirs, ours: Ours) -> None:
    told = re.findall(r"^\t(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable", theirs("broker-api-versions"), re.MULTILINE)
    assert len(told) > 50
    assert [(int(key), int(lowest), int(highest or lowest)) for _, key, lowest, highest in told] == [
        (row["key"], row["lowest"], row["highest"]) for row in ours("brokers", "api-versions")
    ]


def test_performance(theirs: Theirs, ours: Ours, jvm: ToolsJvm, server: str, topic: str) -> None:
    """The same load: as many records and bytes; a quantile is never above the next, nor the mean above the maximum."""
    ours("topics", "create", f"{topic}-own", text=True)
    mine = ours("perf", "produce", f"{topic}-own", "--num-records", "5000", "--record-size", "100")
    load = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    theirs_topic = f"{topic}-theirs"
    ours("topics", "create", theirs_topic, text=True)
    told = jvm.run(
        "producer-perf-test", "--topic", theirs_topic, *load, "--producer-props", f"bootstrap.servers={server}"
    )
    assert "5000 records sent" in told
    assert mine["records"] == 5000
    order = [mine[name] for name in ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")]
    assert order == sorted(order) and 0 < mine["mean_ms"] <= mine["max_ms"]
    for each in (f"{topic}-own", theirs_topic):
        consumed = ours("perf", "consume", each)
        told = theirs("consumer-perf-test", "--topic", each, "--messages", "5000", "--group", each)
        row = next(line for line in told.splitlines() if re.match(r"\d{4}-", line)).split(", ")
        assert int(row[4]) == consumed["records"] == 5000
        assert round(consumed["mb_per_second"] * consumed["seconds"], 1) == 0.5
        assert float(row[2]) == pytest.approx(500_000 / 2**20, abs=0.01)
