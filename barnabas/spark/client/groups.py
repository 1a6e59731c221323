"""Reads and commits the offsets of consumer groups, from outside of the groups; the ends of partitions beside them.

A commit has no member and no generation, which a coordinator takes for a group without members only.

Rules: errors that may pass are waited out, as the client does it. Errors: KafkaError, ClusterUnavailable.
Source: Kafka Admin alterConsumerGroupOffsets, listConsumerGroupOffsets; KIP-396.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.spark.client.client_options import parse_client
from barnabas.spark.client.settings import SparkClientSettings
from client.admin import groups
from client.blocking.cluster_client import ClusterClient
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import LATEST
from protocol.topic_partition import TopicPartition

_HAS_MEMBERS: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)


def client_of(settings: Mapping[str, str]) -> ClusterClient:
    """Return a client with the `kafka.*` settings of a source or sink. Raises SourceOptionError."""
    return ClusterClient(_options(settings).connection)


def end_offsets(settings: Mapping[str, str], partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition, as a read with these settings has it. Raises KafkaError, ClusterUnavailable."""
    options = _options(settings)
    with ClusterClient(options.connection) as client:
        return client.offsets(dict.fromkeys(partitions, LATEST), is_committed_only=options.reads_committed)


def records_behind(settings: Mapping[str, str], reached: Mapping[TopicPartition, int]) -> int | None:
    """Return how many offsets there are behind those that were reached, None when no broker says so within seconds."""
    try:
        ends = end_offsets({**settings, "kafka.default.api.timeout.ms": "2000"}, reached)
    except (KafkaError, OSError):
        return None
    return sum(max(0, end - reached[key]) for key, end in ends.items())


def committed_offsets(client: ClusterClient, group: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, without partitions that have none. Raises KafkaError, ClusterUnavailable."""
    return client.run(groups.committed_offsets(group))


def commit_offsets(client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> bool:
    """Commit offsets for a group without members; return False for a group that has some, without a change.

    Raises KafkaError, ClusterUnavailable.
    """
    for (topic, partition), error in client.run(groups.commit_offsets(group, offsets)).items():
        if error is not None and error.code in _HAS_MEMBERS:
            return False
        if error is not None:
            raise KafkaError(error.code, f"commit of group {group} in {topic}-{partition}: {error.code.name}")
    return True


def _options(settings: Mapping[str, str]) -> SparkClientSettings:
    """Raises SourceOptionError."""
    return parse_client({name.lower(): text for name, text in settings.items()})
