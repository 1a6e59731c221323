"""Report what a topic consists of: keys, sizes, batches, compression.

    barnabas pipeline inspect --topic orders --path /var/lib/barnabas/data
    barnabas pipeline inspect --topic orders --bootstrap-servers localhost:9092

With `--path` the log files of one or more data directories (or copies of them) are read, without a broker; only then batch
fill and compression are known. Counts of distinct keys are estimates within some percent, or exact with `--exact`.

`keys` and `sizes` return the same as DataFrames.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from barnabas.pipeline.audit_figures import table
from barnabas.pipeline.frame import Job, JobFailed, Run
from barnabas.pipeline.options import LOSS_OPTION, POSITIVE, InvalidOption, Options, option, topic
from barnabas.pipeline.records import read_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from barnabas.spark.files.batch_figures import BatchFigures

SIZES = ("key", "value")
COUNTS = ("records", "distinct_keys", "without_key", "without_time", "tombstones", "headers")


def sizes(records: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return one row: counts of records, keys, records without a key or a time, tombstones and headers, and percentiles of the
    sizes of keys and values in bytes."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    distinct = f.countDistinct("key") if exact else f.approx_count_distinct("key", 0.01)
    columns = [
        f.count("*").alias("records"),
        distinct.alias("distinct_keys"),
        f.count_if(f.col("key").isNull()).alias("without_key"),
        f.count_if(f.col("value").isNull()).alias("tombstones"),
        f.count_if(f.col("timestamp").isNull()).alias("without_time"),
        f.coalesce(f.sum(f.size("headers")), f.lit(0)).alias("headers"),
    ]
    for name in SIZES:
        length = f.octet_length(name)
        columns += [
            f.coalesce(f.sum(length), f.lit(0)).alias(f"{name}_bytes"),
            f.percentile_approx(length, [0.5, 0.99, 1.0]).alias(f"{name}_percentiles"),
        ]
    return records.agg(*columns)


def keys(records: DataFrame) -> DataFrame:
    """Return each key with its records and the bytes of its keys and values, the largest first."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0))
    found = records.groupBy("key").agg(f.count("*").alias("records"), f.sum(size).alias("bytes"))
    return found.orderBy(f.desc("bytes"), f.desc("records"), "key")


def begin(spark: SparkSession, options: Options, run: Run) -> None:
    """Print the report."""
    if options.path is None:
        records = read_batch(spark, options, options.topic)
    else:
        options.connector = False  # which reads no files
        records = read_files(spark, options)
    records = records.select("key", "value", "headers", "timestamp").persist()
    try:
        row = sizes(records, exact=options.exact).collect()[0]
        run.totals.read = row["records"]
        run.report(
            table(f"topic {options.topic}", ("what", "count"), [(name, row[name]) for name in COUNTS], len(COUNTS))
        )
        lengths = [(name, row[f"{name}_bytes"], *(row[f"{name}_percentiles"] or (None, None, None))) for name in SIZES]
        run.report(table("sizes in bytes", ("what", "sum", "p50", "p99", "max"), lengths, 9))
        largest = keys(records).limit(options.rows).collect()
        names = ("key", "records", "bytes")
        run.report(table("largest keys", names, [(key_text(key), *others) for key, *others in largest], options.rows))
    finally:
        records.unpersist()
    if options.path is not None:
        run.report(table("batches", BATCH_NAMES, batch_rows(figures(spark, options)), 9))


def read_files(spark: SparkSession, options: Options) -> DataFrame:
    """Return the records of the topic in the log files."""
    from barnabas.spark import BarnabasDataSource  # noqa: PLC0415  needs pyspark

    spark.dataSource.register(BarnabasDataSource)
    settings = {
        "path": options.path,
        "subscribe": options.topic,
        "includeHeaders": "true",
        "failOnDataLoss": str(not options.tolerate_loss).lower(),
    }
    return spark.read.format("barnabas").options(**settings).load()


BATCH_NAMES = ("codec", "batches", "records", "records/batch", "bytes/batch", "stored bytes", "plain bytes", "ratio")


def figures(spark: SparkSession, options: Options) -> list[BatchFigures]:
    """Return the figures of all batches of the topic, by codec, from tasks that read a file each."""
    from barnabas.spark.files import batch_figures  # noqa: PLC0415  only where log files are read

    files = log_files(options.path.split(","), options.topic)
    of_files = (
        spark.sparkContext.parallelize(files, max(1, len(files))).flatMap(batch_figures.figures_of_file).collect()
    )
    sums: dict[str, BatchFigures] = {}
    for each in of_files:
        total = sums.setdefault(each.codec, batch_figures.BatchFigures(each.codec))
        total.batches += each.batches
        total.records += each.records
        total.size_bytes += each.size_bytes
        total.plain_bytes += each.plain_bytes
    return sorted(sums.values(), key=lambda each: each.codec)


def batch_rows(of_codecs: Sequence[BatchFigures]) -> list[tuple[object, ...]]:
    """Return the rows of the table of batches. Pure."""
    return [
        (
            each.codec,
            each.batches,
            each.records,
            each.records / each.batches,
            each.size_bytes / each.batches,
            each.size_bytes,
            each.plain_bytes,
            each.plain_bytes / each.size_bytes,
        )
        for each in of_codecs
    ]


def log_files(directories: Sequence[str], name: str) -> list[str]:
    """Return the log files of a topic; of several copies of a partition those of the first directory. Raises JobFailed."""
    folders: dict[str, str] = {}
    for directory in directories:
        for entry in sorted(os.listdir(directory)):
            if re.fullmatch(rf"{re.escape(name)}-[0-9]+", entry):
                folders.setdefault(entry, os.path.join(directory, entry))
    files = [
        os.path.join(each, file)
        for each in folders.values()
        for file in sorted(os.listdir(each))
        if file.endswith(".log")
    ]
    if not files:
        raise JobFailed(f"{','.join(directories)} have no log files of topic {name}")
    return files


def key_text(key: bytes | bytearray | None) -> str:
    """Return a key as text: as hexadecimal digits when it is not printable."""
    if key is None:
        return "(none)"
    try:
        text = bytes(key).decode()
    except UnicodeDecodeError:
        return "0x" + bytes(key).hex()
    return text if text.isprintable() else "0x" + bytes(key).hex()


def check(options: Options) -> None:
    """Raise InvalidOption for directories that are not there."""
    for directory in (options.path or "").split(",") if options.path else []:
        if not os.path.isdir(directory):
            raise InvalidOption(f"--path {directory}: not a directory")


OPTIONS = (
    option("--topic", type=topic, required=True, metavar="TOPIC", help="topic to inspect"),
    option("--path", metavar="FOLDER,...", help="read these data directories, and not the brokers"),
    option("--exact", help="count distinct keys exactly", is_flag=True),
    LOSS_OPTION,
    option("--rows", type=POSITIVE, default=10, metavar="COUNT", help="how many of the largest keys to print"),
)
job = Job(
    "inspect",
    "Report a topic's keys, sizes, batch fill, compression and largest keys.",
    OPTIONS,
    topics=lambda options: [] if options.path else [options.topic],
    begin=begin,
    is_stream=False,
    is_report=True,
    check=check,
    needs_brokers=lambda options: options.path is None,
)

if __name__ == "__main__":
    job.main()
