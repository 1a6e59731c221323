"""Check topics for losses and repetitions, and how long records took from topic to topic.

    barnabas pipeline audit --topics orders,orders-fr
    barnabas pipeline audit --topics orders,orders-fr,refunds --trace 7f3a --trace-header trace

Prints, for the existing records: for each partition the records, and the offsets that are absent; for each producer (headers
`barnabas-producer` and `barnabas-sequence`, a decimal number that grows by one with each record in a topic) the numbers
that are missing and the records that are repeated; from the first topic to each other one, percentiles of the time between
the records of the same producer and number. With `--trace` the path of one message: its records in all topics, by time.
`--output` also writes the counts for each topic, partition and minute as Parquet. `--strict` ends with 1 when something is
missing or repeated.

`minutes`, `sequences`, `gaps`, `latencies` and `path` return the same as DataFrames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.pipeline.audit_figures import PRODUCER, SEQUENCE, Offsets, Sequences, table, verdict
from barnabas.pipeline.frame import Job, JobFailed, Run
from barnabas.pipeline.options import (
    LOSS_OPTION,
    POSITIVE,
    InvalidOption,
    Options,
    folder,
    option,
    starting_offsets,
    topics,
)
from barnabas.pipeline.records import read_batch, start_options
from barnabas.pipeline.rules import header_sql, literal
from barnabas.spark.texts import time_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PERCENTILES = (0.5, 0.95, 0.99, 1.0)


def numbered(records: DataFrame) -> DataFrame:
    """Return what the audit needs of the records, with `producer` and `sequence`, null where a record has none."""
    return records.selectExpr(
        "topic",
        "partition",
        "offset",
        "timestamp",
        f"CAST({header_sql(PRODUCER)} AS STRING) AS producer",
        f"TRY_CAST(CAST({header_sql(SEQUENCE)} AS STRING) AS BIGINT) AS sequence",
    )


def minutes(records: DataFrame) -> DataFrame:
    """Return the counts and offsets of each topic, partition and minute of the records' timestamps."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    grouped = records.groupBy("topic", "partition", f.date_trunc("minute", "timestamp").alias("minute"))
    return grouped.agg(
        f.count("*").alias("records"), f.min("offset").alias("first_offset"), f.max("offset").alias("last_offset")
    )


def sequences(records: DataFrame) -> DataFrame:
    """Return, for each topic and producer of `numbered` records, the number of records and of distinct sequence numbers."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    counted = records.where("producer IS NOT NULL AND sequence IS NOT NULL").groupBy("topic", "producer")
    return counted.agg(
        f.count("*").alias("records"),
        f.countDistinct("sequence").alias("distinct"),
        f.min("sequence").alias("first"),
        f.max("sequence").alias("last"),
    )


def gaps(records: DataFrame) -> DataFrame:
    """Return the ranges of sequence numbers that are missing: topic, producer, first_missing, last_missing."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as f  # noqa: PLC0415

    known = (
        records.where("producer IS NOT NULL AND sequence IS NOT NULL")
        .select("topic", "producer", "sequence")
        .distinct()
    )
    following = f.lead("sequence").over(Window.partitionBy("topic", "producer").orderBy("sequence"))
    return (
        known.withColumn("following", following)
        .where("following > sequence + 1")
        .selectExpr("topic", "producer", "sequence + 1 AS first_missing", "following - 1 AS last_missing")
    )


def latencies(records: DataFrame, first_topic: str) -> DataFrame:
    """Return, for each other topic, percentiles of the time in ms since the same record's first time in `first_topic`."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    known = records.where("producer IS NOT NULL AND sequence IS NOT NULL")
    timed = known.groupBy("topic", "producer", "sequence").agg(f.min(f.unix_millis("timestamp")).alias("ms"))
    begun = timed.where(f.col("topic") == first_topic).select("producer", "sequence", f.col("ms").alias("begun_ms"))
    taken = timed.where(f.col("topic") != first_topic).join(begun, ["producer", "sequence"])
    found = taken.groupBy("topic").agg(
        f.count("*").alias("records"),
        f.percentile(f.col("ms") - f.col("begun_ms"), f.lit(list(PERCENTILES))).alias("ms"),
    )
    return found.selectExpr(
        "topic", "records", "ms[0] AS p50_ms", "ms[1] AS p95_ms", "ms[2] AS p99_ms", "ms[3] AS max_ms"
    )


def path(records: DataFrame, header: str, value: str) -> DataFrame:
    """Return the records with a header of this value, by time: where a message has been."""
    found = records.where(f"CAST({header_sql(header)} AS STRING) = {literal(value)}")
    return found.select("timestamp", "topic", "partition", "offset").orderBy(
        "timestamp", "topic", "partition", "offset"
    )


def begin(spark: SparkSession, options: Options, run: Run) -> None:
    """Print the tables. Raises JobFailed when `--strict` finds a loss."""
    records = read_batch(spark, options, options.topics, start_options(options.starting_offsets))
    if options.trace is not None:
        found = path(records, options.trace_header, options.trace)
        rows = found.selectExpr("UNIX_MILLIS(timestamp)", "topic", "partition", "offset").collect()
        run.totals.read = len(rows)
        names = ("timestamp", "topic", "partition", "offset")
        lines = [(None if ms is None else time_text(ms), *place) for ms, *place in rows]
        run.report(table(f"the path of {options.trace_header} = {options.trace}", names, lines, options.rows))
        return
    known = numbered(records).persist()
    try:
        report_tables(known, options, run)
    finally:
        known.unpersist()


def report_tables(known: DataFrame, options: Options, run: Run) -> None:
    """Print what the audit found in `numbered` records. Raises JobFailed when `--strict` finds a loss."""
    by_minute = minutes(known)
    totals = by_minute.groupBy("topic", "partition").agg(
        {"records": "sum", "first_offset": "min", "last_offset": "max"}
    )
    columns = ("topic", "partition", "sum(records)", "min(first_offset)", "max(last_offset)")
    offsets = sorted((Offsets(*row) for row in totals.select(*columns).collect()), key=lambda each: each.topic)
    run.totals.read = sum(each.records for each in offsets)
    rows = [(each.topic, each.partition, each.records, each.first, each.last, each.absent) for each in offsets]
    run.report(table("offsets", ("topic", "partition", "records", "first", "last", "absent"), rows, options.rows))
    found = sorted(
        (Sequences(*row) for row in sequences(known).collect()), key=lambda each: (each.topic, each.producer)
    )
    if found:
        report_sequences(known, found, options, run)
    if options.output is not None:
        by_minute.write.mode("overwrite").parquet(options.output)
    problem = verdict(found)
    run.report(f"verdict: {problem or 'nothing is missing or repeated' if found else 'no record has sequence numbers'}")
    if options.strict and problem is not None:
        raise JobFailed(problem)


def report_sequences(known: DataFrame, found: list[Sequences], options: Options, run: Run) -> None:
    """Print the tables of records with sequence numbers."""
    names = ("topic", "producer", "records", "first", "last", "missing", "repeated")
    lines = [(s.topic, s.producer, s.records, s.first, s.last, s.missing, s.duplicates) for s in found]
    run.report(table("sequences", names, lines, options.rows))
    missing = gaps(known).orderBy("topic", "producer", "first_missing").limit(options.rows + 1).collect()
    if missing:
        run.report(table("gaps", ("topic", "producer", "first missing", "last missing"), missing, options.rows))
    if "," in options.topics:
        first = options.topics.split(",")[0]
        taken = latencies(known, first).orderBy("topic").collect()
        percentiles = ("topic", "records", "p50 ms", "p95 ms", "p99 ms", "max ms")
        run.report(table(f"time since {first}", percentiles, taken, options.rows))


def check(options: Options) -> None:
    """Raise InvalidOption for a trace without its header."""
    if (options.trace is None) != (options.trace_header is None):
        raise InvalidOption("--trace VALUE and --trace-header NAME go together")


def starting(text: str) -> str:
    """Parse `earliest` or a time."""
    if text == "latest":
        raise click.BadParameter("'latest' leaves nothing to audit; valid is earliest or a time")
    return starting_offsets(text)


OPTIONS = (
    option(
        "--topics",
        type=topics,
        required=True,
        metavar="NAME,...",
        help="the topics, in the order in which messages pass through them",
    ),
    option(
        "--starting-offsets",
        type=starting,
        default="earliest",
        metavar="WHERE",
        help="where to begin: earliest or a time (2026-01-31T10:00:00Z)",
    ),
    option(
        "--output", type=folder, metavar="FOLDER", help="also write the counts of each minute as Parquet to this folder"
    ),
    option("--strict", help="end with exit code 1 when something is missing or repeated", is_flag=True),
    option("--trace", metavar="VALUE", help="print only the path of the message whose header has this value"),
    option("--trace-header", metavar="NAME", help="the header that identifies a message"),
    LOSS_OPTION,
    option("--rows", type=POSITIVE, default=20, metavar="COUNT", help="the largest number of rows in a table"),
)
job = Job(
    "audit",
    "Check topics for gaps, repetitions and latencies; follow one message through topics.",
    OPTIONS,
    topics=lambda options: options.topics.split(","),
    begin=begin,
    is_stream=False,
    is_report=True,
    check=check,
)

if __name__ == "__main__":
    job.main()
