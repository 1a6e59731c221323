"""Writes one record: a new one, or a copy of one that is there.

Rules: a copy has the same bytes as the record. A record is written once: the producer repeats attempts without doubles.
Errors: HttpProblem for what a client has sent, KafkaError for what the cluster refuses, OSError.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import TYPE_CHECKING

from web.errors import HttpProblem
from web.messages.models import Data, NewRecord, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.records.record import Record
    from web.cluster.user_cluster import UserCluster

_REPLACED = "\ufffd"  # what is read for bytes that are no UTF-8


async def write_new(cluster: UserCluster, topic: str, record: NewRecord) -> Written:
    """Return where the record is."""
    headers = [(each.name, bytes_of(f"headers[{index}]", each.value)) for index, each in enumerate(record.headers)]
    return await _write(
        cluster,
        topic,
        bytes_of("key", record.key),
        bytes_of("value", record.value),
        headers,
        record.partition,
        record.timestamp_ms,
    )


async def write_copy(
    cluster: UserCluster, topic: str, record: Record, partition: int | None, *, keeps_timestamp: bool
) -> Written:
    """Return where the copy is."""
    for name, _ in record.headers:
        if _REPLACED in name:
            raise HttpProblem(
                422, "the name of a header is no UTF-8, so that a copy would have another", code="INVALID_RECORD"
            )
    timestamp_ms = record.timestamp if keeps_timestamp and record.timestamp >= 0 else None
    return await _write(cluster, topic, record.key, record.value, record.headers, partition, timestamp_ms)


def bytes_of(name: str, data: Data | None) -> bytes | None:
    """Return the bytes of what a client has sent. Raises HttpProblem."""
    if data is None:
        return None
    if data.text is not None:
        return _encoded(name, data.text)
    if "json_" in data.model_fields_set:
        return _json_bytes(name, data.json_)
    try:
        if data.hex is not None:
            return bytes.fromhex(data.hex)
        return base64.b64decode(data.base64 or "", validate=True)
    except (ValueError, binascii.Error):
        form = "hexadecimal digits" if data.hex is not None else "base64"
        raise HttpProblem(422, f"{name}: it is no {form}", code="INVALID_RECORD") from None


def _json_bytes(name: str, value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise HttpProblem(422, f"{name}: JSON has no infinity and no NaN", code="INVALID_RECORD") from None
    return _encoded(name, text)


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise HttpProblem(422, f"{name}: it has half a character", code="INVALID_RECORD") from None


async def _write(
    cluster: UserCluster,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    partition: int | None,
    timestamp_ms: int | None,
) -> Written:
    there = (await cluster.topics([topic])).get(topic)
    if there is None:
        raise HttpProblem(404, f"there is no topic {topic}", code="UNKNOWN_TOPIC_OR_PARTITION")
    if partition is not None and partition not in there.partitions:
        last = len(there.partitions) - 1
        raise HttpProblem(
            404, f"{topic} has no partition {partition}: they are 0 to {last}", code="UNKNOWN_TOPIC_OR_PARTITION"
        )
    producer = await cluster.producer()
    async with asyncio.timeout(cluster.settings.api_timeout_ms / 1000):
        delivery = await producer.send(
            topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        delivered = await delivery
    return Written(
        topic=topic, partition=delivered.partition, offset=delivered.offset, timestamp_ms=delivered.timestamp_ms
    )
