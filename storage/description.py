"""The content of DescribeLogDirs for a log directory and its logs.

Source: Kafka ReplicaManager.describeLogDirs; KIP-113, KIP-827 (total and usable bytes).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.errors import ErrorCode

UNKNOWN_LAG = -1


@dataclass(frozen=True, slots=True)
class LogDescription:
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryDescription:
    """One directory. Bytes are -1 where they are unknown."""

    path: str
    error: ErrorCode
    total_bytes: int = -1
    usable_bytes: int = -1
    logs: list[LogDescription] = field(default_factory=list)
