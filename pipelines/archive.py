"""Archive topics to Parquet, one folder a topic and day.

    python -m pipelines.archive --topics orders,payments --output /archive --checkpoint /archive/.checkpoint

Every record is written exactly once, also when the job is killed and started again: the checkpoint holds the offsets of
each batch, and Spark's file sink commits a batch's files together. Layout: OUTPUT/topic=T/date=YYYY-MM-DD/*.parquet with
key, value (bytes), headers, partition, offset, timestamp. The date is the record's timestamp in UTC.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.session import command_line, read_topics, spark_session, trigger, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def archive_rows(records: DataFrame) -> DataFrame:
    """The archive's columns, from the connector's."""
    return records.selectExpr(
        "topic", "to_date(timestamp) AS date", "partition", "offset", "timestamp", "key", "value", "headers"
    )


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    rows = archive_rows(read_topics(spark, options, options.topics))
    return (
        rows.writeStream.format("parquet")
        .partitionBy("topic", "date")
        .option("path", options.output)
        .option("checkpointLocation", options.checkpoint)
        .trigger(**trigger(options))
        .start()
    )


def parser() -> argparse.ArgumentParser:
    arguments = command_line("Archive topics to Parquet by date.")
    arguments.add_argument("--topics", required=True, help="comma separated")
    arguments.add_argument("--output", required=True, help="folder of the archive")
    return arguments


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    wait_for(start(spark_session("archive"), options))


if __name__ == "__main__":
    main()
