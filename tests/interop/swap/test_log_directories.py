"""Moves between log directories with the tools of Apache Kafka 3.9.1, and half-done ones from one broker to the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import BROKERS, need_java
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka
from tests.oracle.process import wait_until

pytestmark = pytest.mark.oracle

TOPIC = "moved"
LINES = [f"{number:05d} " + "x" * 1000 for number in range(9000)]
SLOWLY = 50_000
"""Bytes a second at which a move takes long enough to be seen, three minutes, by tools that start in seconds."""


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in "abc"]


def over(kind: str, paths: list[str]) -> Broker:
    settings = {"log.dirs": ",".join(paths)}
    return Barnabas(settings) if kind == "barnabas" else ApacheKafka(settings)


def server(broker: Broker) -> list[str]:
    return ["--bootstrap-server", broker.bootstrap_servers]


def filled(broker: Broker) -> None:
    tools.run("topics", [*server(broker), "--create", "--topic", TOPIC, "--partitions", "3"])
    tools.run(
        "console-producer",
        [*server(broker), "--topic", TOPIC, "--producer-property", "partitioner.class="
         "org.apache.kafka.clients.producer.RoundRobinPartitioner"],
        standard_input="".join(f"{line}\n" for line in LINES),
    )  # fmt: skip


def consumed(broker: Broker) -> list[str]:
    arguments = ["--topic", TOPIC, "--from-beginning", "--max-messages", str(len(LINES)), "--timeout-ms", "60000"]
    output = tools.run("console-consumer", [*server(broker), *arguments])
    return sorted(line for line in output.splitlines() if line[:5].isdigit())


def described(broker: Broker) -> dict[int, list[tuple[str, bool, int]]]:
    """(directory, is on its way, lag) of every replica, by partition."""
    output = tools.run("log-dirs", [*server(broker), "--describe", "--topic-list", TOPIC])
    told = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    found: dict[int, list[tuple[str, bool, int]]] = {}
    for directory in told["brokers"][0]["logDirs"]:
        assert directory["error"] is None
        for row in directory["partitions"]:
            index = int(row["partition"].rpartition("-")[2])
            found.setdefault(index, []).append((directory["logDir"], row["isFuture"], row["offsetLag"]))
    return found


def plan(folder: Path, wanted: dict[int, str]) -> str:
    rows: list[dict[str, Any]] = [
        {"topic": TOPIC, "partition": index, "replicas": [0], "log_dirs": [path]} for index, path in wanted.items()
    ]
    file = folder / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(file)


def reassign(broker: Broker, file: str, *more: str) -> str:
    return tools.run("reassign-partitions", [*server(broker), "--reassignment-json-file", file, *more])


def eventually(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    assert wait_until(holds, timeout_s), "it never came to hold"


def rotated(broker: Broker, paths: list[str]) -> dict[int, str]:
    """Every partition to the directory behind its own."""
    return {
        index: paths[(paths.index(places[0][0]) + 1) % len(paths)]
        for index, places in sorted(described(broker).items())
    }


def bytes_on_their_way(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/*-future/*.log"))


@pytest.mark.parametrize("kind", BROKERS)
def test_the_tools_move_logs(kind: str, paths: list[str], tmp_path: Path) -> None:
    with over(kind, paths) as broker:
        filled(broker)
        assert sorted(place for ((place, _, _),) in described(broker).values()) == sorted(paths), "one log in each"
        wanted = rotated(broker, paths)
        file = plan(tmp_path, wanted)
        said = reassign(broker, file, "--execute", "--replica-alter-log-dirs-throttle", str(SLOWLY))
        assert said.count("Successfully started moving log directory") == 3
        on_their_way = described(broker)
        assert any(is_future and lag > 0 for places in on_their_way.values() for _, is_future, lag in places)
        assert "is still in progress" in reassign(broker, file, "--verify")
        reassign(broker, file, "--execute", "--additional", "--replica-alter-log-dirs-throttle", "100000000")
        eventually(lambda: "is still in progress" not in reassign(broker, file, "--verify"))
        verified = reassign(broker, file, "--verify")
        assert verified.count("completed") >= 3, verified
        assert described(broker) == {index: [(path, False, 0)] for index, path in wanted.items()}
        assert consumed(broker) == LINES


@pytest.mark.parametrize("kind", BROKERS)
def test_a_move_back_ends_it(kind: str, paths: list[str], tmp_path: Path) -> None:
    with over(kind, paths) as broker:
        filled(broker)
        before = described(broker)
        file = plan(tmp_path, rotated(broker, paths))
        reassign(broker, file, "--execute", "--replica-alter-log-dirs-throttle", "1000")
        back = plan(tmp_path, {index: places[0][0] for index, places in before.items()})
        reassign(broker, back, "--execute", "--additional")
        assert all(is_future is False for places in described(broker).values() for _, is_future, _ in places)
        assert described(broker) == before
        assert consumed(broker) == LINES


def test_what_apache_kafka_has_begun_to_move_goes_on_here(paths: list[str], tmp_path: Path) -> None:
    with ApacheKafka({"log.dirs": ",".join(paths)}) as kafka:
        filled(kafka)
        wanted = rotated(kafka, paths)
        reassign(kafka, plan(tmp_path, wanted), "--execute", "--replica-alter-log-dirs-throttle", str(SLOWLY))
        eventually(lambda: bytes_on_their_way(tmp_path) > 0)
        kafka.kill()
        settings = {"log.dirs": ",".join(paths), "offsets.topic.replication.factor": "1"}
        with Barnabas(settings, zookeeper=kafka.zookeeper) as ours:
            eventually(lambda: len(described(ours)) == 3)
            reassign(ours, str(tmp_path / "plan.json"), "--execute", "--additional",
                     "--replica-alter-log-dirs-throttle", "100000000")  # fmt: skip
            eventually(lambda: described(ours) == {index: [(path, False, 0)] for index, path in wanted.items()})
            assert consumed(ours) == LINES
