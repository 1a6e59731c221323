"""The jobs that read what is there: audit, replay and inspect, without a jar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import archive, audit, inspect, replay
from barnabas.pipeline.frame import JobFailed
from tests.interop.spark.job_cases import Given, consume, need_spark, produce, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

START_MS = 1_769_853_600_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="module")
def servers(data: Path) -> Iterator[str]:
    need_spark()
    topics = {"sent": 2, "inspected": 2, "arrived": 1, "shapes": 2, "played": 2, "played-again": 2}
    with EmbeddedBroker(topics, {"log.retention.ms": -1, "log.dirs": data}) as broker:
        yield broker.bootstrap_servers


def numbered(n: int, at_ms: int, producer: str = "p1") -> Given:
    headers = {"barnabas-producer": producer, "barnabas-sequence": str(n), "trace": f"{producer}-{n}"}
    return Given({"n": n}, str(n), headers, START_MS + at_ms, n % 2)


SENT = [numbered(n, n * 1000) for n in range(100)] + [numbered(7, 0, "p2")]


def test_an_audit_finds_gaps_repetitions_and_latencies(
    spark: SparkSession, servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(servers, "sent", SENT)
    arrived = [n for n in range(100) if n not in (3, 50, 51)] + [99]
    produce(servers, "arrived", [numbered(n, n * 1000 + n)._replace(partition=0) for n in arrived])
    settings: dict[str, Any] = {"bootstrap_servers": servers, "topics": "sent,arrived", "output": tmp_path / "minutes"}
    capsys.readouterr()
    run = run_job(audit.job, spark, **settings)
    printed = capsys.readouterr().out
    assert run.totals.read == 199
    for line in (
        "arrived  0          98       0      97    0",
        "sent     1          51       0      50    0",
        "arrived  p1        98       0      99    3        1",
        "sent     p2        1        7      7     0        0",
        "arrived  p1        3              3",
        "arrived  p1        50             51",
        "arrived  97       49.0    94.2    98.0    99.0",
        "verdict: 3 sequence numbers are missing and 1 record is repeated, of 1 of 3 producers",
    ):
        assert line in printed, printed
    rows = spark.read.parquet(str(tmp_path / "minutes")).where("topic = 'arrived'").orderBy("minute").collect()
    assert [row["records"] for row in rows] == [57, 41]
    with pytest.raises(JobFailed, match="3 sequence numbers are missing"):
        run_job(audit.job, spark, strict=True, **settings)
    capsys.readouterr()
    run_job(audit.job, spark, trace="p1-8", trace_header="trace", **settings)
    printed = capsys.readouterr().out
    assert printed.index("2026-01-31 10:00:08 ") < printed.index("2026-01-31 10:00:08.008")
    assert printed.index("  sent ") < printed.index("  arrived ") if "  sent " in printed else True


def test_an_archive_is_replayed_at_a_rate_in_order_and_continued(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(servers, "shapes", [Given({"n": n}, f"k{n}", {"h": str(n)}, START_MS + n * 100, n % 2) for n in range(60)])
    run_job(archive.job, spark, bootstrap_servers=servers, topics="shapes", output=tmp_path / "archive",
            checkpoint=tmp_path / "checkpoint")  # fmt: skip
    common: dict[str, Any] = {"bootstrap_servers": servers, "archive": tmp_path / "archive"}
    waits: list[float] = []

    class Waiting:
        """Stands for the run's stop: notes what it was to wait, and does not."""

        def __init__(self, stop_after: int) -> None:
            self.stop_after = stop_after

        def wait(self, timeout_s: float) -> bool:
            waits.append(timeout_s)
            return len(waits) > self.stop_after

    def play(stop_after: int, **settings: object) -> Any:
        from barnabas.pipeline.frame import Run

        waits.clear()
        run = Run("replay", is_quiet=True)
        monkeypatch.setattr(run, "stop", Waiting(stop_after))
        replay.begin(spark, replay.job.options(**common, **settings), run)
        return run

    spaced = {"target": "played", "keep_partitions": True, "checkpoint": tmp_path / "replayed", "speed": 1}
    assert play(2, **spaced).totals.written == 20, "two seconds of ten records each"
    assert play(100, **spaced).totals.written == 40
    assert len(waits) == 4, "the other four seconds, one after the other"
    assert play(100, **spaced).totals.written == 0
    found = consume(servers, "played")
    assert [(each.partition, each.value["n"]) for each in found] == [
        *((0, n) for n in range(0, 60, 2)),
        *((1, n) for n in range(1, 60, 2)),
    ]
    assert found[3].headers == {"h": "6"} and found[3].key == "k6"
    run = play(100, target="played-again", rate=10)
    assert run.totals.written == 60
    assert len(waits) == 6, "ten records each"
    assert sorted(each.value["n"] for each in consume(servers, "played-again")) == list(range(60))


def test_a_topic_is_inspected_from_its_log_files_and_from_brokers(
    spark: SparkSession, servers: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(servers, "inspected", SENT)
    for options in ({"path": data}, {"bootstrap_servers": servers}):
        capsys.readouterr()
        run = run_job(inspect.job, spark, topic="inspected", exact=True, rows=2, **options)
        printed = capsys.readouterr().out
        assert run.totals.read == 101
        for line in (
            "records        101",
            "distinct_keys  100",
            "tombstones     0",
            "headers        303",
            "  7    2        ",
        ):
            assert line in printed, printed
        assert ("none   " in printed) == ("path" in options), "batches are known from files"
