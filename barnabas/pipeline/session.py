"""The Spark session of a job, and what is missing for one.

Rules: what is missing is said in one line. Spark's own messages are shown when SPARK_LOG_LEVEL asks for them. Under
`spark-submit` the master and the packages are the submitter's; started otherwise the job brings its own. Jars are fetched from
Maven's central repository only when a job asks for them (`--connector`, Avro): what is in `~/.m2` is not used, since Ivy gives
up at a POM there without its jar.
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
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.jvm_output import JvmOutput, start_failure
from barnabas.pipeline.options import is_submitted
from barnabas.pipeline.progress import failure_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_SPARK = 4  # its builds are for Scala 2.13 only, which the names of the jars say
FIRST_JAVA = 17  # what Spark 4 asks for
CENTRAL = "https://repo1.maven.org/maven2/"
INSTALL = 'in a clone of Barnabas, pip install ".[spark]"'
WORKERS = "barnabas.spark.daemon"
"""What forks Spark's Python workers."""
NETWORK_LOGGER = "org.apache.kafka.clients.NetworkClient"


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
    settings = {
        "spark.app.name": app_name,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 is long deprecated
    }
    if not with_connector:
        settings["spark.python.daemon.module"] = WORKERS
    if is_submitted():
        spark = _session(settings)
    else:
        spark = _own_session(settings, [connector(version)] * with_connector + [avro(version)] * with_avro)
    if with_connector:
        # All loggers may be off, but a Kafka client that reaches no broker says so: it waits, and nothing else tells.
        log4j: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr, unused-ignore]  # noqa: SLF001
        log4j.core.config.Configurator.setLevel(NETWORK_LOGGER, log4j.Level.WARN)
    return spark


def _session(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log_level(os.environ))
    return spark


def log_level(environment: Mapping[str, str]) -> str:
    """Return the level of Spark's log. A job says by itself why it fails; the rest is for who asks for it, and for the log of
    a cluster."""
    return environment.get("SPARK_LOG_LEVEL", "ERROR" if is_submitted(environment) else "OFF")


def _own_session(settings: Mapping[str, str], packages: Sequence[str]) -> SparkSession:
    """Return a session whose JVM is this process' own. Raises Unavailable."""
    # Spark leaves folders (artifacts, spark-warehouse) where its JVM starts.
    start_folder = tempfile.mkdtemp(prefix="barnabas-spark-")
    atexit.register(shutil.rmtree, start_folder, ignore_errors=True)
    ivy_settings = Path(start_folder, "ivysettings.xml")
    ivy_settings.write_text(ivy_settings_text(os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", CENTRAL)), encoding="utf-8")
    settings = {**settings, **own_settings(packages, str(ivy_settings), os.environ)}
    from py4j.protocol import Py4JError  # noqa: PLC0415

    with contextlib.chdir(start_folder), variables(worker_settings(os.environ)):
        output = _start_jvm(settings, packages)
        try:
            return _session(settings)
        except Py4JError as error:
            raise Unavailable(f"Spark did not start: {failure_reason(str(error))}") from None
        finally:
            if output is not None:
                output.started()


def _start_jvm(settings: Mapping[str, str], packages: Sequence[str]) -> JvmOutput | None:
    """Start the JVM, unless this process has one or its messages are asked for. Raises Unavailable."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:  # noqa: SLF001
        return None
    output = None if "SPARK_LOG_LEVEL" in os.environ else JvmOutput()
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    try:
        gateway = launch_gateway(conf, {} if output is None else {"stderr": output.descriptor})
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        why = "its own message is above" if output is None else start_failure(output.failed())
        fetched = f"; it fetches {' and '.join(packages)} at the first start" if packages else ""
        raise Unavailable(f"Spark did not start: {why}{fetched}") from None
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  a session takes the JVM that is there
    return output


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
