"""How far a group is behind: its commits beside the ends of the partitions.

Rules: commits are read before the ends, so that a group that reads meanwhile is not ahead of them; a lag is negative only where
the commit is behind the end of the log, and such a lag is subtracted from no total. An end that cannot be had leaves the lag
unknown (None), not zero. A partition that is assigned to a member and has no commit has no lag.
Source: kafka-consumer-groups.sh, ConsumerGroupCommand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, TopicPartition

from tools.cluster import Cluster
from tools.failures import Failure, told

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Of one partition that a group has committed, or that a member reads. What is unknown is None."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    member_id: str | None
    client_id: str | None
    host: str | None

    @property
    def lag(self) -> int | None:
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "current_offset": self.current_offset,
            "log_end_offset": self.log_end_offset,
            "lag": self.lag,
            "member_id": self.member_id,
            "client_id": self.client_id,
            "host": self.host,
        }


def committed_offsets(cluster: Cluster, group: str) -> dict[Key, int]:
    """Return the offsets that a group has committed. Raises KafkaException."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found = cluster.result(cluster.admin.list_consumer_group_offsets(asked)[group])
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions if each.offset >= 0}


def end_offsets(cluster: Cluster, keys: list[Key], *, is_committed_only: bool = False) -> dict[Key, int | None]:
    """Return the ends of partitions; None where a leader does not answer."""
    return offsets_of(cluster, keys, "latest", is_committed_only=is_committed_only)


def offsets_of(
    cluster: Cluster, keys: list[Key], spec: str, *, is_committed_only: bool = False
) -> dict[Key, int | None]:
    """Return the offsets for `spec`: "earliest", "latest", "max-timestamp"; None where the leader does not answer, or there is
    none."""
    answers = _answers(cluster, keys, spec, is_committed_only=is_committed_only)
    return {key: None if isinstance(answer, KafkaError) else answer for key, answer in answers.items()}


def offsets_since(cluster: Cluster, keys: list[Key], since_ms: int) -> dict[Key, int | None]:
    """Return the offset of the first record since then, None where there is none. Raises Failure for a partition whose leader
    does not answer: it may have one."""
    found: dict[Key, int | None] = {}
    for key, answer in _answers(cluster, keys, since_ms, is_committed_only=False).items():
        if isinstance(answer, KafkaError):
            raise Failure(f"partition {key[0]}-{key[1]} does not answer: {told(answer)}")
        found[key] = answer
    return found


def _answers(
    cluster: Cluster, keys: list[Key], spec: str | int, *, is_committed_only: bool
) -> dict[Key, int | KafkaError | None]:
    """Return what the leaders answer: an offset, None for no offset, or an error."""
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

    if not keys:
        return {}
    if isinstance(spec, int):
        asked = OffsetSpec.for_timestamp(spec)
    else:
        asked = {
            "earliest": OffsetSpec.earliest,
            "latest": OffsetSpec.latest,
            "max-timestamp": OffsetSpec.max_timestamp,
        }[spec]()
    level = IsolationLevel.READ_COMMITTED if is_committed_only else IsolationLevel.READ_UNCOMMITTED
    futures = cluster.admin.list_offsets({TopicPartition(*key): asked for key in keys}, isolation_level=level)
    found: dict[Key, int | KafkaError | None] = {}
    for partition, result in cluster.results(futures).items():
        key = (partition.topic, partition.partition)
        if isinstance(result, KafkaError):
            found[key] = result
        else:
            found[key] = result.offset if result.offset >= 0 else None
    return found


def group_lag(cluster: Cluster, description: Any) -> list[PartitionLag]:
    """Return the lag of a described group, by partition. Raises KafkaException."""
    owners = {
        (each.topic, each.partition): member
        for member in description.members
        for each in (member.assignment.topic_partitions if member.assignment is not None else ())
    }
    commits = committed_offsets(cluster, description.group_id)
    keys = sorted(commits.keys() | owners.keys())
    ends = end_offsets(cluster, keys)
    rows = []
    for key in keys:
        member = owners.get(key)
        rows.append(
            PartitionLag(
                topic=key[0],
                partition=key[1],
                current_offset=commits.get(key),
                log_end_offset=ends.get(key),
                member_id=None if member is None else member.member_id,
                client_id=None if member is None else member.client_id,
                host=None if member is None else member.host,
            )
        )
    return rows
