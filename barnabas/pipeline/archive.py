"""Archive topics to Parquet, by topic and day.

    barnabas pipeline archive --topics orders,payments --output /archive --checkpoint /var/lib/archive

Layout: OUTPUT/topic=T/date=YYYY-MM-DD/batch=B/*.parquet with partition, offset, timestamp, key (bytes), value (bytes, or
decoded as `--value-format` says; then also `undecoded`, the bytes that are not of that format), headers; the date is the
record's timestamp in UTC. Any reader of Parquet can read it, also while the job runs.

Every record is there exactly once, also when the job is killed at any moment and started again. The checkpoint has
the offsets of each batch before it starts, so a batch that is done again has the same records; it has folders of its own,
and replaces what its first attempt left there. (Spark's plain file sink would keep such leftovers, visible to every reader
but Spark.) A batch's name has the checkpoint's id: with a new checkpoint on an old archive records come twice, but never
replace others.

A killed job may leave a hidden folder OUTPUT/.spark-staging-*; it can be deleted when no job writes there. OUTPUT must be on
a file system with a rename (local, HDFS), not on an object store whose committer cannot replace folders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.frame import Job, Run
from barnabas.pipeline.options import POSITIVE, Options, folder, option, topics
from barnabas.pipeline.records import keep, observed, read_stream, start
from barnabas.pipeline.values import VALUE_OPTIONS, check_value_options, decoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FOLDERS = ("topic", "date", "batch")
UTC_DATE = "DATE_FROM_UNIX_DATE(CAST(FLOOR(UNIX_MILLIS(timestamp) / 86400000D) AS INT))"
"""The date of a record's timestamp as SQL. TO_DATE would take the zone of the session, which may be the caller's."""
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "undecoded", "headers")


def batch_name(query_id: str, batch_id: int) -> str:
    """Return a name that sorts by time within one checkpoint, and is the same for every attempt at a batch."""
    return f"{batch_id:010d}-{query_id[:8]}"


def write_files(records: DataFrame, batch_id: int, options: Options) -> int:
    """Put one batch in its folders, in place of what an earlier attempt put there. Returns the number of records."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - a job's --help works without Spark

    query_id = records.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "not within a streaming query"
    columns = [name for name in COLUMNS if name in records.columns]
    rows = records.select(
        "topic", f.expr(UTC_DATE).alias("date"), f.lit(batch_name(query_id, batch_id)).alias("batch"), *columns
    )
    if options.records_per_file is not None:
        # The same offsets of all partitions go to one task, and so to one file as long as they are few.
        rows = rows.repartition("topic", "date", f.floor(f.col("offset") / options.records_per_file))
    rows, count = observed(rows)
    writer = rows.sortWithinPartitions(*FOLDERS, "partition", "offset").write.mode("overwrite")
    writer = writer.option(
        "partitionOverwriteMode", "dynamic"
    )  # replaces only the folders that this batch has rows for
    if options.records_per_file is not None:
        writer = writer.option("maxRecordsPerFile", options.records_per_file)
    writer.partitionBy(*FOLDERS).parquet(options.output)
    return count()


def begin(spark: SparkSession, options: Options, run: Run) -> StreamingQuery:
    """Start the query."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    records = decoded(spark, read_stream(spark, options, options.topics), options, options.topics)
    counts = {"undecoded": f.col("undecoded").isNotNull()} if "undecoded" in records.columns else {}

    def write(rows: DataFrame, batch_id: int) -> None:
        run.totals.written += write_files(rows, batch_id, options)

    return start(keep(records, {}, counts).writeStream.foreachBatch(write), options)


OPTIONS = (
    option("--topics", type=topics, required=True, metavar="NAME,...", help="topics to read"),
    option("--output", type=folder, required=True, metavar="FOLDER", help="the archive"),
    option(
        "--records-per-file",
        type=POSITIVE,
        metavar="COUNT",
        help="merge the records of a batch into few files of at most so many records",
    ),
    *VALUE_OPTIONS,
)
job = Job(
    "archive",
    "Archive topics to Parquet by topic and day, each record exactly once.",
    OPTIONS,
    topics=lambda options: options.topics.split(","),
    begin=begin,
    check=check_value_options,
)

if __name__ == "__main__":
    job.main()
