"""How far a group is behind: its commits beside the ends of the partitions.

Rules: commits are read before the ends, so that a group that reads meanwhile is not ahead of them; a lag is negative only where
the commit is behind the end of the log, and such a lag is subtracted from no total. An end that cannot be had leaves the lag
unknown (None), not zero. A partition that is assigned to a member and has no commit has no lag.
Source: kafka-consumer-groups.sh, ConsumerGroupCommand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from client.admin import groups as group_steps
from client.admin.offsets import NO_OFFSET, offsets
from protocol.errors import KafkaError
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.list_offsets import LATEST
from runtime.command_line.failure import Failure
from tools.cluster import Cluster
from tools.failures import told

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
    """Return the offsets that a group has committed. Raises KafkaError."""
    return cluster.run(group_steps.committed_offsets(group))


def end_offsets(cluster: Cluster, keys: list[Key], *, is_committed_only: bool = False) -> dict[Key, int | None]:
    """Return the ends of partitions; None where a leader does not answer."""
    return offsets_of(cluster, keys, LATEST, is_committed_only=is_committed_only)


def offsets_of(
    cluster: Cluster, keys: list[Key], time_ms: int, *, is_committed_only: bool = False
) -> dict[Key, int | None]:
    """Return the offsets for a time, or EARLIEST, LATEST, MAX_TIMESTAMP; None where the leader does not answer, or there is
    none."""
    answers = _answers(cluster, keys, time_ms, is_committed_only=is_committed_only)
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
    cluster: Cluster, keys: list[Key], time_ms: int, *, is_committed_only: bool
) -> dict[Key, int | KafkaError | None]:
    """Return what the leaders answer: an offset, None for no offset, or an error."""
    found = cluster.run(offsets(dict.fromkeys(keys, time_ms), is_committed_only=is_committed_only))
    return {key: None if answer == NO_OFFSET else answer for key, answer in found.items()}


def group_lag(cluster: Cluster, group: DescribedGroup) -> list[PartitionLag]:
    """Return the lag of a group, by partition. Raises KafkaError, DecodeError."""
    owners = {key: member for member in group.members for key in group_steps.assigned(member, group)}
    commits = committed_offsets(cluster, group.group_id)
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
                host=None if member is None else member.client_host,
            )
        )
    return rows
