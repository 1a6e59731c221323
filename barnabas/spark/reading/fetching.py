"""Reads a range of offsets from the leader of its partition, and yields its rows as Arrow record batches.

The next Fetch is sent before the rows of the last one are decoded: the broker reads while this side decodes.

Rules: no session, since a task reads one partition once. The isolation level is that of the client's settings; aborted
transactions are left out here, as the broker sends them.
Errors: DataLost when records of the range are gone and that is not tolerated; ClusterUnavailable when the leader stays away, or
the range's end is not reached in time; KafkaError, InvalidBatch.
Source: Kafka Fetcher, KafkaDataConsumer of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from barnabas.spark.client.ranges import OffsetRange
from barnabas.spark.client.settings import SparkClientSettings
from barnabas.spark.reading.columns import RangeDecoder
from client.blocking.attempts import Attempts
from client.blocking.cluster_client import UNKNOWN_S, ClusterClient
from client.blocking.connection import BrokerConnection
from client.reading.committed import CommittedFilter
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.records.invalid import InvalidBatch

FIRST_FETCH_BYTES = 1024 * 1024
"""Of a range, in case it is a short one; each fetch that follows may be four times as large, up to `fetch_bytes`."""


class DataLost(RuntimeError):
    """Records that the query should have read are gone, or have a timestamp that no row can hold."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Set option failOnDataLoss to false to read what is left.")


class RangeReader:
    """Reads one range. `lost` is called with a text when records are gone, or a timestamp cannot be represented, and raises
    DataLost where that is an error; `skip_expired_at_ms` as `RangeDecoder` says."""

    def __init__(
        self,
        client: ClusterClient,
        settings: SparkClientSettings,
        range: OffsetRange,  # noqa: A002
        lost: Callable[[str], None],
        *,
        include_headers: bool,
        skip_expired_at_ms: int | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._range = range
        self._lost = lost
        self._decoder = RangeDecoder(
            range,
            lost,
            include_headers=include_headers,
            check_crcs=settings.checks_crcs,
            skip_expired_at_ms=skip_expired_at_ms,
        )
        self._attempts = self._new_attempts()
        self._fetch_bytes = min(FIRST_FETCH_BYTES, settings.fetch_bytes)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the range. Raises what the module says."""
        while not self._decoder.is_complete:
            connection: BrokerConnection | None = None
            try:
                connection = self._client.leader_of((self._range.topic, self._range.partition))
                yield from self._rows_from(connection)
            except OSError as error:
                if connection is not None:
                    self._client.drop_connection(connection)
                self._retry(error)
            except KafkaError as error:
                if connection is not None:
                    self._client.drop_connection(connection)  # a response may be under way
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._skip_lost()
                elif error.code.retriable:
                    self._retry(error)
                else:
                    raise

    def _rows_from(self, connection: BrokerConnection) -> Iterator[pa.RecordBatch]:
        decoder, end = self._decoder, self._range.end
        connection.send(self._request(decoder.next_offset))
        while True:
            data = self._data_of(connection.receive(FetchResponse))
            records = b"" if data.records is None else data.records
            following = decoder.advance(records)
            if following == decoder.next_offset:
                if len(records):
                    raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{self._range}: a response without a whole batch")
                limit = "last stable offset" if self._settings.reads_committed else "high watermark"
                reached = data.last_stable_offset if self._settings.reads_committed else data.high_watermark
                self._attempts.pause(f"the {limit} is {reached}, the range ends at {end}")
            else:
                self._attempts = self._new_attempts()
            if following < end:
                connection.send(self._request(following))
            aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or []]
            yield from decoder.decode(records, CommittedFilter(aborted))
            if decoder.is_complete:
                return

    def _request(self, offset: int) -> FetchRequest:
        settings, limit_bytes = self._settings, self._fetch_bytes
        self._fetch_bytes = min(limit_bytes * 4, settings.fetch_bytes)
        partition = FetchPartition(
            partition=self._range.partition, fetch_offset=offset, partition_max_bytes=limit_bytes
        )
        return FetchRequest(
            max_wait_ms=settings.fetch_wait_ms,
            min_bytes=1,
            max_bytes=limit_bytes,
            isolation_level=int(settings.reads_committed),
            topics=[FetchTopic(topic=self._range.topic, partitions=[partition])],
        )

    def _data_of(self, response: FetchResponse) -> PartitionData:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            data = response.responses[0].partitions[0]
            code = ErrorCode(data.error_code)
            if code is ErrorCode.NONE:
                return data
        raise KafkaError(code, f"Fetch of {self._range.topic}-{self._range.partition}: {code.message}")

    def _retry(self, error: Exception) -> None:
        self._client.refresh([self._range.topic])
        is_unknown = isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_unknown and self._attempts.elapsed_s >= UNKNOWN_S:
            at = self._decoder.next_offset
            self._lost(
                f"{self._range.topic}-{self._range.partition} is no more: offsets {at} to {self._range.end - 1} are gone"
            )
            self._decoder.skip_to(self._range.end)
            return
        self._attempts.pause(error)

    def _skip_lost(self) -> None:
        """The broker has no record at the next offset: go on with its first one, if that is in the range."""
        topic, partition = key = self._range.topic, self._range.partition
        first = self._client.offsets({key: EARLIEST})[key]
        last = self._client.offsets({key: LATEST}, is_committed_only=self._settings.reads_committed)[key]
        at = self._decoder.next_offset
        if first > at:
            self._lost(
                f"{topic}-{partition}: offsets {at} to {min(first, self._range.end) - 1} are gone, the log begins at {first}"
            )
            self._decoder.skip_to(first)
        elif last < at:
            self._lost(
                f"{topic}-{partition}: offset {at} is behind the log's end {last}: the topic was made again or truncated"
            )
            self._decoder.skip_to(self._range.end)
        else:
            self._retry(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE))

    def _new_attempts(self) -> Attempts:
        return self._client.attempts(
            f"reading {self._range.topic}-{self._range.partition} at {self._decoder.next_offset}"
        )
