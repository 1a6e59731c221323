"""Count and sum a topic's records in windows of event time, and write the result to another topic.

    barnabas pipeline aggregate --source orders --target orders-per-minute --checkpoint /var/lib/aggregate

A source record's value is a JSON object with a key, an amount and a time (`--key-field` and so on name its fields): the
key a text, the amount a number, the time ISO 8601 (UTC when it names no zone) or a number of seconds or milliseconds since the
epoch. A record without an amount is only counted.
Dropped, and counted with the reason, are records without a key or a time, and those whose time is further ahead of their
timestamp than `--ahead`: one wrong clock would otherwise close every window.

A target record's key is the key, its value JSON with key, start, end, count, and sum, min, max of the amounts. A window is
written once, when the watermark (the latest time seen, less `--late`) has passed its end; windows still open when the job
stops are kept in the checkpoint. Records of a closed window are dropped, so `--late` also covers how far partitions may
be apart; Spark counts them as late once for each key, window and task of a batch. A window is written exactly
once; with `--connector`, after a crash, perhaps twice with the same content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.frame import Job, Run
from barnabas.pipeline.options import Options, duration, option, topic
from barnabas.pipeline.records import keep, read_stream, write_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


FIRST_MILLISECONDS = 100_000_000_000  # as seconds the year 5138, as milliseconds 1973
END_MILLISECONDS = 100_000_000_000_000


def event_schema(options: Options) -> str:
    """Return the JSON object's fields as Spark's DDL; all texts, as one that does not fit its type would void the record."""
    fields = (options.key_field, options.amount_field, options.time_field)
    return ", ".join(f"{quoted(name)} STRING" for name in dict.fromkeys(fields))


def quoted(name: str) -> str:
    """Return a field's name as SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


def event_amount(text: Column) -> Column:
    """Return the number in a JSON field, null when there is none; NaN and infinity would spoil a sum for good."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    number = text.try_cast("double")
    return f.when(f.abs(number) < float("inf"), number)


def event_time(text: Column) -> Column:
    """Return the time in a JSON field, null when there is none. One without a zone is in UTC, whatever the session's zone."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    number = text.try_cast("double")
    in_utc = f.concat(text.try_cast("timestamp_ntz").cast("string"), f.lit("Z"))
    return (
        f.when(text.rlike(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]*)?\s*$"), in_utc.try_cast("timestamp"))
        .when(text.rlike(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"), text.try_cast("timestamp"))
        .when(~text.rlike(r"^[0-9.]+(E[0-9]+)?$") | (number >= END_MILLISECONDS), f.lit(None))
        .when(number >= FIRST_MILLISECONDS, f.timestamp_millis(number.cast("bigint")))
        .otherwise(f.timestamp_seconds(number))
    )


def windows(records: DataFrame, options: Options) -> DataFrame:
    """Return one row for each key and closed window, with the columns `key` and `value` of the target topic."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - a job's --help works without Spark

    event = f.from_json(f.col("value").cast("string"), event_schema(options))
    events = records.select("timestamp", event.alias("event")).select(
        "timestamp",
        f.col("event").getField(options.key_field).alias("key"),
        event_amount(f.col("event").getField(options.amount_field)).alias("amount"),
        event_time(f.col("event").getField(options.time_field)).alias("time"),
    )
    dropped = {
        "no key": f.col("key").isNull(),
        "no time": f.col("time").isNull(),
        "time too far ahead": f.col("time") > f.col("timestamp") + f.expr(f"INTERVAL {options.ahead}"),
    }
    events = keep(events, dropped).withWatermark("time", options.late)
    counted = events.groupBy(f.window("time", options.window), "key").agg(
        f.count("*").alias("count"),
        f.coalesce(f.sum("amount"), f.lit(0.0)).alias("sum"),
        f.min("amount").alias("min"),
        f.max("amount").alias("max"),
    )
    value = f.to_json(
        f.struct(
            "key", f.col("window.start").alias("start"), f.col("window.end").alias("end"), "count", "sum", "min", "max"
        ),
        {"timeZone": "UTC"},
    )
    return counted.select("key", value.alias("value"))


def begin(spark: SparkSession, options: Options, _run: Run) -> StreamingQuery:
    """Start the query."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    rows = windows(read_stream(spark, options, options.source), options)
    return write_stream(rows.withColumn("topic", f.lit(options.target)), options)


OPTIONS = (
    option("--source", type=topic, required=True, metavar="TOPIC", help="topic to read"),
    option("--target", type=topic, required=True, metavar="TOPIC", help="topic to write"),
    option("--window", type=duration, default="1 minute", help="length of a window", metavar="DURATION"),
    option(
        "--late",
        type=duration,
        default="30 seconds",
        help="how late a record may come and still be counted",
        metavar="DURATION",
    ),
    option(
        "--ahead",
        type=duration,
        default="1 hour",
        help="how far a record's time may be ahead of its timestamp",
        metavar="DURATION",
    ),
    option("--key-field", default="key", metavar="NAME", help="the JSON field to group by"),
    option("--amount-field", default="amount", metavar="NAME", help="the JSON field to sum"),
    option("--time-field", default="time", metavar="NAME", help="the JSON field with the event's time"),
)
job = Job(
    "aggregate",
    "Count and sum a topic's records in windows of event time, to another topic.",
    OPTIONS,
    topics=lambda options: [options.source],
    targets=lambda options: [options.target],
    begin=begin,
)

if __name__ == "__main__":
    job.main()
