"""Each kind of read and write of the Python source, once, as a user's program does it: in a plain session of its own.

    python tests/interop/spark/kinds.py BOOTSTRAP_SERVERS DATA_DIRECTORY FOLDER

The topic `full` has records, `empty` and `copied` have none. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from barnabas.spark import BarnabasDataSource

servers, data, folder = sys.argv[1:4]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.warehouse.dir": folder,
    "spark.sql.artifact.isolation.enabled": "false",
}
AT = json.dumps({"full": {"0": 3, "1": 3}})


def main() -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(BarnabasDataSource)
    brokers = {"kafka.bootstrap.servers": servers}

    def read(**options: str) -> list[list[Any]]:
        rows = spark.read.format("barnabas").options(**options).load()
        times = rows.selectExpr("partition", "offset", "cast(value as string)", "unix_millis(timestamp)")
        return sorted(list(row) for row in times.collect())

    def stream(source: str) -> None:
        options = {**brokers, "subscribe": source, "startingOffsets": "earliest"}
        rows = spark.readStream.format("barnabas").options(**options).load()
        sink = rows.selectExpr("value", "partition", "timestamp").writeStream.format("barnabas")
        sink = sink.options(**brokers, topic="copied", checkpointLocation=f"{folder}/{source}")
        sink.trigger(availableNow=True).start().awaitTermination()

    found: dict[str, Any] = {"version": spark.version, "brokers": read(**brokers, subscribe="full")}
    found["files"] = read(path=data, subscribe="full")
    for name, place in (("of brokers", brokers), ("of files", {"path": data})):
        found[f"nothing {name}"] = [
            *read(**place, subscribe="empty"),
            *read(**place, subscribePattern="nothing"),
            *read(**place, subscribe="full", startingOffsets=AT, endingOffsets=AT),
        ]
    stream("empty")
    stream("full")
    found["copied"] = read(**brokers, subscribe="copied")
    spark.sql("select 'batch' as value").write.format("barnabas").mode("append").options(
        **brokers, topic="copied"
    ).save()
    found["written"] = len(read(**brokers, subscribe="copied"))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
