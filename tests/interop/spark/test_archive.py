"""The jobs archive (on Spark's connector) and aggregate (without a jar): what they decode, count and say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import aggregate, archive
from tests.interop.spark.feed import REPOSITORY
from tests.interop.spark.job_cases import JOB_TIMEOUT_S, Given, consume, need_spark, produce, run_job
from tests.oracle import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}, {"name": "shop", "type": "string"}]}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    need_spark()
    with EmbeddedBroker({"counted-target": 2}, {"log.retention.ms": -1, "num.partitions": 2}) as broker:
        yield broker.bootstrap_servers


def test_values_are_decoded_and_what_does_not_decode_is_kept(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    avro_file = tmp_path / "order.avsc"
    avro_file.write_text(json.dumps(AVRO))
    ddl_file = tmp_path / "order.ddl"
    ddl_file.write_text("n BIGINT, shop STRING")
    good, bad = {"n": 7, "shop": "Lyon"}, b"\xff\xfe{"
    produce(servers, "values", [Given(good), Given(bad), Given(None)])
    produce(servers, "values-avro", [Given(b"\0\0\0\0\1" + bytes([14, 8]) + b"Lyon"), Given(bad), Given(None)])
    cases = {
        "string": ("values", {"value_format": "string"}, json.dumps(good)),
        "given": ("values", {"value_format": "json", "schema": ddl_file}, (7, "Lyon")),
        "inferred": ("values", {"value_format": "json"}, (7, "Lyon")),
        "avro": (
            "values-avro",
            {"value_format": "avro", "schema": avro_file, "avro_framing": "confluent"},
            (7, "Lyon"),
        ),
    }
    for name, (topic, settings, expected) in cases.items():
        output = tmp_path / name
        run = run_job(archive.job, spark, connector=True, bootstrap_servers=servers, topics=topic, output=output,
                      checkpoint=tmp_path / f"{name}-checkpoint", **settings)  # fmt: skip
        rows = spark.read.parquet(str(output)).orderBy("offset").collect()
        assert [row["value"] if isinstance(row["value"], str | None) else tuple(row["value"]) for row in rows] == [
            expected,
            None,
            None,
        ], name
        assert [row["undecoded"] for row in rows] == [None, bad, None], name
        assert run.totals.summary() == "read 3, dropped 0, wrote 3, 1 undecoded", name
    again = run_job(archive.job, spark, connector=True, bootstrap_servers=servers, topics="values", value_format="json",
                    output=tmp_path / "inferred", checkpoint=tmp_path / "inferred-checkpoint")  # fmt: skip
    assert again.totals.read == 0, "the inferred schema is kept, and nothing is read twice"


def test_files_have_the_size_that_is_asked_for(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    produce(servers, "sized", [Given({"n": n}, partition=n % 2) for n in range(100)])
    for per_file, expected in ((1000, 1), (20, 5)):
        output = tmp_path / str(per_file)
        run_job(archive.job, spark, connector=True, bootstrap_servers=servers, topics="sized", output=output,
                checkpoint=tmp_path / f"{per_file}-checkpoint", records_per_file=per_file)  # fmt: skip
        files = list(output.glob("topic=sized/date=*/batch=*/*.parquet"))
        counts = [spark.read.parquet(str(file)).count() for file in files]
        assert sum(counts) == 100
        assert max(counts) <= per_file
        assert len(files) >= expected
    assert len(list((tmp_path / "1000").glob("topic=sized/date=*/batch=*/*.parquet"))) == 1


def test_the_aggregate_counts_what_it_drops_by_reason(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    at = "2026-01-31T10:00:00Z"
    settings = {
        "bootstrap_servers": servers, "source": "counted", "target": "counted-target",
        "checkpoint": tmp_path / "checkpoint",
    }  # fmt: skip
    first = [
        {"key": "a", "amount": 1, "time": at},
        {"amount": 1, "time": at},
        {"key": "a"},
        {"key": "a", "time": "2099-01-01"},
    ]
    produce(servers, "counted", [Given(each) for each in first])
    run = run_job(aggregate.job, spark, **settings)
    assert run.totals.read == 4
    assert run.totals.dropped == {"no key": 1, "no time": 1, "time too far ahead": 1}
    produce(servers, "counted", [Given({"key": "a", "time": "2026-01-31T10:30:00Z"})])
    run = run_job(aggregate.job, spark, **settings)
    produce(servers, "counted", [Given({"key": "late", "time": at})])
    late = run_job(aggregate.job, spark, **settings)
    assert late.totals.dropped == {"late: after the watermark": 1}
    assert (run.totals.written, late.totals.written) == (1, 0)
    assert [(each.key, each.value["count"]) for each in consume(servers, "counted-target")] == [("a", 1)]


def pipeline(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "barnabas", "pipeline", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY, start_new_session=True,
        env={**java.spark_environment(), "SPARK_LOG_LEVEL": "ERROR"}, **options,
    )  # fmt: skip


def test_what_is_missing_is_said_before_spark_starts(servers: str, tmp_path: Path) -> None:
    arguments = ["archive", "--topics", "nowhere", "--output", tmp_path / "o", "--checkpoint", tmp_path / "c"]
    with pipeline(*arguments, "--bootstrap-servers", servers) as process:
        assert (
            process.communicate(timeout=JOB_TIMEOUT_S)[0]
            == f"archive: topic nowhere does not exist (brokers {servers})\n"
        )
    assert process.returncode == 1


def test_a_job_serves_metrics_shows_progress_and_stops_in_order(servers: str, tmp_path: Path) -> None:
    produce(servers, "stopped", [Given({"n": n}) for n in range(50)])
    arguments = [
        "archive",
        "--connector",
        "--topics",
        "stopped",
        "--output",
        tmp_path / "o",
        "--checkpoint",
        tmp_path / "c",
    ]
    arguments += ["--bootstrap-servers", servers, "--trigger", "1 second", "--metrics-port", "0"]
    process = pipeline(*arguments)
    assert process.stdout is not None
    try:
        port, lines = 0, []
        for line in process.stdout:
            lines.append(line)
            if "/metrics" in line:
                port = int(line.rpartition(":")[2].partition("/")[0])
            if line.startswith("archive: batch 0:"):
                break
        assert port, lines
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        assert 'barnabas_pipeline_records_read_total{job="archive"} 50' in page
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=JOB_TIMEOUT_S)
        assert process.returncode == 0, output
        assert output.splitlines()[-1] == "archive: stopped; read 50, dropped 0, wrote 50"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
