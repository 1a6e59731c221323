"""The README's examples, run as they stand there: Python against a broker or a cluster, commands with Apache Kafka's tools.

Only addresses change: `localhost:9092`, `9093` and `9094` are where the brokers under test happen to be. Commands that would
never end get a limit, console-producer gets a line to send.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.barnabas import REPOSITORY, Barnabas
from tests.oracle.cluster import OURS, Cluster

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(900)]

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
IN_A_CLUSTER = "localhost:9092,localhost:9093,localhost:9094"
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"(?:^|`)((?:kafka-|echo )[^`\n]*)", README, re.MULTILINE)
OFFSETS = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}'
# What would else read on for ever, or not wait for a busy machine.
LIMITS = {"console-consumer": ["--timeout-ms", "10000"], "consumer-groups": ["--timeout", "60000"]}


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    with Barnabas({"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def together() -> Iterator[Cluster]:
    need_java()
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Cluster([OURS] * 3, settings={"replica.selector.class": selector}) as cluster:
        yield cluster


def run_python(example: str, bootstrap: str, folder: Path) -> None:
    program = example.replace(IN_A_CLUSTER, bootstrap).replace("localhost:9092", bootstrap)
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, f"{example}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("example", [example for example in PYTHON if IN_A_CLUSTER not in example])
def test_python_with_a_broker(example: str, alone: str, tmp_path: Path) -> None:
    run_python(example, alone, tmp_path)


def test_the_cluster(together: Cluster, tmp_path: Path) -> None:
    """All of it in the order of the page: later lines look at what earlier ones have made."""
    bootstrap = together.bootstrap_servers
    examples = [example for example in PYTHON if IN_A_CLUSTER in example]
    assert len(examples) >= 2
    assert len(COMMANDS) >= 15
    for example in examples:
        run_python(example, bootstrap, tmp_path)
    (tmp_path / "offsets.json").write_text(OFFSETS, encoding="utf-8")
    for command in COMMANDS:
        line = command.replace("localhost:9092", bootstrap)
        if line.startswith("echo "):
            words, _, target = line.rpartition(" > ")
            (tmp_path / target).write_text(shlex.split(words)[1], encoding="utf-8")
            continue
        script, *arguments = shlex.split(line, comments=True)
        tool = script.removeprefix("kafka-").removesuffix(".sh")
        arguments = [str(tmp_path / each) if each.endswith(".json") else each for each in arguments]
        output = tools.run(tool, [*arguments, *LIMITS.get(tool, [])], standard_input="hello\n")
        assert not re.search(r"^Error|Exception in thread", output, re.MULTILINE), f"{command}\n{output}"
