"""The options of a write. Pure.

Rules: pure. `acks` other than all, and compression levels, are not offered: a write is acknowledged by all replicas in sync.
Source: Spark KafkaSourceProvider; Kafka ProducerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.spark.client.client_options import by_lower_name, is_client_option, parse_client
from barnabas.spark.client.option_values import SourceOptionError, check_names, choice, integer, read, trimmed
from barnabas.spark.client.settings import SparkClientSettings
from protocol.records.compression import Compression

DECISION_TOPIC: Final = "barnabas-spark-decisions"
KNOWN: Final = ("topic", "decisionTopic", "checkpointLocation", "path")
MAX_REQUEST_BYTES: Final = 1024 * 1024
TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000
"""The most that brokers allow by default (`transaction.max.timeout.ms`)."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`batch_bytes`: a record batch is complete when it has so many plain bytes."""

    client: SparkClientSettings
    topic: str | None = None
    compression: Compression = Compression.NONE
    batch_bytes: int = 256 * 1024
    max_request_bytes: int = MAX_REQUEST_BYTES
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    decision_topic: str = DECISION_TOPIC


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Raises SourceOptionError."""
    given = by_lower_name(options)
    check_names((name for name in given if not is_client_option(name)), KNOWN, "Option")
    client = parse_client(given)
    if given.get("kafka.acks", "all").lower() not in ("all", "-1"):
        raise SourceOptionError(f"kafka.acks is all, not {given['kafka.acks']!r}")
    max_request_bytes = read(given, "kafka.max.request.size", integer, MAX_REQUEST_BYTES, 1024, 1 << 30)
    return WriteOptions(
        client=client,
        topic=read(given, "topic", trimmed, None),
        compression=read(
            given, "kafka.compression.type", choice, Compression.NONE, {each.name.lower(): each for each in Compression}
        ),
        batch_bytes=min(read(given, "kafka.batch.size", integer, 256 * 1024, 1, 1 << 30), max_request_bytes),
        max_request_bytes=max_request_bytes,
        transaction_timeout_ms=read(
            given, "kafka.transaction.timeout.ms", integer, TRANSACTION_TIMEOUT_MS, 1, (1 << 31) - 1
        ),
        decision_topic=read(given, "decisionTopic", trimmed, DECISION_TOPIC),
    )
