"""What a shard of the share coordinator reports for logs and metrics. Facts in the past tense;
`coordinator.share_observation` logs and counts them.

Source of the metrics: kafka.server:type=share-coordinator-metrics.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.runtime.contract import ShardEvent
from coordinator.share.state import ShareKey
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class StateWritten(ShardEvent):
    """The leader of a share partition had its state changed, or became its leader."""


@dataclass(frozen=True, slots=True)
class ShareStateRefused(ShardEvent):
    """A request was refused because its sender is behind: `recorded` is the newest epoch, `requested` that of the request."""

    key: ShareKey
    operation: str
    error: ErrorCode
    recorded: int
    requested: int


@dataclass(frozen=True, slots=True)
class StateNotStored(ShardEvent):
    """The log refused a change, or lost it."""

    key: ShareKey
    operation: str
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class ShareStatesRemoved(ShardEvent):
    """The states of share partitions whose topics are deleted."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class ShareRecordSkipped(ShardEvent):
    """A record of an unknown type, or one that does not decode, was skipped."""

    partition: int
    offset: int
    why: str
