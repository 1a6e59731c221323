"""One Spark and one broker for all files of this room that run in this process.

A process has one JVM with the jars that it was started with. It runs in a zone that changes its clocks, and its workers find
modules of the names of server packages first: neither may change what a test sees.

SPARK_CONNECTOR=no leaves out Spark's own connector, which is not published for every version of PySpark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import session
from tests.interop.spark.feed import REPOSITORY
from tests.interop.spark.job_cases import need_spark
from tests.interop.spark.sources import HAS_CONNECTOR, PARTITIONS, Produced, fill_mixed
from tests.oracle import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USERS = ("protocol", "config", "storage", "runtime", "security")
ZONE = "America/New_York"
LEFT_BEHIND = ("artifacts", "spark-warehouse", "metastore_db", "derby.log")  # what Spark drops where it starts


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with our source and, where there is one, with Spark's connector. Its zone is UTC, the machine's is not."""
    need_spark()
    from barnabas.spark import BarnabasDataSource

    folder = tmp_path_factory.mktemp("users")
    for name in USERS:
        (folder / f"{name}.py").write_text('WHOSE = "the user\'s"\n')
    start = java.spark_environment() | {
        "TZ": ZONE,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.python.daemon.module={session.WORKERS} pyspark-shell",
        "SPARK_SHUFFLE_PARTITIONS": "1",
    }
    with session.variables(start):
        spark = session.spark_session("tests", with_connector=HAS_CONNECTOR, with_avro=HAS_CONNECTOR)
    spark.dataSource.register(BarnabasDataSource)
    yield spark
    spark.stop()
    assert not [name for name in LEFT_BEHIND if (REPOSITORY / name).exists()]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of the broker."""
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="session")
def servers(data: Path) -> Iterator[str]:
    """A broker that creates topics with PARTITIONS partitions when they are first used."""
    settings = {
        "log.dirs": data,
        "num.partitions": PARTITIONS,
        "log.segment.bytes": 64 * 1024,
        "log.retention.ms": -1,  # records are as old as their timestamps say
        "log.cleaner.backoff.ms": 100,
        "log.initial.task.delay.ms": 0,
    }
    with EmbeddedBroker({"mixed": PARTITIONS}, settings, log_level="INFO") as broker:
        yield broker.bootstrap_servers
        assert " ERROR " not in broker.log, broker.log


@pytest.fixture(scope="session")
def mixed(servers: str) -> Produced:
    """What is in the topic of that name: records of every codec and shape, alone and in transactions."""
    return fill_mixed(servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return str(request.node.name).replace("[", "-").replace("]", "").replace("test_", "")[:80]


@pytest.fixture(params=["barnabas", "kafka"])
def form(request: pytest.FixtureRequest) -> str:
    """The source, by the name of its format."""
    if request.param == "kafka" and not HAS_CONNECTOR:
        pytest.skip("without Spark's connector")
    return str(request.param)
