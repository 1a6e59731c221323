"""The fixture `kafka_broker`, in a project of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROJECT = """
import socket

import pytest


@pytest.fixture(scope="session")
def kafka_broker_settings():
    return {"num.partitions": 2}


SEEN = set()


@pytest.mark.parametrize("turn", [1, 2])
def test_it_serves(kafka_broker, turn):
    host, _, port = kafka_broker.bootstrap_servers.rpartition(":")
    socket.create_connection((host, int(port)), timeout=30).close()
    SEEN.add(port)
    assert len(SEEN) == 1
"""


CLUSTER_PROJECT = """
import pytest


@pytest.mark.parametrize("turn", range(2))
def test_brokers_run_again_after_each_test(kafka_cluster, kafka_broker, turn):
    assert kafka_cluster.broker_ids == (0, 1, 2)
    assert len(kafka_cluster.bootstrap_servers.split(",")) == 3
    first, second, third = kafka_cluster.broker_ids
    kafka_cluster.kill(first)
    kafka_cluster.stop(second)
    kafka_cluster.pause(third)
    kafka_broker.inject("Metadata", "REQUEST_TIMED_OUT", times=0)
    kafka_broker.kill()
"""


def test_the_fixtures_say_what_they_are(tmp_path: Path) -> None:
    answer = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--fixtures",
            "-p",
            "barnabas.pytest_plugin",
            "-p",
            "no:cacheprovider",
            str(tmp_path),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    listed = answer.stdout.split("fixtures defined from barnabas.pytest_plugin")[1]
    assert "kafka_broker.bootstrap_servers` is its address" in listed
    assert "override this fixture" in listed
    assert "no docstring" not in listed


@pytest.mark.parametrize(
    ("project", "options"), [(PROJECT, []), (CLUSTER_PROJECT, []), (CLUSTER_PROJECT, ["-p", "xdist", "-n", "2"])]
)
def test_brokers_serve_all_tests_of_a_run(tmp_path: Path, project: str, options: list[str]) -> None:
    (tmp_path / "test_project.py").write_text(project)
    plugins = ["-p", "barnabas.pytest_plugin", "-p", "no:cacheprovider", *options]
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert "2 passed" in answer.stdout, answer.stdout + answer.stderr
    assert [name for name in os.listdir(tmp_path) if name.startswith("barnabas-")] == []
