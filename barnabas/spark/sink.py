"""Writes what Spark gives to topics: batch writes at least once, streaming writes exactly once (`exactly_once`).

Where it runs: `write` in a Python worker of an executor, once for each attempt of a task; `commit` and `abort` in a Python
process beside the driver. They share options, and what tasks return, alone.

Rules: this module joins; what is decided stands in `exactly_once`. PySpark passes Arrow record batches to writers that ask for
them, which become tuples of Python values, of which records are made. Both writers ask for them: in the rows that other writers
get, times have lost their zone, and in the hour that a zone repeats each year nothing says which of two times is meant.
Source: pyspark.sql.datasource; Spark KafkaStreamWriter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from barnabas.spark.writing import exactly_once
from barnabas.spark.writing.broker_transactions import BrokerTransactions
from barnabas.spark.writing.exactly_once import OpenTransaction, TaskResult, transactional_id
from barnabas.spark.writing.producing import Producer
from barnabas.spark.writing.rows import RowFormat
from barnabas.spark.writing.transaction_calls import TransactionCalls
from barnabas.spark.writing.write_options import WriteOptions
from client.blocking.cluster_client import ClusterClient

_ArrowStreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceArrowWriter)
"""What a streaming writer is, too, to be passed record batches: before PySpark 4.1 the class for batch writes says so."""
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_RUN = "spark.jobGroup.id"
"""A streaming query's jobs are a group, named by the id of its run."""


class TaskMessage(WriterCommitMessage):
    """What one task returns to the driver."""

    def __init__(self, result: TaskResult) -> None:
        self.result = result


def values_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Sequence[Any]]:
    """The rows of Arrow record batches, as tuples. Times are in ms since 1970."""
    for batch in batches:
        yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; of a time in ms since 1970, of one without a zone as if its clock showed UTC."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return [None if each is None else each // 1000 for each in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


class BatchWriter(DataSourceArrowWriter):
    """Writes once. A task that Spark repeats writes its rows again."""

    def __init__(self, options: WriteOptions, form: RowFormat) -> None:
        self._options = options
        self._form = form

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with ClusterClient(self._options.client.connection) as client:
            identity = TransactionCalls(client, 0).begin(None)
            producer = Producer(client, self._options, identity)
            for row in self._form.outgoing(values_of(iterator), client.now_ms):
                producer.add(row)
            producer.flush()
            return TaskMessage(TaskResult("", "", None, was_decided=False, rows=producer.rows))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: the rows are there."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what was written stays."""


class StreamWriter(_ArrowStreamWriter, DataSourceStreamWriter):
    """Writes the batches of a stream exactly once."""

    def __init__(self, options: WriteOptions, form: RowFormat) -> None:
        self._options = options
        self._form = form

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "called in a task"
        query, run, batch = (context.getLocalProperty(name) for name in (_QUERY, _RUN, _BATCH))
        assert query is not None and run is not None and batch is not None, "called by a streaming query"
        name = transactional_id(query, run, context.partitionId(), context.attemptNumber())
        with ClusterClient(self._options.client.connection) as client:
            calls = TransactionCalls(client, self._options.transaction_timeout_ms)

            def write_rows() -> tuple[OpenTransaction | None, int]:
                producer: Producer | None = None
                for row in self._form.outgoing(values_of(iterator), client.now_ms):
                    if producer is None:
                        identity = calls.begin(name)
                        producer = Producer(client, self._options, identity, calls)
                    producer.add(row)
                if producer is None:
                    return None, 0
                producer.flush()
                return OpenTransaction(name, identity.producer_id, identity.producer_epoch), producer.rows

            transactions = BrokerTransactions(client, self._options)
            return TaskMessage(exactly_once.write_task(transactions, query, run, int(batch), write_rows))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        results = [each.result for each in messages if isinstance(each, TaskMessage)]
        query = query_of(results)
        if query is None:
            return
        with ClusterClient(self._options.client.connection) as client:
            exactly_once.commit(BrokerTransactions(client, self._options), query, batchId, results)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        results = [each.result if isinstance(each, TaskMessage) else None for each in messages]
        query = query_of([each for each in results if each is not None])
        if query is None:
            return
        with ClusterClient(self._options.client.connection) as client:
            exactly_once.abort(BrokerTransactions(client, self._options), query, batchId, results)


def query_of(results: Sequence[TaskResult]) -> str | None:
    """The query whose tasks these are: the driver's calls are not told it. None when there was no task."""
    return results[0].query if results else None
