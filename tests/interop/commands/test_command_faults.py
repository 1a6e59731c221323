"""Commands while brokers of ours go away: what reads to the end is complete, and what cannot be had is said."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from tests.interop.conftest import need_java
from tests.oracle.admin import Admin
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.cluster import OURS, Cluster

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

RECORDS = 30_000
VALUE_BYTES = 500  # so that far more is left to fetch than a client has in its queue
FEW = (
    "--consumer-property",
    "queued.max.messages.kbytes=100",
    "--consumer-property",
    "max.partition.fetch.bytes=50000",
)
PATIENCE_S = 120


def started(cluster: Cluster, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli", *arguments, "--bootstrap-server", cluster.bootstrap_servers],
        cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_a_reading_goes_on_behind_the_death_of_a_leader_and_is_complete() -> None:
    """The reader waits for its own pipe while the leader dies: most of the records are fetched from the next one."""
    need_java()
    with Cluster((OURS,) * 3, settings={"min.insync.replicas": "1"}) as cluster:
        admin = Admin(cluster)
        admin.create("orders", {0: [1, 2, 3]})
        admin.create("single", {0: [1]})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("orders", f"{number:0{VALUE_BYTES}}")
            producer.poll(0)
        producer.produce("single", "value")
        assert producer.flush(PATIENCE_S) == 0
        with started(cluster, "consume", "orders", "--until-end", *FEW) as reading:
            assert reading.stdout is not None and reading.stderr is not None
            found = [int(reading.stdout.readline())]
            cluster.brokers[1].kill()
            cluster.wait_for("another leads", lambda: cluster.leader_id("orders") in (2, 3))
            found += map(int, reading.stdout)
            assert reading.wait(PATIENCE_S) == 0
            told = reading.stderr.read().splitlines()
            assert all(
                line.startswith(("connection lost", "connected again", "waiting for records")) for line in told
            ), told
        assert found == list(range(RECORDS))
        code, out, err = ended(started(cluster, "find", "orders", "--value-contains", f"{RECORDS - 1}", "--json"))
        assert code == 0
        assert json.loads(out)["offset"] == RECORDS - 1
        assert f"1 hit in {RECORDS} records" in err
        for arguments in (
            ("consume", "single", "--until-end"),
            ("find", "single", "--key", "k"),
            ("records", "delete", "single", "--all"),
            ("transactions", "producers", "single"),
        ):
            code, _, err = ended(started(cluster, *arguments))
            assert code == 1
            assert "partition single-0" in err and "barnabas cluster health" in err
        code, out, err = ended(started(cluster, "partitions", "elect", "--election-type", "unclean", "--json"))
        assert (code, [(row["topic"], row["partition"]) for row in json.loads(out)]) == (0, [("single", 0)])
        assert "--execute elects leaders" in err
        code, _, err = ended(started(cluster, "consume", "single", "--from-beginning", "--timeout-ms", "500"))
        assert (code, "without leader are single-0" in err) == (1, True)
        code, out, _ = ended(started(cluster, "topics", "offsets", "single", "--json"))
        assert (code, json.loads(out)[0]["end_offset"]) == (1, None)
