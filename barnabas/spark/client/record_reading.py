"""Reads the records of a small range as objects: for decisions, not for rows.

Errors: as `fetching`.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.spark.client.ranges import OffsetRange
from client.blocking.cluster_client import ClusterClient
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.record import Record

_FETCH_BYTES = 1024 * 1024
_MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
_WAIT_MS = 100


def read_records(client: ClusterClient, part: OffsetRange) -> Iterator[Record]:
    """The records of the range, also those of transactions that are open. Raises KafkaError, ClusterUnavailable,
    InvalidBatch."""
    attempts = client.attempts(f"reading {part}")
    offset = part.start
    while offset < part.end:
        try:
            records = _fetch(client, part, offset)
        except (OSError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.code.retriable:
                raise
            client.close()
            client.refresh([part.topic])
            attempts.pause(error)
            continue
        following = offset
        for position, header in iter_any_headers(records):
            following = max(following, header.next_offset)
            if header.is_control:
                continue
            for record in iter_any_records(records, position, header, _MAX_DECOMPRESSED_BYTES):
                if offset <= record.offset < part.end:
                    yield record
        if following == offset:
            attempts.pause(f"nothing at offset {offset}")
        offset = following


def _fetch(client: ClusterClient, part: OffsetRange, offset: int) -> bytes | bytearray | memoryview:
    partition = FetchPartition(partition=part.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        topics=[FetchTopic(topic=part.topic, partitions=[partition])],
    )
    response = client.leader_of((part.topic, part.partition)).ask(request, FetchResponse)
    code = ErrorCode(response.error_code)
    if code is ErrorCode.NONE:
        data = response.responses[0].partitions[0]
        code = ErrorCode(data.error_code)
        if code is ErrorCode.NONE:
            return b"" if data.records is None else data.records
    raise KafkaError(code, f"Fetch of {part}: {code.message}")
