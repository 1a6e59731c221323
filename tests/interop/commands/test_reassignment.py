"""`barnabas partitions` and `barnabas balance` with three brokers of ours and of Apache Kafka 3.9.1, beside
kafka-reassign-partitions.sh: what one of the two has begun the other throttles anew, verifies, cancels and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.commands import main
from tests.interop.conftest import BROKERS, need_java
from tests.oracle import tools
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.cluster import Cluster
from tests.oracle.process import hear_interrupts, wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

SLOWLY, QUICKLY = "20000", "100000000"
"""Bytes a second: what is moved at the first is on its way for minutes."""
SETTINGS = {
    "default.replication.factor": "1",
    "broker.rack": "r",
    "replica.fetch.max.bytes": "50000",  # what is fetched before a throttle knows of it
    "replica.fetch.response.max.bytes": "50000",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Operator:
    """Runs both tools on one cluster."""

    cluster: Cluster
    folder: Path
    capture: pytest.CaptureFixture[str]

    def ours(self, *arguments: str, code: int = 0) -> str:
        self.capture.readouterr()
        found = main([*arguments, "--bootstrap-server", self.cluster.bootstrap_servers])
        out, err = self.capture.readouterr()
        assert found == code, out + err
        return out + err

    def rows(self, *arguments: str, code: int = 0) -> list[Row]:
        text = self.ours(*arguments, "--json", code=code)
        return list(json.JSONDecoder().raw_decode(text)[0])

    def theirs(self, tool: str, *arguments: str) -> str:
        return tools.run(tool, ["--bootstrap-server", self.cluster.bootstrap_servers, *arguments])

    def reassign(self, plan: str, *arguments: str) -> str:
        return self.theirs("reassign-partitions", "--reassignment-json-file", plan, *arguments)

    def plan(self, topic: str, rows: dict[int, Row | list[int]]) -> str:
        path = self.folder / "plan.json"
        partitions = [
            {"topic": topic, "partition": index} | (row if isinstance(row, dict) else {"replicas": row})
            for index, row in rows.items()
        ]
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(path)

    def filled(self, topic: str, assignment: str) -> str:
        """A topic with three megabytes in each partition."""
        self.ours("topics", "create", topic, "--replica-assignment", assignment, "--config", "min.insync.replicas=1")
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        for partition in range(len(assignment.split(","))):
            for _ in range(300):
                producer.produce(topic, os.urandom(10_000), partition=partition)
        assert producer.flush(30) == 0
        return topic

    def replicas(self, topic: str) -> list[list[int]]:
        """As the controller has stored them: brokers hear of it later."""
        return [replicas for _, replicas in sorted(self.cluster.partitions(topic).items())]

    def throttles(self, topic: str) -> dict[str, dict[str, str]]:
        """Those that are stored, by topic and brokers."""
        paths = (f"topics/{topic}", *(f"brokers/{broker}" for broker in self.cluster.brokers))
        found = {path: (self.cluster.read(f"/config/{path}") or {"config": {}})["config"] for path in paths}
        return {path: {name: value for name, value in settings.items() if "replica" in name and name != "min.insync.replicas"}
                for path, settings in found.items()}  # fmt: skip


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_java()
    folder = tmp_path_factory.mktemp("logs")
    made = Cluster((), settings=SETTINGS)
    for number in (1, 2, 3):
        made.add(number, request.param, {"log.dirs": f"{folder}/{number}a,{folder}/{number}b"})
    with made:
        yield made


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Operator:
    return Operator(cluster, tmp_path, capfd)


def eventually(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, 60), "it never came to hold"


def test_what_is_begun_here_is_verified_and_ended_there_and_the_other_way_round(operator: Operator) -> None:
    topic = operator.filled("both", "1:2,2:3,3:1")
    plan = operator.plan(topic, {0: [3, 2], 1: [2, 3], 2: [3, 2]})
    assert "--execute" in operator.ours("partitions", "reassign", "--plan", plan)
    text = operator.ours("partitions", "reassign", "--plan", plan, "--execute", "--throttle", SLOWLY)
    assert f"partitions verify --plan {plan}" in text
    written = operator.throttles(topic)
    assert written[f"topics/{topic}"] == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3,2:1,2:3",
        "follower.replication.throttled.replicas": "0:3,2:2",
    }
    assert operator.rows("partitions", "verify", "--plan", plan, code=1)[0]["state"] == "moving"
    assert "--additional" in operator.ours("partitions", "reassign", "--plan", plan, "--execute", code=1)
    assert "still in progress" in operator.reassign(plan, "--verify")
    assert "cancelled" in operator.reassign(plan, "--cancel")
    assert not any(operator.throttles(topic).values())

    operator.reassign(plan, "--execute", "--throttle", SLOWLY)
    assert operator.throttles(topic) == written, "both tools write the same"
    assert operator.throttles(topic)["brokers/1"]["leader.replication.throttled.rate"] == SLOWLY
    operator.ours("partitions", "reassign", "--plan", plan, "--execute", "--additional", "--throttle", QUICKLY)
    assert operator.throttles(topic)["brokers/3"]["follower.replication.throttled.rate"] == QUICKLY
    eventually(lambda: main(["partitions", "verify", "--plan", plan, "--preserve-throttles", "--bootstrap-server",
                             operator.cluster.bootstrap_servers]) == 0)  # fmt: skip
    assert any(operator.throttles(topic).values())
    rows = operator.rows("partitions", "verify", "--plan", plan)
    assert [row["state"] for row in rows] == ["done"] * 3
    assert not any(operator.throttles(topic).values())
    assert operator.reassign(plan, "--verify").count("is completed") == 3

    back = operator.plan(topic, {0: [1, 2]})
    operator.reassign(back, "--execute", "--throttle", SLOWLY)
    assert operator.ours("partitions", "cancel", "--plan", back).count("both") == 1
    operator.ours("partitions", "cancel", "--execute")
    assert operator.rows("partitions", "reassignments") == []
    assert not any(operator.throttles(topic).values())


def test_replicas_move_to_log_directories_of_their_brokers(operator: Operator, cluster: Cluster) -> None:
    topic = operator.filled("placed", "1,1")
    described = operator.theirs("log-dirs", "--describe", "--topic-list", topic, "--broker-list", "1")
    [told] = json.loads(next(line for line in described.splitlines() if line.startswith("{")))["brokers"]
    places = {
        int(row["partition"].rpartition("-")[2]): each["logDir"]
        for each in told["logDirs"]
        for row in each["partitions"]
    }
    directories = sorted(each["logDir"] for each in told["logDirs"])
    other = next(path for path in directories if path != places[0])
    moved = {0: {"replicas": [1], "log_dirs": [other]}}
    plan = operator.plan(topic, {**moved, 1: {"replicas": [2], "log_dirs": ["any"]}})
    operator.ours("partitions", "reassign", "--plan", plan, "--execute", "--replica-alter-log-dirs-throttle", SLOWLY)
    assert operator.throttles(topic)["brokers/1"] == {"replica.alter.log.dirs.io.max.bytes.per.second": SLOWLY}
    assert "still in progress" in operator.reassign(plan, "--verify")
    row = operator.rows("partitions", "verify", "--plan", plan, code=1)[0]
    assert (row["state"], row["log_dirs"][0]["log_dir"]) == ("moving", places[0])
    operator.reassign(plan, "--execute", "--additional", "--replica-alter-log-dirs-throttle", QUICKLY)
    eventually(lambda: "Reassignment of replica placed-0-1 completed" in operator.reassign(plan, "--verify"))
    assert [row["state"] for row in operator.rows("partitions", "verify", "--plan", plan)] == ["done"] * 2
    there = next(path for path in cluster.brokers[3].settings["log.dirs"].split(",") if path.endswith("b"))
    arriving = operator.plan(topic, {0: {"replicas": [3], "log_dirs": [there]}})
    operator.ours("partitions", "reassign", "--plan", arriving, "--execute")
    eventually(lambda: "Reassignment of replica placed-0-3 completed" in operator.reassign(arriving, "--verify"))
    assert Path(there, "placed-0").is_dir()
    nowhere = operator.plan(topic, {0: {"replicas": [3], "log_dirs": ["/nowhere"]}})
    assert "LOG_DIR_NOT_FOUND" in operator.ours("partitions", "reassign", "--plan", nowhere, "--execute", code=1)
    assert operator.rows("partitions", "verify", "--plan", nowhere, code=1)[0]["state"] == "differs"


def test_brokers_are_evened_out_drained_and_led_by_the_preferred_replicas(operator: Operator) -> None:
    operator.filled("heavy", "1:2,1:2,1:2,1:2,1:2,1:2")
    options = ("--topics", "heavy", "--sample-seconds", "0.1")
    document = json.loads(operator.ours("balance", *options, "--json").partition("\n}")[0] + "\n}")
    assert document["copied_bytes"] == sum(row["copied_bytes"] for row in document["moves"]) > 9_000_000
    plan, back = str(operator.folder / "out.json"), str(operator.folder / "back.json")
    more = ("--throttle", QUICKLY, "--batch-size", "2", "--output", plan, "--rollback", back)
    assert "batch 2 of" in operator.ours("balance", *options, "--execute", *more)
    assert not any(operator.throttles("heavy").values())
    replicas = operator.replicas("heavy")
    assert {3} <= {broker for each in replicas for broker in each}
    assert [operator.cluster.leader_id("heavy", number) for number in range(6)] == [each[0] for each in replicas]
    eventually(lambda: [row["replicas"] for row in operator.rows("topics", "describe", "heavy")] == replicas)
    assert operator.reassign(plan, "--verify").count("is completed") == len(document["moves"])
    assert "the brokers are even" in operator.ours("balance", *options)
    election = operator.theirs("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert "heavy" not in election.replace("Valid replica already elected", "")
    # Three replicas on three brokers need each of them: the rest is moved.
    operator.ours("topics", "create", "wide", "--replica-assignment", "1:2:3")
    drained = operator.ours(
        "balance", "--drain", "1", "--topics", "heavy,wide", "--sample-seconds", "0", "--execute", code=1
    )
    assert "partitions have changed" in drained
    assert "broker 1 is still needed: 1 replica stays on it (wide-0)" in drained
    assert all(1 not in replicas for replicas in operator.replicas("heavy"))
    assert operator.replicas("wide")[0][0] != 1
    operator.reassign(back, "--execute")


def started(operator: Operator, *options: str) -> subprocess.Popen[str]:
    """`barnabas balance` in a process of its own."""
    line = ("balance", *options, "--sample-seconds", "0", "--execute")
    command = [sys.executable, "-m", "barnabas.cli", *line, "--bootstrap-server", operator.cluster.bootstrap_servers]
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                            preexec_fn=hear_interrupts)  # fmt: skip


def test_an_interrupted_balance_leaves_neither_moves_nor_throttles(operator: Operator) -> None:
    operator.filled("stopped", "2:1,2:1,2:1")
    before = operator.replicas("stopped")
    options = ("--drain", "2", "--topics", "stopped", "--throttle", SLOWLY)
    with started(operator, *options) as process:
        eventually(lambda: len(operator.rows("partitions", "reassignments")) == 3)
        assert any(operator.throttles("stopped").values())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "stopped: 0 of 3 partitions have changed" in said
    assert operator.rows("partitions", "reassignments") == []
    assert not any(operator.throttles("stopped").values())
    assert operator.replicas("stopped") == before


@pytest.mark.long
def test_a_balance_goes_on_while_the_controller_is_killed_and_comes_back(operator: Operator, cluster: Cluster) -> None:
    operator.filled("carried", "2:1,2:1,2:1")
    with started(
        operator, "--drain", "2", "--topics", "carried", "--throttle", "300000", "--batch-size", "1"
    ) as process:
        eventually(lambda: len(operator.rows("partitions", "reassignments")) == 1)
        killed = cluster.controller
        killed.kill()
        cluster.wait_for("another controls", lambda: cluster.controller_id not in (-1, killed.broker_id))
        killed.start()
        _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert "3 partitions have changed" in said
    assert operator.rows("partitions", "reassignments") == []
    assert not any(operator.throttles("carried").values())
    assert all(2 not in replicas for replicas in operator.replicas("carried"))
