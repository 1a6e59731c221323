"""Both jobs on a broker of their own: `make example-spark`, or `python -m pipelines.example`. Nothing is left behind.

It starts a broker on a free port, writes orders to a topic (with Spark, so that nothing else is needed), archives them,
aggregates them to a second topic, and shows what came out of each.
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

from barnabas import BrokerStartError, EmbeddedBroker
from barnabas.pipeline import aggregate, archive
from barnabas.pipeline.frame import Job
from barnabas.pipeline.session import Unavailable, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = 6_000
SECONDS_BETWEEN = 0.1  # of event time: ten minutes of orders in all
FIRST_ORDER = "2026-01-31 10:00:00"
SHOPS = ("Antwerp", "Lyon", "Turin")


def feed(spark: SparkSession, bootstrap_servers: str) -> None:
    """Orders, and one of an hour later that lets the watermark close the others' windows."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    shops = f.array(*(f.lit(shop) for shop in SHOPS))
    seconds = f.when(f.col("id") == ORDERS, f.lit(3600.0)).otherwise(f.col("id") * SECONDS_BETWEEN)
    orders = spark.range(ORDERS + 1).select(
        f.element_at(shops, (f.col("id") % len(SHOPS) + 1).cast("int")).alias("key"),
        (f.lit(10.0) + f.col("id") % 50).alias("amount"),
        f.timestamp_seconds(f.unix_timestamp(f.lit(FIRST_ORDER)) + seconds).alias("time"),
    )
    (
        orders.select("key", f.to_json(f.struct("key", "amount", "time")).alias("value"))
        .write.format("barnabas")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", "orders")
        .save()
    )


def run(job: Job, spark: SparkSession, **settings: object) -> None:
    """Run a job in this session, after printing the command that does the same."""
    words = [f"--{name.replace('_', '-')} {value}" for name, value in settings.items()]
    print(f"\nbarnabas pipeline {job.name} {' '.join(words)}\n", flush=True)
    print(job.run(spark, **settings).summary(), flush=True)


def show_archive(spark: SparkSession, bootstrap_servers: str, folder: str) -> None:
    """Archive the orders, and count what the archive has."""
    run(archive.job, spark, bootstrap_servers=bootstrap_servers, topics="orders", output=f"{folder}/archive",
        checkpoint=f"{folder}/archive-checkpoint", max_offsets_per_trigger=2500)  # fmt: skip
    rows = spark.read.parquet(f"{folder}/archive")
    rows.groupBy("topic", "date").count().orderBy("topic", "date").show()


def show_aggregate(spark: SparkSession, bootstrap_servers: str, folder: str) -> None:
    """Aggregate the orders, and print the windows."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    run(aggregate.job, spark, bootstrap_servers=bootstrap_servers, source="orders", target="orders-per-minute",
        checkpoint=f"{folder}/aggregate-checkpoint")  # fmt: skip
    schema = "key STRING, start TIMESTAMP, end TIMESTAMP, count BIGINT, sum DOUBLE, min DOUBLE, max DOUBLE"
    records = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", "orders-per-minute")
        .load()
    )
    lines = records.select(f.from_json(f.col("value").cast("string"), schema).alias("line")).select("line.*")
    lines.orderBy("start", "key").show(12)


def main() -> None:
    print("Starting Spark and a broker ...", flush=True)
    try:
        spark = spark_session("example")
    except Unavailable as missing:
        sys.exit(f"example: {missing}")
    try:
        with (
            EmbeddedBroker({"orders": 3, "orders-per-minute": 1}) as broker,
            tempfile.TemporaryDirectory(prefix="barnabas-example-") as folder,
            spark,  # stops before the broker does
        ):
            from barnabas.spark import BarnabasDataSource  # noqa: PLC0415  needs pyspark, which is known to be there

            spark.dataSource.register(BarnabasDataSource)
            print(f"The broker listens on {broker.bootstrap_servers}. Writing {ORDERS + 1} orders ...", flush=True)
            feed(spark, broker.bootstrap_servers)
            show_archive(spark, broker.bootstrap_servers, folder)
            show_aggregate(spark, broker.bootstrap_servers, folder)
    except BrokerStartError as error:
        sys.exit(f"example: {error}")
    print("Done; the broker and its data are gone.")


if __name__ == "__main__":
    main()
