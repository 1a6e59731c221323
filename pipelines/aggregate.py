"""Count and sum a topic's records in windows of event time, and write the result to another topic.

    python -m pipelines.aggregate --source orders --target orders-per-minute --checkpoint /var/lib/aggregate

A source record's value is a JSON object with a key, an amount and a time (`--key-field` and so on name its fields): the
key a text, the amount a number, the time ISO 8601 (UTC when it names no zone) or a number of seconds or milliseconds since the
epoch. A record without an amount is only counted.
Left out are records without a key or a time, and those whose time is further ahead of their timestamp than `--ahead`: one
wrong clock would otherwise close every window.

A target record's key is the key, its value JSON with key, start, end, count, and sum, min, max of the amounts. A window is
written once, when the watermark (the latest time seen, less `--late`) has passed its end; windows still open when the job
stops are kept in the checkpoint. Records of a closed window are left out, so `--late` also covers how far partitions may
be apart. Spark's Kafka sink delivers at least once: after a crash a window may come twice, with the same content.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.session import begin, command_line, connection, duration, read_topics, run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


FIRST_MILLISECONDS = 100_000_000_000  # as seconds the year 5138, as milliseconds 1973
END_MILLISECONDS = 100_000_000_000_000


def event_schema(options: argparse.Namespace) -> str:
    """The JSON object's fields as Spark's DDL; all texts, as one that does not fit its type would void the record."""
    fields = (options.key_field, options.amount_field, options.time_field)
    return ", ".join(f"{quoted(name)} STRING" for name in dict.fromkeys(fields))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def event_amount(text: Column) -> Column:
    """The number that a JSON field tells, null when it tells none; NaN and infinity would spoil a sum for good."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    number = text.try_cast("double")
    return f.when(f.abs(number) < float("inf"), number)


def event_time(text: Column) -> Column:
    """The time that a JSON field tells, null when it tells none."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    number = text.try_cast("double")
    return (
        f.when(text.rlike(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"), text.try_cast("timestamp"))
        .when(~text.rlike(r"^[0-9.]+(E[0-9]+)?$") | (number >= END_MILLISECONDS), f.lit(None))
        .when(number >= FIRST_MILLISECONDS, f.timestamp_millis(number.cast("bigint")))
        .otherwise(f.timestamp_seconds(number))
    )


def windows(records: DataFrame, options: argparse.Namespace) -> DataFrame:
    """One row a key and closed window, with the columns `key` and `value` of the target topic."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - a job's --help works without Spark

    event = f.from_json(f.col("value").cast("string"), event_schema(options))
    events = (
        records.select("timestamp", event.alias("event"))
        .select(
            "timestamp",
            f.col("event").getField(options.key_field).alias("key"),
            event_amount(f.col("event").getField(options.amount_field)).alias("amount"),
            event_time(f.col("event").getField(options.time_field)).alias("time"),
        )
        .where("key IS NOT NULL AND time IS NOT NULL")
        .where(f.col("time") <= f.col("timestamp") + f.expr(f"INTERVAL {options.ahead}"))
        .withWatermark("time", options.late)
    )
    counted = events.groupBy(f.window("time", options.window), "key").agg(
        f.count("*").alias("count"),
        f.coalesce(f.sum("amount"), f.lit(0.0)).alias("sum"),
        f.min("amount").alias("min"),
        f.max("amount").alias("max"),
    )
    value = f.to_json(
        f.struct(
            "key", f.col("window.start").alias("start"), f.col("window.end").alias("end"), "count", "sum", "min", "max"
        )
    )
    return counted.select("key", value.alias("value"))


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    rows = windows(read_topics(spark, options, options.source), options)
    sink = rows.writeStream.format("kafka").options(**connection(options)).option("topic", options.target)
    return begin(sink.outputMode("append"), options)


def parser() -> argparse.ArgumentParser:
    arguments = command_line("Count and sum a topic's records in windows of event time, to another topic.")
    arguments.add_argument("--source", required=True, metavar="TOPIC", help="topic to read")
    arguments.add_argument("--target", required=True, metavar="TOPIC", help="topic to write")
    arguments.add_argument("--window", type=duration, default="1 minute", help="length of a window")
    arguments.add_argument(
        "--late", type=duration, default="30 seconds", help="how late a record may come and still be counted"
    )
    arguments.add_argument(
        "--ahead", type=duration, default="1 hour", help="how far its time may lie ahead of its timestamp"
    )
    arguments.add_argument("--key-field", default="key", metavar="NAME", help="the JSON field to group by")
    arguments.add_argument("--amount-field", default="amount", metavar="NAME", help="the JSON field to sum")
    arguments.add_argument("--time-field", default="time", metavar="NAME", help="the JSON field with the event's time")
    return arguments


def main(arguments: list[str] | None = None) -> None:
    run("aggregate", start, parser().parse_args(arguments))


if __name__ == "__main__":
    main()
