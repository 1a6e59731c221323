"""The data source `barnabas` of Spark: batch and streaming reads, batch and streaming writes, in Python.

Where it runs: schema, planning and offsets in Python processes beside the driver; `read` and `write` in the Python workers of
executors, one call for each task, from a pickled reader or writer. So readers and writers keep options alone, and connect where
they run.

Rules: this module and `sink` are those that import pyspark. It decides nothing: options are parsed by `read_options`,
partitions and offsets found by `planning`, rows read by `fetching` and `log_files`.
PySpark's versions: on 4.0 and 4.1 `latestOffset()` is passed neither the start nor a limit: a stream with
`maxOffsetsPerTrigger` finds its start in the query's checkpoint, whose location it needs as an option, and
`trigger(availableNow=True)` is one batch of at most that size. From 4.2 on Spark passes both, and available-now runs until
nothing is left.
Source: pyspark.sql.datasource; Spark KafkaSourceProvider, KafkaMicroBatchStream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from barnabas.spark.client.ranges import OffsetRange, divide
from barnabas.spark.files.log_files import LogPlanner, RangeInFiles, read_files
from barnabas.spark.reading import streaming
from barnabas.spark.reading.fetching import RangeReader
from barnabas.spark.reading.planning import Planner, check_order
from barnabas.spark.reading.read_options import ReadOptions, includes_headers, parse_read
from barnabas.spark.reading.stream_offsets import StreamOffsets, ranges_of
from barnabas.spark.reading.streaming import Stream, reported
from barnabas.spark.sink import BatchWriter, StreamWriter
from barnabas.spark.workers import choose_interpreter
from barnabas.spark.writing.rows import RowFormat, row_format
from barnabas.spark.writing.write_options import WriteOptions, parse_write
from client.blocking.cluster_client import ClusterClient
from runtime.clock import SystemClock

NAME = "barnabas"
_COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
_HEADERS = "headers array<struct<key: string, value: binary>>"


class BarnabasDataSource(DataSource):
    """Topics of a Kafka cluster, or the log files of one, as rows. `spark.dataSource.register(BarnabasDataSource)`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format. Spark asks for it first when the source is registered."""
        choose_interpreter()
        return NAME

    def schema(self) -> str:
        return f"{_COLUMNS}, {_HEADERS}" if includes_headers(self.options) else _COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_read(self.options, is_streaming=False)
        return FileReader(options) if options.paths else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(parse_read(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(*self._write(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(*self._write(schema))

    def _write(self, schema: StructType) -> tuple[WriteOptions, RowFormat]:
        options = parse_write(self.options)
        types = {each.name: each.dataType.simpleString() for each in schema.fields}
        return options, row_format(types, options.topic)


class RangePartition(InputPartition):
    """What one task reads; `skip_expired_at_ms` is the same for all tasks of a batch, also for those that Spark repeats."""

    def __init__(self, range: OffsetRange, skip_expired_at_ms: int | None) -> None:  # noqa: A002
        super().__init__(range)
        self.range = range
        self.skip_expired_at_ms = skip_expired_at_ms


def expiry_ms(options: ReadOptions) -> int | None:
    """Return the time of the plan that is being made, if records that have expired by then are left out."""
    return SystemClock().wall_ms() if options.skips_expired else None


def is_nothing(part: InputPartition | None) -> bool:
    """Whether this stands for no partition: Spark starts one task where a batch has nothing to read. It passes None before
    PySpark 4.2, and from then on an input partition without a value."""
    return part is None or part.value is None


def read_range(options: ReadOptions, part: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Raises what `fetching` says."""
    if is_nothing(part):
        return
    assert isinstance(part, RangePartition)
    assert options.client is not None
    with ClusterClient(options.client.connection) as client:
        reader = RangeReader(
            client,
            options.client,
            part.range,
            reported(options),
            include_headers=options.include_headers,
            skip_expired_at_ms=part.skip_expired_at_ms,
        )
        yield from reader.rows()


class BatchReader(DataSourceReader):
    """Reads from brokers, once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        assert options.client is not None
        with ClusterClient(options.client.connection) as client:
            planner = Planner(client, options)
            keys = [(name, number) for name, topic in planner.topics().items() for number in topic.partitions]
            starts = planner.resolve(options.start, keys, is_start=True)
            ends = planner.resolve(options.end, keys, is_start=False)
        check_order(options.start, starts, options.end, ends)
        ranges = divide(ranges_of(starts, ends), options.min_partitions, options.max_records_per_partition)
        now_ms = expiry_ms(options)
        return [RangePartition(each, now_ms) for each in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:  # type: ignore[override, unused-ignore]
        return read_range(self._options, partition)


class FilePartition(InputPartition):
    """What one task reads of log files."""

    def __init__(self, part: RangeInFiles, skip_expired_at_ms: int | None) -> None:
        super().__init__(part)
        self.part = part
        self.skip_expired_at_ms = skip_expired_at_ms


class FileReader(DataSourceReader):
    """Reads log files, once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        parts = LogPlanner(self._options, reported(self._options)).plan()
        now_ms = expiry_ms(self._options)
        return [FilePartition(each, now_ms) for each in parts]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:  # type: ignore[override, unused-ignore]
        if is_nothing(partition):
            return
        assert isinstance(partition, FilePartition)
        options = self._options
        yield from read_files(
            partition.part,
            reported(options),
            include_headers=options.include_headers,
            check_crcs=options.checks_crcs,
            skip_expired_at_ms=partition.skip_expired_at_ms,
        )


class StreamReader(DataSourceStreamReader, streaming.AvailableNow):
    """Reads from brokers as a stream. On the driver it lives as long as the query; tasks get a copy that has not connected."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stream: Stream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_stream": None}

    def initialOffset(self) -> dict[str, Any]:
        return self._connected().initial().to_json()

    def getDefaultReadLimit(self) -> Any:
        """From PySpark 4.2 on."""
        return streaming.read_limit(self._options.max_offsets_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """From PySpark 4.2 on: nothing behind what there is now is read."""
        self._connected().fix_end()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """`start` and `limit` are passed from PySpark 4.2 on."""
        stream = self._connected()
        if start is not None:
            return stream.latest(StreamOffsets.from_json(start), streaming.most_rows(limit)).to_json()
        return stream.latest(stream.known_start(), self._options.max_offsets_per_trigger).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._connected().ranges(StreamOffsets.from_json(start), StreamOffsets.from_json(end))
        now_ms = expiry_ms(self._options)
        return [RangePartition(each, now_ms) for each in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:  # type: ignore[override, unused-ignore]
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark's checkpoint has the offsets."""

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _connected(self) -> Stream:
        if self._stream is None:
            assert self._options.client is not None
            self._stream = Stream(
                ClusterClient(self._options.client.connection), self._options, reported(self._options)
            )
        return self._stream
