"""The jobs from an installed wheel, in an empty folder.

Their help and refusals without Java, each of them on this broker and on Apache Kafka, Spark's connector beside a broken
`~/.m2`, and a standalone Spark cluster whose executors have the wheel alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import JOBS
from tests.barnabas.installing import ROOT, build_wheel, install
from tests.interop.conftest import need_java
from tests.interop.spark.job_cases import JOB_TIMEOUT_S, Given, consume, need_spark, produce
from tests.oracle import java
from tests.oracle.kafka import ApacheKafka

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(1200)]

TOPICS = ("orders", "paris", "other", "dead", "once", "windows", "again", "copy-orders")
MINUTE_MS = 60_000
FIRST_MS = 1_769_853_600_000
COUNT = 40
LOOK = """
import importlib.util, json, os, sys
import pyspark
from pyspark.sql import SparkSession
from barnabas.spark import BarnabasDataSource

spark = SparkSession.builder.appName("look").getOrCreate()
spark.dataSource.register(BarnabasDataSource)
rows = spark.read.format("barnabas").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "orders").load()

def look(_):
    import time
    import barnabas.spark.source
    time.sleep(1)  # so that one executor does not do it all
    names = ("protocol", "config", "storage", "runtime", "security")
    found = [name for name in names if importlib.util.find_spec(name) is not None]
    return os.getcwd(), barnabas.spark.source.__file__, found

seen = spark.sparkContext.parallelize(range(8), 8).map(look).collect()
print(json.dumps({"count": rows.count(), "values": rows.selectExpr("sum(length(value))").first()[0], "seen": seen}))
"""


EVERY_JOB = """
import importlib, sys
from barnabas.pipeline import JOBS
from barnabas.pipeline.session import spark_session

spark = spark_session("jobs")
servers = sys.argv[1]

def run(name, **settings):
    job = importlib.import_module(f"barnabas.pipeline.{name}").job
    if job.is_stream:
        settings["checkpoint"] = f"checkpoints/{name}"
    print(f"result {name}:", job.run(spark, bootstrap_servers=servers, **settings).summary(), flush=True)

run("archive", topics="orders", output="archived")
run("route", source="orders", dead_letter="dead", otherwise="other", json=True, rule=["value.key = shop-1 -> paris"])
run("deduplicate", source="orders", target="once", by=["header.id"], within="10 minutes")
run("aggregate", source="orders", target="windows", window="1 minute", late="1 second")
run("audit", topics="orders")
run("mirror", target_servers=servers, topics="orders", prefix="copy-")
run("replay", archive="archived", topics="orders", target="again")
run("inspect", topic="orders")
spark.stop()
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    return install(build_wheel(folder), folder / "environment")


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def barnabas(
    python: Path, folder: Path, *arguments: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python.parent / "barnabas"), "pipeline", *arguments],
        cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=JOB_TIMEOUT_S,
    )  # fmt: skip


def run_job(python: Path, folder: Path, name: str, *arguments: str, **environment: str) -> str:
    """Run a job, which must succeed. Returns its last line."""
    done = barnabas(python, folder, name, *arguments, environment={**java.spark_environment(), **environment})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "archive" else pytest.mark.long) for name in JOBS]
)
def test_help_and_refusals_need_neither_java_nor_a_checkout(name: str, python: Path, empty: Path) -> None:
    without_java = {"PATH": str(python.parent), "HOME": str(empty)}
    told = barnabas(python, empty, name, "--help", environment=without_java)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"Usage: barnabas pipeline {name} ")
    refused = barnabas(python, empty, name, "--bootstrap-servrs", "a:1", environment=without_java)
    assert refused.returncode == 2
    assert "unknown option --bootstrap-servrs: did you mean --bootstrap-servers?" in refused.stderr
    assert list(empty.iterdir()) == []


@contextmanager
def broker(kind: str, data: Path) -> Iterator[str]:
    settings = {"log.retention.ms": -1, "num.partitions": 1}
    if kind == "barnabas":
        with EmbeddedBroker(dict.fromkeys(TOPICS, 1), {**settings, "log.dirs": data}) as running:
            yield running.bootstrap_servers
        return
    need_java()
    with ApacheKafka({name: str(value) for name, value in settings.items()}) as kafka:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
            made.result(30)
        yield kafka.bootstrap_servers


def fill(servers: str) -> None:
    """Orders, every fourth of them a repetition of the one before, and one long after the others."""
    orders = []
    for n in range(COUNT):
        number = n - 1 if n % 4 == 3 else n
        value = {
            "key": f"shop-{number % 3}",
            "amount": number,
            "time": FIRST_MS + number * MINUTE_MS // 10,
            "id": number,
        }
        headers = {"id": str(number), "barnabas-producer": "p", "barnabas-sequence": str(n)}
        orders.append(Given(value, f"shop-{number % 3}", headers, FIRST_MS + number * 1000))
    orders.append(Given(b"no json", "x", {"id": "x"}, FIRST_MS + 3600_000))
    produce(servers, "orders", orders)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["barnabas", "kafka"])
def test_every_job_runs_from_the_wheel(kind: str, python: Path, empty: Path, tmp_path: Path) -> None:
    """One after the other, in one Spark that a program of the user starts."""
    need_spark()
    total, unique = COUNT + 1, COUNT * 3 // 4
    program = tmp_path / "jobs.py"
    program.write_text(EVERY_JOB)
    with broker(kind, tmp_path / "data") as servers:
        fill(servers)
        done = subprocess.run(
            [str(python), str(program), servers],
            cwd=empty, env=java.spark_environment(), capture_output=True, text=True, timeout=3 * JOB_TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        told = dict(
            line.removeprefix("result ").split(": ", 1) for line in done.stdout.splitlines() if "result " in line
        )
        assert set(told) == set(JOBS)
        assert told["archive"] == f"read {total}, dropped 0, wrote {total}"
        assert [found.value for found in consume(servers, "dead")] == [b"no json"]
        paris = consume(servers, "paris")
        assert {found.value["key"] for found in paris} == {"shop-1"}
        assert len(paris) + len(consume(servers, "other")) == COUNT
        assert len(consume(servers, "once")) == unique + 1
        assert consume(servers, "windows")
        original = consume(servers, "orders")
        copied = consume(servers, "copy-orders")
        assert copied[: len(original)] == original[: len(copied)]
        assert len(copied) >= total
        again = sorted(str(found.value) for found in consume(servers, "again"))
        assert again == sorted(str(found.value) for found in original[:total])
    assert {path.name for path in empty.iterdir()} == {"archived", "checkpoints"}


@pytest.mark.long
def test_the_connector_is_found_beside_a_pom_without_its_jar(python: Path, empty: Path, tmp_path: Path) -> None:
    """A POM in `~/.m2` without its jar, as Maven leaves it there: Ivy would take the module from there, and fail."""
    need_spark()
    import pyspark

    name = "spark-sql-kafka-0-10_2.13"
    home = tmp_path / "home"
    module = home / ".m2" / "repository" / "org" / "apache" / "spark" / name / pyspark.__version__
    module.mkdir(parents=True)
    (module / f"{name}-{pyspark.__version__}.pom").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>org.apache.spark</groupId><artifactId>{name}</artifactId><version>{pyspark.__version__}</version></project>"
    )
    environment = {"JAVA_TOOL_OPTIONS": f"-Duser.home={home}", "HOME": str(home)}
    if "SPARK_IVY" in os.environ:
        environment["SPARK_IVY"] = str(tmp_path / "ivy")
    with EmbeddedBroker({"orders": 1}, {"log.retention.ms": -1}) as running:
        produce(running.bootstrap_servers, "orders", [Given(str(n)) for n in range(5)])
        told = run_job(
            python, empty, "archive", "--connector", "--bootstrap-servers", running.bootstrap_servers, "--topics", "orders",
            "--output", "archived", "--checkpoint", "checkpoint", "--trigger", "available-now", **environment,
        )  # fmt: skip
    assert told == "archive: done; read 5, dropped 0, wrote 5"


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """The address of the master that `make spark-cluster` prints."""
    line = [sys.executable, "-m", "pipelines.spark_cluster", "--port", "0", "--ui-port", "0", "--folder", str(folder)]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        master = process.stdout.readline().strip()
        try:
            assert re.fullmatch(r"spark://127\.0\.0\.1:\d+", master), master
            yield master
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert code == 0


@pytest.mark.long
def test_a_standalone_cluster_runs_submitted_programs_and_jobs(python: Path, empty: Path, tmp_path: Path) -> None:
    need_spark()
    import pyspark

    program = empty / "look.py"
    program.write_text(LOOK)
    surroundings = {
        **java.spark_environment(), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python), "SPARK_LOG_LEVEL": "ERROR",
    }  # fmt: skip
    surroundings.pop("PYTHONPATH", None)
    with (
        EmbeddedBroker({"orders": 2}, {"log.retention.ms": -1}) as running,
        spark_cluster(tmp_path / "cluster") as master,
    ):
        servers = running.bootstrap_servers
        produce(servers, "orders", [Given(b"12345", partition=n % 2) for n in range(100)])
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        done = subprocess.run(
            [str(submit), "--master", master, str(program), servers],
            cwd=empty, env=surroundings, capture_output=True, text=True, timeout=JOB_TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        found = json.loads(done.stdout.strip().splitlines()[-1])
        assert (found["count"], found["values"]) == (100, 500)
        assert {file for _, file, _ in found["seen"]} == {
            str(next(python.parents[1].glob("lib/*/site-packages")) / "barnabas" / "spark" / "source.py")
        }
        assert [names for _, _, names in found["seen"] if names] == []
        assert len({folder for folder, _, _ in found["seen"]}) == 2, "both executors worked"
        done = barnabas(
            python, empty, "archive", "--bootstrap-servers", servers, "--topics", "orders", "--output", "archived",
            "--checkpoint", "checkpoint", "--trigger", "available-now", environment={**surroundings, "SPARK_MASTER": master},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert done.stderr.strip().splitlines()[-1] == "archive: done; read 100, dropped 0, wrote 100"
