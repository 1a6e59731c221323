"""What is asked of the administration of topics, and what it answers. Pure.

Source: Kafka ZkAdminManager, CreatableTopic, CreatePartitionsTopic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from metadata.admin import topic_rules
from metadata.store.port import RefusedError, StoreError
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A requested topic. -1 counts mean the broker's defaults; `assignment` is by partition."""

    name: str
    partitions: int = topic_rules.DEFAULT_COUNT
    replication_factor: int = topic_rules.DEFAULT_COUNT
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


TIMED_OUT = Outcome(ErrorCode.REQUEST_TIMED_OUT)


def not_stored(error: StoreError | ValueError) -> Outcome:
    """Return the outcome of a final refusal by the store, or of an unreadable node."""
    if isinstance(error, RefusedError):
        return Outcome(ErrorCode.POLICY_VIOLATION, "The store refuses it: a topic's description may have 1 MiB.")
    return Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, f"The store refuses it: {type(error).__name__}.")


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """`topic_id`, counts and `config` (the topic's own settings) are set for a topic that was, or could be,
    created."""

    outcome: Outcome
    topic_id: bytes = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Requested partitions. `count` is the new total; `assignments` are the added partitions' replicas, or None."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class Permits(Protocol):
    """What charges a request for the partitions that it creates and deletes."""

    def take(self, partitions_count: int) -> None:
        """Raises KafkaError when the quota is used up."""
