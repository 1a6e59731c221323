"""What the jobs share: the Spark session with Kafka's connector, common options, reading topics, running until stopped.

Rules: a job's `--help` and its errors about options work without Spark and Java; what is missing is said in one line.
Under `spark-submit` the master and the packages are the submitter's; started with plain `python` the job brings its own.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FIRST_SPARK = 4  # its builds are for Scala 2.13 only, which the connector's name says
FIRST_JAVA = 17  # what Spark 4 asks for
DEFAULT_RECORDS_PER_BATCH = 1_000_000
STOP_CHECK_S = 1  # how soon a signal is noticed while a batch runs


class Unavailable(RuntimeError):
    """Something that Spark needs is not on this machine; the text says what and how to get it."""


def connector(spark_version: str) -> str:
    """The Maven coordinates of Kafka's connector: its version must be Spark's own."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"


def require_spark() -> str:
    """Spark's version, when it and a Java that it can use are here. Raises Unavailable."""
    try:
        import pyspark  # noqa: PLC0415 - a job's --help works without Spark
    except ImportError:
        raise Unavailable("PySpark is missing: pip install 'pyspark==4.0.0' (the extra `spark`)") from None
    version = str(pyspark.__version__)
    if int(version.split(".")[0]) < FIRST_SPARK:
        raise Unavailable(f"Spark {FIRST_SPARK} or later is needed, this is {version}: pip install 'pyspark==4.0.0'")
    found = java_version()
    if found is None:
        raise Unavailable(f"Java is missing: install a runtime of Java {FIRST_JAVA} or later, or set JAVA_HOME")
    if found < FIRST_JAVA:
        raise Unavailable(f"Java {FIRST_JAVA} or later is needed, this is {found}: set JAVA_HOME to a newer one")
    return version


def java_version() -> int | None:
    """The major version of the Java that Spark will start, None without one."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    return parse_java_version(told)


def parse_java_version(told: str) -> int | None:
    """From what `java -version` prints: 17.0.15 is 17, 1.8.0_402 is 8."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2] or 0)
    return minor if major == 1 else major


def spark_session(app_name: str) -> SparkSession:
    """A session with the Kafka connector, in UTC. Raises Unavailable.

    With plain python: SPARK_MASTER (local[2]), SPARK_IVY (the folder where the connector is kept once it was fetched).
    """
    version = require_spark()
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName(app_name).config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # INT96 is long deprecated
    try:
        if submitted():
            spark = builder.getOrCreate()
        else:
            for name, value in own_settings(version, os.environ).items():
                builder = builder.config(name, value)
            # Spark leaves folders (artifacts, spark-warehouse) where its JVM starts.
            start_folder = tempfile.mkdtemp(prefix="barnabas-spark-")
            atexit.register(shutil.rmtree, start_folder, ignore_errors=True)
            with contextlib.chdir(start_folder):
                spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise Unavailable(
            f"Spark did not start (its own words are above); it fetches {connector(version)} at the first start"
        ) from None
    spark.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "WARN"))
    return spark


def submitted() -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def own_settings(spark_version: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings when nobody submits the job: small, quiet, reachable from this machine only."""
    master = environment.get("SPARK_MASTER", "local[2]")
    settings = {
        "spark.master": master,
        "spark.jars.packages": connector(spark_version),
        "spark.sql.shuffle.partitions": environment.get("SPARK_SHUFFLE_PARTITIONS", "2"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):  # a host name that does not resolve, as in containers, is no hindrance then
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if "SPARK_IVY" in environment:
        settings["spark.jars.ivy"] = environment["SPARK_IVY"]
    return settings


def command_line(description: str) -> argparse.ArgumentParser:
    """The options that every job has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--bootstrap-servers", default="localhost:9092", metavar="HOST:PORT,...", help="the brokers")
    parser.add_argument("--command-config", type=client_settings, default={}, metavar="FILE",
                        help="properties file with settings of the Kafka client, such as security.protocol")  # fmt: skip
    parser.add_argument("--checkpoint", type=folder, required=True, metavar="FOLDER",
                        help="remembers how far the job has come; keep it, and give each job its own")  # fmt: skip
    parser.add_argument("--starting-offsets", type=starting_offsets, default="earliest", metavar="WHERE",
                        help="earliest, latest or a time (2026-01-31T10:00:00Z), for the very first start")  # fmt: skip
    parser.add_argument("--max-offsets-per-trigger", type=positive, default=DEFAULT_RECORDS_PER_BATCH, metavar="COUNT",
                        help="records in one batch at the most")  # fmt: skip
    parser.add_argument("--tolerate-loss", action="store_true",
                        help="go on when records were deleted before they were read; else the job fails then")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="process what is there, then end; else run until stopped")
    parser.add_argument(
        "--interval", type=duration, default="10 seconds", help="how often a batch begins, without --once"
    )
    return parser


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def folder(text: str) -> str:
    """A folder on any file system that Spark knows; a relative one is on this machine, from here."""
    if submitted() or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        return text
    return os.path.abspath(text)


def duration(text: str) -> str:
    """As Spark writes one: `30 seconds`, `1 minute`."""
    if re.fullmatch(r"[1-9][0-9]{0,8} (second|minute|hour|day)s?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as '30 seconds' or '1 hour'")
    return text


def starting_offsets(text: str) -> str:
    """`earliest`, `latest`, or the time as milliseconds since the epoch (UTC when it names no zone)."""
    if text in ("earliest", "latest"):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not earliest, latest or a time") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    if time.timestamp() < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970")
    return str(int(time.timestamp() * 1000))


def client_settings(path: str) -> dict[str, str]:
    """A properties file (name=value lines, # comments) as the connector's options."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    settings = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        if not line or line.startswith(("#", "!")):
            continue
        if not equals:
            raise argparse.ArgumentTypeError(f"{path}, line {number}: not name=value")
        settings[f"kafka.{name.strip()}"] = value.strip()
    return settings


def connection(options: argparse.Namespace) -> dict[str, str]:
    """The connector's options for reading and writing alike."""
    return {**options.command_config, "kafka.bootstrap.servers": options.bootstrap_servers}


def source_options(options: argparse.Namespace, topics: str) -> dict[str, str]:
    """The connector's options for reading `topics` (comma separated) as a stream."""
    settings = connection(options) | {
        "subscribe": topics,
        "includeHeaders": "true",
        "failOnDataLoss": str(not options.tolerate_loss).lower(),
        "maxOffsetsPerTrigger": str(options.max_offsets_per_trigger),
    }
    if options.starting_offsets in ("earliest", "latest"):
        return settings | {"startingOffsets": options.starting_offsets}
    # A partition without a record at or after that time starts at its end.
    return settings | {"startingTimestamp": options.starting_offsets, "startingOffsetsByTimestampStrategy": "latest"}


def read_topics(spark: SparkSession, options: argparse.Namespace, topics: str) -> DataFrame:
    """The records of `topics` as a stream, with the connector's columns."""
    return spark.readStream.format("kafka").options(**source_options(options, topics)).load()


def begin(writer: DataStreamWriter, options: argparse.Namespace) -> StreamingQuery:
    """Start the query, with the checkpoint and the trigger that the command line asks for."""
    writer = writer.option("checkpointLocation", options.checkpoint)
    return (
        writer.trigger(availableNow=True) if options.once else writer.trigger(processingTime=options.interval)
    ).start()


def run(
    app_name: str,
    start: Callable[[SparkSession, argparse.Namespace], StreamingQuery],
    options: argparse.Namespace,
) -> NoReturn:
    """Be the job's process: until the query ends, or SIGINT or SIGTERM stops it (status 0; 1 when it failed).

    A batch that a stop interrupts is done again at the next start.
    """
    try:
        spark = spark_session(app_name)
    except Unavailable as missing:
        sys.exit(f"{app_name}: {missing}")
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        wait_for(start(spark, options))
    except PySparkException as error:
        sys.exit(f"{app_name}: {error}")
    finally:
        spark.stop()
    sys.exit(0)


def wait_for(query: StreamingQuery) -> None:
    """Return when the query has ended, by itself or through a signal. Raises PySparkException when it failed."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not asked:
            if query.awaitTermination(STOP_CHECK_S):
                return
        query.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
