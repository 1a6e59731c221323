"""Count and sum a topic's records in windows of event time, and write the result to another topic.

    python -m pipelines.aggregate --source orders --target orders-per-minute --checkpoint /var/lib/aggregate

A source record's value is JSON: {"key": "...", "amount": 12.5, "time": "2026-01-31T10:00:00Z"}; records that are not are
left out. A target record's key is `key`, its value JSON: {"key", "start", "end", "count", "sum"}. A window is written
once, when the watermark (the latest time seen less `--late`) has passed its end. Spark's Kafka sink delivers at least
once: after a crash a window may come twice, with the same content, so consumers keep the last one per key and start.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.session import command_line, read_topics, spark_session, trigger, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

VALUE_SCHEMA = "key STRING, amount DOUBLE, time TIMESTAMP"


def windows(records: DataFrame, window: str, late: str) -> DataFrame:
    """One row a key and closed window, with the columns `key` and `value` of the target topic."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - a job's --help works without Spark

    events = (
        records.select(f.from_json(f.col("value").cast("string"), VALUE_SCHEMA).alias("event"))
        .select("event.*")
        .where("key IS NOT NULL AND time IS NOT NULL")
        .withWatermark("time", late)
    )
    counted = events.groupBy(f.window("time", window), "key").agg(
        f.count("*").alias("count"), f.coalesce(f.sum("amount"), f.lit(0.0)).alias("sum")
    )
    value = f.to_json(
        f.struct("key", f.col("window.start").alias("start"), f.col("window.end").alias("end"), "count", "sum")
    )
    return counted.select("key", value.alias("value"))


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    rows = windows(read_topics(spark, options, options.source), options.window, options.late)
    return (
        rows.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("topic", options.target)
        .option("checkpointLocation", options.checkpoint)
        .outputMode("append")
        .trigger(**trigger(options))
        .start()
    )


def parser() -> argparse.ArgumentParser:
    arguments = command_line("Aggregate a topic in windows of event time, to another topic.")
    arguments.add_argument("--source", required=True, help="topic to read")
    arguments.add_argument("--target", required=True, help="topic to write")
    arguments.add_argument("--window", default="1 minute", help="length of a window")
    arguments.add_argument("--late", default="30 seconds", help="how late a record may come and still be counted")
    return arguments


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    wait_for(start(spark_session("aggregate"), options))


if __name__ == "__main__":
    main()
