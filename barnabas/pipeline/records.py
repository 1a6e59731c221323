"""How jobs read and write topics: one place that chooses between the Python source and Spark's Kafka connector.

Rows have the connector's columns: key, value, topic, partition, offset, timestamp, timestampType, headers. Rows to write have
topic, value, and optionally key, headers and partition.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.options import AVAILABLE_NOW, Options
from barnabas.pipeline.progress import DROPPED, READ_COUNTS, WRITE_COUNTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def source_format(spark: SparkSession, options: Options) -> str:
    """Return the name of the format that reads and writes topics, which is registered if it has to be."""
    if options.connector:
        return "kafka"
    spark.dataSource.register(importlib.import_module("barnabas.spark").BarnabasDataSource)  # needs pyspark and pyarrow
    return "barnabas"


def connection(options: Options) -> dict[str, str]:
    """Return the options for reading and writing alike."""
    if options.connector:
        return {**options.command_config, "kafka.bootstrap.servers": options.bootstrap_servers}
    return source_options(options.command_config, options.bootstrap_servers)


def source_options(settings: Mapping[str, str], servers: str) -> dict[str, str]:
    """Return the options of the Python source for a cluster, with those of a file of settings that have an effect on it."""
    useful = importlib.import_module("barnabas.spark.client.settings_file").with_effect(settings) if settings else {}
    return {**useful, "kafka.bootstrap.servers": servers}


def stream_options(options: Options, topics: str) -> dict[str, str]:
    """Return the options for reading `topics` (comma separated) as a stream."""
    settings = connection(options) | {
        "subscribe": topics,
        "includeHeaders": "true",
        "failOnDataLoss": str(not options.tolerate_loss).lower(),
        "maxOffsetsPerTrigger": str(options.max_offsets_per_trigger),
    }
    if not options.connector:
        # On PySpark 4.0 a Python source learns from the checkpoint alone where a batch begins.
        settings["checkpointLocation"] = options.checkpoint
    return settings | start_options(options.starting_offsets)


def start_options(where: str) -> dict[str, str]:
    """Return the options for reading from `earliest`, `latest`, or a time in ms."""
    if where in ("earliest", "latest"):
        return {"startingOffsets": where}
    # A partition without a record at or after that time starts at its end.
    return {"startingTimestamp": where, "startingOffsetsByTimestampStrategy": "latest"}


def read_stream(spark: SparkSession, options: Options, topics: str) -> DataFrame:
    """Return the records of `topics` as a stream."""
    if not options.connector:
        # Otherwise Spark ends a bounded run of a Python source without the batch that closes windows.
        spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    return spark.readStream.format(source_format(spark, options)).options(**stream_options(options, topics)).load()


def read_batch(spark: SparkSession, options: Options, topics: str, more: Mapping[str, str] | None = None) -> DataFrame:
    """Return the existing records of `topics`; `more` are options of the source, such as startingOffsets."""
    settings = connection(options) | {
        "subscribe": topics,
        "includeHeaders": "true",
        "failOnDataLoss": str(not options.tolerate_loss).lower(),
    }
    settings |= more or {}
    return spark.read.format(source_format(spark, options)).options(**settings).load()


def write_batch(rows: DataFrame, options: Options, cluster: Mapping[str, str] | None = None) -> None:
    """Append rows to the topics that they name; `cluster` has the client settings of another cluster."""
    settings = connection(options) if cluster is None else dict(cluster)
    rows.write.format(source_format(rows.sparkSession, options)).options(**settings).mode("append").save()


def write_stream(rows: DataFrame, options: Options, mode: str = "append") -> StreamingQuery:
    """Start a query that appends rows to the topics that they name, and counts them."""
    counted = rows.observe(WRITE_COUNTS, _count().alias("written"))
    sink = counted.writeStream.format(source_format(rows.sparkSession, options)).options(**connection(options))
    return start(sink.outputMode(mode), options)


def start(writer: DataStreamWriter, options: Options) -> StreamingQuery:
    """Start a query with the checkpoint and the trigger of the options."""
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger).start()


def keep(rows: DataFrame, reasons: Mapping[str, Column], counts: Mapping[str, Column] | None = None) -> DataFrame:
    """Count the rows that are read, and drop those for which one of `reasons` is true, each counted with its first reason.

    `counts` are more conditions to count rows by, without dropping them.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    reason = f.coalesce(*(f.when(condition, f.lit(name)) for name, condition in reasons.items()), f.lit(None))
    metrics: list[Any] = [_count().alias("read")]
    metrics += [f.count_if(f.col("_dropped") == name).alias(f"{DROPPED}{name}") for name in reasons]
    metrics += [f.count_if(condition).alias(name) for name, condition in (counts or {}).items()]
    return rows.withColumn("_dropped", reason).observe(READ_COUNTS, *metrics).where("_dropped IS NULL").drop("_dropped")


def observed(rows: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return the rows, and a function that returns how many of them went by in the action that follows."""
    from pyspark.sql import Observation  # noqa: PLC0415

    observation = Observation()
    return rows.observe(observation, _count().alias("rows")), lambda: int(observation.get["rows"])


def header(name: str) -> Column:
    """Return the last value of a record's header as bytes, null without one."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    matching = f.filter("headers", lambda each: each["key"] == name)
    return f.when(f.size(matching) > 0, f.element_at(matching, -1)["value"])


def _count() -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.count(f.lit(1))
