"""The Spark session of a job, and what is missing for one.

Rules: what is missing is said in one line. Under `spark-submit` the master and the packages are the submitter's; started
otherwise the job brings its own. Jars are fetched from Maven's central repository only when a job asks for them
(`--connector`, Avro): what is in `~/.m2` is not used, since Ivy gives up at a POM there without its jar.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipeline.options import is_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_SPARK = 4  # its builds are for Scala 2.13 only, which the names of the jars say
FIRST_JAVA = 17  # what Spark 4 asks for
CENTRAL = "https://repo1.maven.org/maven2/"
INSTALL = 'in a clone of Barnabas, pip install ".[spark]"'
WORKERS = "barnabas.spark.daemon"
"""What forks Spark's Python workers."""


class Unavailable(RuntimeError):
    """Something that Spark needs is not on this machine; the text says what and how to get it."""


def connector(spark_version: str) -> str:
    """Return the Maven coordinates of Spark's Kafka connector, whose version must be Spark's own."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"


def avro(spark_version: str) -> str:
    """Return the Maven coordinates of Spark's functions for Avro."""
    return f"org.apache.spark:spark-avro_2.13:{spark_version}"


def require_spark() -> str:
    """Return Spark's version, when it and a Java that it can use are here. Raises Unavailable."""
    try:
        import pyspark  # noqa: PLC0415 - a job's --help works without Spark
    except ImportError:
        raise Unavailable(f"PySpark is missing: {INSTALL}") from None
    version = str(pyspark.__version__)
    if int(version.split(".")[0]) < FIRST_SPARK:
        raise Unavailable(f"Spark {FIRST_SPARK} or later is needed, this is {version}: {INSTALL}")
    found = java_version()
    if found is None:
        raise Unavailable(f"Java is missing: install a runtime of Java {FIRST_JAVA} or later, or set JAVA_HOME")
    if found < FIRST_JAVA:
        raise Unavailable(f"Java {FIRST_JAVA} or later is needed, this is {found}: set JAVA_HOME to a newer one")
    return version


def java_version() -> int | None:
    """Return the major version of the Java that Spark will start, None without one."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        return None
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    return parse_java_version(printed)


def parse_java_version(printed: str) -> int | None:
    """Return the major version in what `java -version` prints: 17.0.15 is 17, 1.8.0_402 is 8."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', printed)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2] or 0)
    return minor if major == 1 else major


def spark_session(app_name: str, *, with_connector: bool = False, with_avro: bool = False) -> SparkSession:
    """Return a session in UTC, with the jars that are asked for. Raises Unavailable.

    Without spark-submit: SPARK_MASTER (local[2]), SPARK_IVY (the folder where jars are kept once they were fetched).
    """
    version = require_spark()
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName(app_name).config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # INT96 is long deprecated
    if not with_connector:
        builder = builder.config("spark.python.daemon.module", WORKERS)
    packages = [connector(version)] * with_connector + [avro(version)] * with_avro
    try:
        if is_submitted():
            spark = builder.getOrCreate()
        else:
            # Spark leaves folders (artifacts, spark-warehouse) where its JVM starts.
            start_folder = tempfile.mkdtemp(prefix="barnabas-spark-")
            atexit.register(shutil.rmtree, start_folder, ignore_errors=True)
            ivy_settings = Path(start_folder, "ivysettings.xml")
            ivy_settings.write_text(
                ivy_settings_text(os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", CENTRAL)), encoding="utf-8"
            )
            for name, value in own_settings(packages, str(ivy_settings), os.environ).items():
                builder = builder.config(name, value)
            with contextlib.chdir(start_folder), variables(worker_settings(os.environ)):
                spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        fetched = f"; it fetches {' and '.join(packages)} at the first start" if packages else ""
        raise Unavailable(f"Spark did not start (its own message is above){fetched}") from None
    spark.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "WARN"))
    return spark


def worker_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which Spark's Python workers find this interpreter and this package.

    A local master's workers run in this interpreter, unless PYSPARK_PYTHON names another one. An installed package they find by
    themselves, a checkout is on their PYTHONPATH.
    """
    settings = {}
    if environment.get("SPARK_MASTER", "local").startswith("local") and "PYSPARK_PYTHON" not in environment:
        settings["PYSPARK_PYTHON"] = sys.executable
    root = Path(__file__).resolve().parents[2]
    if not (root / "barnabas" / "_server").is_dir():
        settings["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(root)]))
    return settings


@contextlib.contextmanager
def variables(settings: Mapping[str, str]) -> Iterator[None]:
    """Have environment variables while Spark's JVM starts, which hands them on."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def ivy_settings_text(repository: str) -> str:
    """Return settings of Ivy with one repository, and without `~/.m2`."""
    root = repository.replace("&", "&amp;").replace('"', "&quot;")
    return (
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        f'<ibiblio name="central" m2compatible="true" root="{root}"/></resolvers></ivysettings>\n'
    )


def own_settings(packages: Sequence[str], ivy_settings: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings when nobody submits the job: small, quiet, reachable from this machine only."""
    master = environment.get("SPARK_MASTER", "local[2]")
    settings = {
        "spark.master": master,
        "spark.sql.shuffle.partitions": environment.get("SPARK_SHUFFLE_PARTITIONS", "2"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if packages:
        settings |= {"spark.jars.packages": ",".join(packages), "spark.jars.ivySettings": ivy_settings}
        if "SPARK_IVY" in environment:
            settings["spark.jars.ivy"] = environment["SPARK_IVY"]
    if master.startswith("local"):  # a host name that does not resolve, as in containers, is no hindrance then
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    elif (path := worker_settings(environment).get("PYTHONPATH")) is not None:  # executors of a checkout
        settings["spark.executorEnv.PYTHONPATH"] = path
    return settings
