"""Archive topics to Parquet, by topic and day.

    python -m pipelines.archive --topics orders,payments --output /archive --checkpoint /var/lib/archive

Layout: OUTPUT/topic=T/date=YYYY-MM-DD/batch=B/*.parquet with partition, offset, timestamp, key and value (bytes),
headers; the date is the record's timestamp in UTC. Any reader of Parquet can read it, also while the job runs.

Every record is there exactly once, also when the job is killed at any moment and started again. The checkpoint holds
the offsets of each batch before it starts, so a batch that is done again has the same records; it has folders of its own,
and replaces what its first attempt left there. (Spark's plain file sink would keep such leftovers, visible to every reader
but Spark.) A batch's name holds the checkpoint's id: with a new checkpoint on an old archive records come twice, but never
replace others.

A killed job may leave a hidden folder OUTPUT/.spark-staging-*; it can be deleted when no job writes there. OUTPUT must be on
a file system with a rename (local, HDFS), not on an object store whose committer cannot replace folders.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.session import begin, command_line, folder, read_topics, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FOLDERS = ("topic", "date", "batch")
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")


def batch_name(query_id: str, batch_id: int) -> str:
    """Sorts by time within one checkpoint; the same for every attempt at a batch."""
    return f"{batch_id:010d}-{query_id[:8]}"


def write_batch(records: DataFrame, batch_id: int, output: str) -> None:
    """Put one batch in its folders, in place of what an earlier attempt put there."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - a job's --help works without Spark

    query_id = records.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "not within a streaming query"
    rows = records.select(
        "topic", f.to_date("timestamp").alias("date"), f.lit(batch_name(query_id, batch_id)).alias("batch"), *COLUMNS
    )
    (
        rows.sortWithinPartitions(*FOLDERS, "partition", "offset")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")  # replaces only the folders that this batch has rows for
        .partitionBy(*FOLDERS)
        .parquet(output)
    )


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    def write(records: DataFrame, batch_id: int) -> None:
        write_batch(records, batch_id, options.output)

    return begin(read_topics(spark, options, options.topics).writeStream.foreachBatch(write), options)


def parser() -> argparse.ArgumentParser:
    arguments = command_line("Archive topics to Parquet by topic and day, each record exactly once.")
    arguments.add_argument("--topics", required=True, metavar="NAME,...", help="topics to read")
    arguments.add_argument("--output", type=folder, required=True, metavar="FOLDER", help="the archive")
    return arguments


def main(arguments: list[str] | None = None) -> None:
    run("archive", start, parser().parse_args(arguments))


if __name__ == "__main__":
    main()
