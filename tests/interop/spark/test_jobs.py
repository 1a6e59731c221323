"""Each job once on a small topic, in one Spark session, without a jar. What jobs do in all cases stands in the long tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import aggregate, archive, audit, deduplicate, mirror, replay, route
from tests.interop.spark.feed import REPOSITORY
from tests.interop.spark.job_cases import JOB_TIMEOUT_S, Given, consume, need_spark, produce, run_job
from tests.oracle import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

START_MS = 1_769_853_600_000  # 2026-01-31T10:00:00Z
TOPICS = (
    "orders", "replayed", "sales", "sales-per-minute", "routed", "routed-fr", "dead", "clicks", "clicks-once",
    "west.orders", "early", "early-per-minute",
)  # fmt: skip
ORDERS = [
    Given({"n": n}, f"k{n % 4}", {"barnabas-producer": "p", "barnabas-sequence": str(n)}, START_MS + n * 100)
    for n in range(20)
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="module")
def servers(data: Path) -> Iterator[str]:
    need_spark()
    with EmbeddedBroker(dict.fromkeys(TOPICS, 1), {"log.retention.ms": -1, "log.dirs": data}) as broker:
        produce(broker.bootstrap_servers, "orders", ORDERS)
        yield broker.bootstrap_servers


def content(servers: str, topic: str) -> list[tuple[str | None, Any, dict[str, str], int]]:
    return [(each.key, each.value, each.headers, each.timestamp_ms) for each in consume(servers, topic)]


def test_archive_and_replay(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    run = run_job(archive.job, spark, bootstrap_servers=servers, topics="orders", output=tmp_path / "archive",
                  checkpoint=tmp_path / "checkpoint")  # fmt: skip
    assert run.totals.summary() == "read 20, dropped 0, wrote 20"
    rows = spark.read.parquet(str(tmp_path / "archive")).orderBy("offset").collect()
    assert [(row["topic"], row["offset"], row["key"]) for row in rows] == [
        ("orders", n, f"k{n % 4}".encode()) for n in range(20)
    ]
    run = run_job(replay.job, spark, bootstrap_servers=servers, archive=tmp_path / "archive", target="replayed")
    assert run.totals.written == 20
    assert [each[:3] for each in content(servers, "replayed")] == [each[:3] for each in content(servers, "orders")]


def test_aggregate(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    at = ("10:00:10", "10:00:50", "10:02:00")
    sales = [
        Given({"key": "a", "amount": n, "time": f"2026-01-31T{time}Z"}, "a") for n, time in enumerate(at, 1)
    ]  # fmt: skip
    produce(servers, "sales", [*sales, Given(b"no JSON")])
    settings = {"source": "sales", "target": "sales-per-minute", "checkpoint": tmp_path / "checkpoint"}
    run = run_job(aggregate.job, spark, bootstrap_servers=servers, **settings)
    assert run.totals.summary() == "read 4, dropped 1 (1 no key), wrote 1"
    (found,) = consume(servers, "sales-per-minute")
    assert (found.key, found.value["count"], found.value["sum"], found.value["start"]) == (
        "a", 2, 3.0, "2026-01-31T10:00:00.000Z",
    )  # fmt: skip


def test_dates_and_times_are_in_utc_whatever_the_zone_of_the_session(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    """A program of the user may have a session in New York, where this is the evening of the day before."""
    early_ms, at = 1_769_821_200_000, "2026-01-31T01:00:05"
    sales = [Given({"key": "a", "amount": 1, "time": at}), Given({"key": "a", "time": "2026-01-31T01:30:00"})]
    produce(servers, "early", [each._replace(timestamp_ms=early_ms) for each in sales])
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        run_job(archive.job, spark, bootstrap_servers=servers, topics="early", output=tmp_path / "archive",
                checkpoint=tmp_path / "checkpoint")  # fmt: skip
        run_job(aggregate.job, spark, bootstrap_servers=servers, source="early", target="early-per-minute",
                checkpoint=tmp_path / "aggregate")  # fmt: skip
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [folder.name for folder in (tmp_path / "archive" / "topic=early").iterdir()] == ["date=2026-01-31"]
    (found,) = consume(servers, "early-per-minute")
    assert (found.value["start"], found.value["end"]) == ("2026-01-31T01:00:00.000Z", "2026-01-31T01:01:00.000Z")


def test_route(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    produce(servers, "routed", [Given({"country": "FR"}, "a", {"trace": "1"}), Given(b"no JSON", "b")])
    run = run_job(route.job, spark, bootstrap_servers=servers, source="routed", dead_letter="dead", json=True,
                  checkpoint=tmp_path / "route", rule=["value.country = FR -> routed-fr"])  # fmt: skip
    assert run.totals.summary() == "read 2, dropped 0, wrote 2, 1 dead letters"
    assert [each[:3] for each in content(servers, "routed-fr")] == [("a", {"country": "FR"}, {"trace": "1"})]
    (dead,) = consume(servers, "dead")
    assert (dead.key, dead.headers["barnabas-reason"]) == ("b", "the value is no JSON")


def test_deduplicate(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    clicks = [Given("1", "a", {"id": "x"}), Given("2", "a", {"id": "x"}), Given("3", "a", {"id": "y"}), Given("4")]
    produce(servers, "clicks", clicks)
    run = run_job(deduplicate.job, spark, bootstrap_servers=servers, source="clicks", target="clicks-once",
                  by="header.id", within="10 minutes", checkpoint=tmp_path / "checkpoint")  # fmt: skip
    assert run.totals.dropped == {"no header.id": 1, "duplicate": 1}
    assert sorted(each.headers["id"] for each in consume(servers, "clicks-once")) == ["x", "y"]


def test_audit(spark: SparkSession, servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run = run_job(audit.job, spark, bootstrap_servers=servers, topics="orders", strict=True)
    assert run.totals.read == 20
    assert "verdict: nothing is missing or repeated" in capsys.readouterr().out
    run_job(audit.job, spark, bootstrap_servers=servers, topics="orders", trace="8", trace_header="barnabas-sequence")
    assert "  2026-01-31T10:00:00.800Z  orders  0          8" in capsys.readouterr().out


def test_mirror(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """To topics with a prefix, which may be those of the same cluster."""
    run = run_job(mirror.job, spark, bootstrap_servers=servers, target_servers=servers, topics="orders", prefix="west.",
                  checkpoint=tmp_path / "checkpoint")  # fmt: skip
    assert run.totals.summary() == "read 20, dropped 0, wrote 20"
    assert content(servers, "west.orders") == content(servers, "orders")


@pytest.mark.usefixtures("servers")
def test_inspect(data: Path, tmp_path: Path) -> None:
    """As a process, in an environment that is not activated: it says what it does, and Spark says nothing."""
    job = [sys.executable, "-m", "barnabas", "pipeline", "inspect", "--topic", "orders", "--path", str(data), "--exact"]
    left_out = ("PYSPARK_PYTHON", "SPARK_LOG_LEVEL")
    inherited = {name: value for name, value in java.spark_environment().items() if name not in left_out}
    done = subprocess.run(
        job, env={**inherited, "PATH": os.defpath, "PYTHONPATH": str(REPOSITORY)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in ("records        20", "distinct_keys  4", "headers        40", "none   "):
        assert line in done.stdout, done.stdout
    first, *lines, last = done.stderr.splitlines()
    assert (first, last) == ("inspect: starting Spark", "inspect: done; read 20, dropped 0, wrote 0")
    assert [line for line in lines if not line.startswith(("inspect: stage ", "inspect: Spark plans "))] == []
    assert list(tmp_path.iterdir()) == []
