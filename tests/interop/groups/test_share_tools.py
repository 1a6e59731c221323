"""What operators see and do with share groups: by the tools of Apache Kafka 4.3.0 and by `barnabas groups`, on both brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.commands import main
from tests.interop.conftest import need_java
from tests.interop.groups.share_members import (
    ACCEPT,
    RELEASE,
    AnyShareConsumer,
    LibrdkafkaShareConsumer,
    create_topic,
    polled,
    set_group,
    write,
)
from tests.oracle import java
from tests.oracle.process import wait_until
from tests.oracle.tools import ToolsJvm

pytestmark = [pytest.mark.interop, pytest.mark.oracle]

Fresh = Callable[[str], str]
Told = tuple[int, str, str]
PATIENCE_S = 60.0
RECORDS = 10


@pytest.fixture(scope="module")
def tools_jvm() -> Iterator[ToolsJvm]:
    need_java()
    with ToolsJvm(java.KRAFT_MODE) as jvm:
        yield jvm


@pytest.fixture
def tool(newer: str, tools_jvm: ToolsJvm) -> Callable[..., list[list[str]]]:
    """Runs a tool of 4.3.0 with arguments; the words of each line."""

    def run(name: str, *arguments: str) -> list[list[str]]:
        output = tools_jvm.run(name, "--bootstrap-server", newer, *arguments)
        return [line.split() for line in output.splitlines() if line.strip()]

    return run


@pytest.fixture
def ours(newer: str, capfd: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Runs `barnabas` with arguments: its exit code, what it prints, and its notes."""

    def run(*arguments: str) -> Told:
        code = main([*arguments, "--bootstrap-server", newer])
        return code, *capfd.readouterr()

    return run


def member_of(newer: str, fresh: Fresh) -> tuple[AnyShareConsumer, str, str]:
    """A member that has accepted the records 0 to 3 and 6 of ten, and released the others; the group and the topic."""
    group, topic = fresh("g"), fresh("t")
    create_topic(newer, topic, 1)
    write(newer, topic, range(RECORDS))
    set_group(newer, group, auto_offset_reset="earliest")
    consumer = LibrdkafkaShareConsumer(newer, group, [topic], "explicit", **{"client.id": "worker"})
    records = polled(consumer)
    while len(records) < RECORDS:
        consumer.acknowledge(records, RELEASE)
        consumer.commit()
        records = polled(consumer)
    done = {0, 1, 2, 3, 6}
    consumer.acknowledge([each for each in records if each.offset in done], ACCEPT)
    consumer.acknowledge([each for each in records if each.offset not in done], RELEASE)
    assert consumer.commit() == {(topic, 0): None}
    # A stored start offset is the one from before its acknowledgements: with the next ones it is stored that it has moved.
    consumer.acknowledge(polled(consumer), RELEASE)
    assert consumer.commit() == {(topic, 0): None}
    return consumer, group, topic


def row_of(rows: list[list[str]], *words: str) -> list[str]:
    (found,) = [row for row in rows if row[: len(words)] == list(words)]
    return found


def test_barnabas_groups(newer: str, fresh: Fresh, ours: Callable[..., Told], tmp_path: Path) -> None:
    consumer, group, topic = member_of(newer, fresh)

    def told(*arguments: str, code: int = 0) -> Any:
        found, out, err = ours(*arguments, "--json")
        assert found == code, err
        return json.loads(out) if out and code == 0 else err

    try:
        found = told("groups", "describe", group)
        [member] = found["members"]
        assert (found["type"], found["state"], found["assignor"]) == ("share", "Stable", "simple")
        assert found["group_epoch"] >= found["assignment_epoch"] >= 1
        assert (member["client_id"], member["partitions"], member["target_partitions"]) == (
            "worker",
            [f"{topic}-0"],
            None,
        )
        for command in (("reset", group, "--all-topics", "--to-earliest"), ("delete", group)):
            assert "is Stable: stop its consumers first" in told("groups", *command, code=1)
        assert "is a share group" in told("groups", "remove-members", group, "--all", code=1)
        _, out, note = ours("groups", "describe", group, "--members")
        assert out.split("\n")[0].split("  ")[0] == "MEMBER ID" and "(share group): Stable, 1 member" in note
    finally:
        consumer.close()

    def place() -> tuple[int | None, int | None, int | None]:
        [row] = told("groups", "describe", group)["partitions"]
        return row["current_offset"], row["log_end_offset"], row["lag"]

    assert wait_until(lambda: told("groups", "describe", group)["state"] == "Empty", PATIENCE_S)
    assert place() == (4, RECORDS, 5), "offset 6 is done with, behind the start offset"
    assert {"group": group, "type": "share", "state": "Empty"}.items() <= row_named(
        told("groups", "list"), group
    ).items()
    health = told("cluster", "health")
    [problem] = [each for each in health["problems"] if each["subject"] == f"group {group}"]
    assert (problem["check"], problem["cause"]) == (
        "group without members",
        "it has no members (Empty), and its lag is 5",
    )
    kept = tmp_path / "kept.csv"
    kept.write_text(ours("groups", "reset", group, "--all-topics", "--to-current", "--export")[1])
    assert kept.read_text() == f"{topic},0,4\n"
    told("groups", "reset", group, "--topic", topic, "--to-earliest")
    assert place() == (4, RECORDS, 5), "that was a dry run"
    told("groups", "reset", group, "--topic", topic, "--to-earliest", "--execute")
    assert place() == (0, RECORDS, RECORDS)
    told("groups", "reset", group, "--from-file", str(kept), "--execute")
    assert place() == (4, RECORDS, 6), "what was acknowledged behind it is forgotten"
    assert "as a whole" in told("groups", "delete-offsets", group, "--topic", f"{topic}:0", code=1)
    [deleted] = told("groups", "delete-offsets", group, "--topic", topic, "--execute")
    assert deleted == {"topic": topic, "partition": 0, "current_offset": 4}
    assert told("groups", "describe", group)["partitions"] == []
    told("groups", "delete", group, "--execute")
    assert "there is no group" in told("groups", "describe", group, code=1)
    new = fresh("new")
    told("groups", "reset", new, "--share", "--topic", topic, "--to-latest", "--execute")
    made = told("groups", "describe", new)
    assert (made["type"], made["partitions"][0]["current_offset"], made["total_lag"]) == ("share", RECORDS, 0)
    told("groups", "delete", new, "--execute")


def row_named(rows: list[dict[str, Any]], group: str) -> dict[str, Any]:
    (found,) = [row for row in rows if row["group"] == group]
    return found


@pytest.mark.long
def test_kafka_share_groups(newer: str, fresh: Fresh, tool: Callable[..., list[list[str]]]) -> None:
    consumer, group, topic = member_of(newer, fresh)
    of_group = ("share-groups", "--group", group)
    try:
        member = row_of(tool(*of_group, "--describe", "--members", "--verbose"), group)
        assert "worker" in member and f"{topic}:0" in member
        state = row_of(tool(*of_group, "--describe", "--state"), group)
        assert state[-2:] == ["Stable", "1"]
        assert row_of(tool("share-groups", "--list", "--state"), group) == [group, "Stable"]
        assert row_of(tool("groups", "--list", "--group-type", "share"), group) == [group, "Share", "share"]
    finally:
        consumer.close()
    is_left = wait_until(lambda: row_of(tool(*of_group, "--describe", "--state"), group)[-1] == "0", PATIENCE_S)
    assert is_left
    assert row_of(tool(*of_group, "--describe"), group, topic, "0")[3:] == ["4", "5"]
    verbose = row_of(tool(*of_group, "--describe", "--verbose"), group, topic, "0")
    assert verbose[4:] == ["4", "5"] and verbose[3].isdigit()
    dry = tool(*of_group, "--reset-offsets", "--all-topics", "--to-earliest", "--dry-run")
    assert row_of(dry, group, topic, "0")[3] == "0"
    assert row_of(tool(*of_group, "--describe"), group, topic, "0")[3:] == ["4", "5"]
    tool(*of_group, "--reset-offsets", "--topic", f"{topic}:0", "--to-latest", "--execute")
    assert row_of(tool(*of_group, "--describe"), group, topic, "0")[3:] == [str(RECORDS), "0"]
    assert row_of(tool(*of_group, "--delete-offsets", "--topic", topic), topic) == [topic, "Successful"]
    assert not [row for row in tool(*of_group, "--describe") if row[:2] == [group, topic]]
    assert "successful." in " ".join(word for row in tool(*of_group, "--delete") for word in row)
    assert not [row for row in tool("share-groups", "--list") if row == [group]]


@pytest.mark.long
def test_share_consumers_of_the_tools(newer: str, fresh: Fresh, tools_jvm: ToolsJvm) -> None:
    topic = create_topic(newer, fresh("t"), 2)
    for partition in range(2):
        write(newer, topic, range(partition * RECORDS, (partition + 1) * RECORDS), partition)
    names = [fresh(name) for name in ("console", "again", "verifiable", "perf")]
    for name in names:
        set_group(newer, name, auto_offset_reset="earliest")
    console, again, verifiable, perf = names
    at = ("--bootstrap-server", newer, "--topic", topic)

    def numbers(text: str) -> list[int]:
        return sorted(int(line) for line in text.splitlines() if line.isdigit())

    everything = list(range(2 * RECORDS))
    printed = tools_jvm.run(
        "console-share-consumer",
        *at,
        "--group",
        console,
        "--max-messages",
        str(len(everything)),
        "--timeout-ms",
        "30000",
    )
    assert numbers(printed) == everything
    released = tools_jvm.run(
        "console-share-consumer", *at, "--group", again, "--release", "--max-messages", str(len(everything)),
        "--timeout-ms", "30000", "--formatter-property", "print.delivery=true",
    )  # fmt: skip
    assert sorted(line for line in released.splitlines() if line.startswith("Delivery:")) == sorted(
        f"Delivery:1\t{number}" for number in everything
    )
    events = tools_jvm.run(
        "verifiable-share-consumer", *at, "--group-id", verifiable, "--max-messages", str(len(everything)),
        "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest",
    )  # fmt: skip
    told = [json.loads(line) for line in events.splitlines() if line.startswith("{")]
    acknowledged = sum(each["count"] for each in told if each["name"] == "offsets_acknowledged")
    assert acknowledged == len(everything)
    assert told[0]["name"] == "startup_complete" and told[-1]["name"] == "shutdown_complete"
    figures = tools_jvm.run("share-consumer-perf-test", *at, "--group", perf, "--num-records", str(len(everything)))
    assert figures.splitlines()[-1].split(", ")[5] == str(len(everything))
