"""What Spark passes to a writer becomes values; times stay what they are in every zone."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="a writer is a class of PySpark; make interop has it")

import barnabas.spark as _spark  # noqa: F401  installs the private names

pa: Any = importlib.import_module("pyarrow")
datasource: Any = importlib.import_module("pyspark.sql.datasource")
sink: Any = importlib.import_module("barnabas.spark.sink")

TIMES_US = (
    1_699_164_000_000_000,  # 1:30 in New York in the night when clocks go back, the first
    1_699_167_600_000_999,  # and the second time
    1_710_054_000_000_000,  # a moment after 2:00 on the day when clocks go forward
    253_402_300_800_000_000,  # the year 10000, which Python's dates do not reach
    0,
    -1,
    None,
)
TIMES_MS = [1_699_164_000_000, 1_699_167_600_000, 1_710_054_000_000, 253_402_300_800_000, 0, -1, None]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "UTC", None])
def test_times_are_milliseconds_whatever_the_zone_of_the_column(zone: str | None) -> None:
    times = pa.array(TIMES_US, pa.int64()).cast(pa.timestamp("us", zone))
    numbers = pa.array(range(len(TIMES_US)))
    batch = pa.RecordBatch.from_arrays([numbers, times], ["value", "timestamp"])
    assert list(sink.values_of([batch, batch])) == [*enumerate(TIMES_MS)] * 2


def test_spark_passes_record_batches_to_both_writers() -> None:
    """Rows have times of the machine's zone, without a word which of two of an hour that comes twice."""
    arrow = (datasource.DataSourceArrowWriter, getattr(datasource, "DataSourceStreamArrowWriter", ()))
    assert issubclass(sink.BatchWriter, arrow)
    assert issubclass(sink.StreamWriter, arrow)
    assert issubclass(sink.StreamWriter, datasource.DataSourceStreamWriter)
