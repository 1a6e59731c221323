"""What Spark passes to the source's readers on each of its versions, and who runs its workers."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="a reader is a class of PySpark; make interop has it")

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.reading.read_options import parse_read
from protocol.records.record import Record, encode_batch

pyspark: Any = importlib.import_module("pyspark")
datasource: Any = importlib.import_module("pyspark.sql.datasource")
source: Any = importlib.import_module("barnabas.spark.source")

SERVERS = {"kafka.bootstrap.servers": "nobody:1", "subscribe": "orders"}


@pytest.mark.parametrize("reader", ["BatchReader", "FileReader", "StreamReader"])
@pytest.mark.parametrize("partition", [None, datasource.InputPartition(None)], ids=["4.0", "4.2"])
def test_a_task_without_a_partition_reads_nothing(reader: str, partition: Any) -> None:
    options = parse_read(SERVERS, is_streaming=False)
    assert list(getattr(source, reader)(options).read(partition)) == []


@pytest.mark.parametrize(
    ("master", "variable", "setting", "chosen"),
    [
        ("local[2]", None, False, sys.executable),
        ("local-cluster[2,1,1024]", None, False, sys.executable),
        ("local", "/opt/python", False, "python3"),
        ("local", None, True, "python3"),
        ("spark://boss:7077", None, False, "python3"),
    ],
)
def test_workers_of_a_local_master_run_the_drivers_interpreter_unless_one_is_named(
    master: str, variable: str | None, setting: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = SimpleNamespace(contains=lambda name: setting and name == "spark.pyspark.python")
    context = SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: conf)
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    assert source.BarnabasDataSource.name() == "barnabas"
    assert context.pythonExec == chosen


@pytest.mark.parametrize("skips", [True, False])
def test_all_tasks_leave_out_what_had_expired_when_they_were_planned(tmp_path: Path, skips: bool) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    headers = [("barnabas-expires-at", b"1")]
    batches = [encode_batch([Record(0, 0, None, b"v", headers if at else [])], base_offset=at) for at in range(2)]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    options = {"path": str(tmp_path), "subscribe": "orders", "skipExpired": str(skips), "maxRecordsPerPartition": "1"}
    reader = source.FileReader(parse_read(options, is_streaming=False))
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    assert len(parts) == 2
    assert len({part.skip_expired_at_ms for part in parts}) == 1
    found = [offset for part in parts for rows in reader.read(part) for offset in rows.column("offset").to_pylist()]
    assert found == ([0] if skips else [0, 1])


def test_a_process_without_spark_names_the_source_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    assert source.BarnabasDataSource.name() == "barnabas"
