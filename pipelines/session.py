"""The Spark session that the jobs share, with Kafka's connector, and what every job's command line says."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# The connector must match Spark's and Scala's version.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


def spark_session(app_name: str) -> SparkSession:
    """A session with the Kafka connector; SPARK_MASTER and SPARK_CONF_* style settings of spark-submit go first."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a job's --help works without Spark

    builder = (
        SparkSession.builder.appName(app_name)
        .master(os.environ.get("SPARK_MASTER", "local[2]"))
        .config("spark.jars.packages", CONNECTOR)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", os.environ.get("SPARK_SHUFFLE_PARTITIONS", "2"))
        .config("spark.ui.enabled", "false")
    )
    if "SPARK_IVY" in os.environ:
        builder = builder.config("spark.jars.ivy", os.environ["SPARK_IVY"])
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(os.environ.get("SPARK_LOG_LEVEL", "WARN"))
    return spark


def command_line(description: str) -> argparse.ArgumentParser:
    """The options that every job has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--bootstrap-servers", default="localhost:9092", help="brokers, host:port,...")
    parser.add_argument("--checkpoint", required=True, help="folder that remembers how far the job has come")
    parser.add_argument("--starting-offsets", default="earliest", help="earliest or latest, for the very first start")
    parser.add_argument("--max-offsets-per-trigger", type=int, help="records per batch at the most")
    parser.add_argument(
        "--once", action="store_true", help="process what is there in bounded batches, then end; else run until stopped"
    )
    parser.add_argument("--interval", default="10 seconds", help="how often a batch begins, without --once")
    return parser


def read_topics(spark: SparkSession, options: argparse.Namespace, topics: str) -> DataFrame:
    """The records of `topics` (comma separated) as a stream, with the connector's columns."""
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("subscribe", topics)
        .option("startingOffsets", options.starting_offsets)
        .option("includeHeaders", "true")
    )
    if options.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
    return reader.load()


def trigger(options: argparse.Namespace) -> dict[str, bool | str]:
    """The arguments of `DataStreamWriter.trigger` that the command line asks for."""
    return {"availableNow": True} if options.once else {"processingTime": options.interval}


def wait_for(query: StreamingQuery) -> None:
    """Run until the query ends or the user interrupts; an interrupt stops it between two batches."""
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
