"""A Spark data source in pure Python, for PySpark 4: no jar, no Kafka client.

    from barnabas.spark import BarnabasDataSource

    spark.dataSource.register(BarnabasDataSource)
    rows = spark.read.format("barnabas").option("kafka.bootstrap.servers", "localhost:9092")
    rows = rows.option("subscribe", "orders").load()

Needs the extra `spark`: `pip install ".[spark]"` in a clone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas import private_imports

if TYPE_CHECKING:
    from barnabas.spark.source import BarnabasDataSource

__all__ = ["BarnabasDataSource"]

private_imports.install()


def __getattr__(name: str) -> Any:
    """Load the data source when it is used: it needs pyspark, and modules of this package do not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from barnabas.spark import source  # noqa: PLC0415  see above

    return getattr(source, name)
