"""Write an archive back to topics, at a rate or with the spacing of the original times.

    barnabas pipeline replay --archive /archive --topics orders --target orders-again --rate 1000
    barnabas pipeline replay --archive /archive --speed 10

Reads what the job `archive` has written. `--rate` is in records per second; `--speed 1` keeps the spacing of the records'
timestamps, `--speed 10` is ten times as fast; without both, records are written as fast as possible. Without `--target`
records go to the topics that they came from. The records of a partition keep their order (a timestamp earlier than one
before it does not change it); `--keep-partitions` also keeps their partition.

Records that are due within a second are written together. With `--checkpoint` a replay that was stopped continues; after a
crash the records of one such second may come twice. Archives with decoded values are written as text (string) or JSON
(json, avro).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from barnabas.pipeline.frame import Job, JobFailed, Run
from barnabas.pipeline.options import InvalidOption, Options, folder, option, positive_number, topic, topics
from barnabas.pipeline.pacing import TICK_S, Bucket, Slice, after, slices_at_once, slices_at_rate, slices_at_speed
from barnabas.pipeline.records import write_batch
from barnabas.pipeline.stored import StoredText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def begin(spark: SparkSession, options: Options, run: Run) -> None:
    """Write the archive's records when they are due, until all are written or the run stops."""
    from pyspark import StorageLevel  # noqa: PLC0415

    state = StoredText(spark, options.checkpoint, "replayed") if options.checkpoint else None
    stored = state.read() if state is not None else None
    done = None if stored is None else tuple(json.loads(stored))
    rows = archived(spark, options).persist(StorageLevel.DISK_ONLY)
    try:
        counts = rows.groupBy("_time_ms", "_chunk").count().orderBy("_time_ms", "_chunk")
        slices = after(plan([Bucket(*row) for row in counts.collect()], options), done)
        begun_s = time.monotonic()  # noqa: TID251  the user's process, not the broker
        for each in slices:
            if run.stop.wait(max(0.0, begun_s + each.due_s - time.monotonic())):  # noqa: TID251
                return
            write_slice(rows, each, options)
            run.totals.read += each.records
            run.totals.written += each.records
            if state is not None:
                state.write(json.dumps([each.last.time_ms, each.last.chunk]))
            run.show()
    finally:
        rows.unpersist()


def plan(buckets: list[Bucket], options: Options) -> list[Slice]:
    """Return the slices that the options ask for."""
    if options.rate is not None:
        return slices_at_rate(buckets, options.rate)
    return slices_at_once(buckets) if options.speed is None else slices_at_speed(buckets, options.speed)


def archived(spark: SparkSession, options: Options) -> DataFrame:
    """Return the archive's records with the columns to write, and the bucket of each. Raises JobFailed."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as f  # noqa: PLC0415

    try:
        rows = spark.read.parquet(options.archive)
    except AnalysisException:
        raise JobFailed(f"--archive {options.archive} is no archive, or has no records yet") from None
    if options.topics is not None:
        rows = rows.where(f.col("topic").isin(options.topics.split(",")))
    # Never earlier than the record before it in the partition, so that its order stays.
    earlier = Window.partitionBy("topic", "partition").orderBy("offset")
    interval_ms = 1 if options.speed is None else max(1, int(TICK_S * 1000 * options.speed / 10))
    in_order_ms = f.max(f.unix_millis("timestamp")).over(earlier)
    chunk = f.lit(0) if options.rate is None else f.floor(f.col("offset") / max(1, int(options.rate * TICK_S)))
    target = f.col("topic") if options.target is None else f.lit(options.target)
    return rows.select(
        target.alias("topic"),
        "partition",
        "offset",
        "key",
        f.expr(value_sql(dict(rows.dtypes))).alias("value"),
        "headers",
        (f.floor(in_order_ms / interval_ms) * interval_ms).cast("bigint").alias("_time_ms"),
        chunk.cast("bigint").alias("_chunk"),
        f.col("topic").alias("_source"),
    )


def value_sql(types: dict[str, str]) -> str:
    """Return the value to write as SQL, from the types of an archive's columns. Pure."""
    value = {"binary": "value", "string": "CAST(value AS BINARY)"}.get(
        types["value"], "CAST(TO_JSON(value, MAP('timeZone', 'UTC')) AS BINARY)"
    )
    return f"COALESCE({value}, undecoded)" if "undecoded" in types else value


def write_slice(rows: DataFrame, part: Slice, options: Options) -> None:
    """Write the records of a slice, those of a source partition in order."""
    first, last = (f"STRUCT({bucket.time_ms}L, {bucket.chunk}L)" for bucket in (part.first, part.last))
    place = "STRUCT(_time_ms, _chunk)"
    due = rows.where(f"{place} >= {first} AND {place} <= {last}")
    ordered = due.repartition("_source", "partition").sortWithinPartitions("_source", "partition", "offset")
    kept = ["partition"] if options.keep_partitions else []
    write_batch(ordered.select("topic", "key", "value", "headers", *kept), options)


def check(options: Options) -> None:
    """Raise InvalidOption when both a rate and a speed are given."""
    if options.rate is not None and options.speed is not None:
        raise InvalidOption("--rate and --speed do not go together")


OPTIONS = (
    option("--archive", type=folder, required=True, metavar="FOLDER", help="the output of the job archive"),
    option("--topics", type=topics, metavar="NAME,...", help="write only these topics of the archive"),
    option("--target", type=topic, metavar="TOPIC", help="the topic to write to; without it the original topics"),
    option("--rate", type=positive_number, metavar="NUMBER", help="records per second"),
    option("--speed", type=positive_number, metavar="NUMBER", help="1: the original spacing; 10: ten times faster"),
    option("--keep-partitions", help="write each record to the partition it came from", is_flag=True),
    option("--checkpoint", type=folder, metavar="FOLDER", help="where the job remembers what it has written"),
)
job = Job(
    "replay",
    "Write an archive back to topics, at a rate or with the original spacing.",
    OPTIONS,
    topics=lambda _options: [],
    targets=lambda options: [options.target] if options.target else options.topics.split(",") if options.topics else [],
    begin=begin,
    is_stream=False,
    check=check,
)

if __name__ == "__main__":
    job.main()
