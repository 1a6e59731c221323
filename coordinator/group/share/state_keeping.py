"""What a share group needs of the share coordinator, which keeps the states of its partitions, and the command for it.

Rules: values, and a Protocol that `broker/cluster/sharing/share_state_client.py` implements.
Source: Kafka Persister (KIP-932).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from coordinator.runtime.contract import Command
from protocol.errors import ErrorCode

Place: TypeAlias = tuple[bytes, int]
"""A topic id and a partition."""

NO_START_OFFSET = -1
"""The share partition begins where the settings of its group say."""


class ShareSummary(Protocol):
    """Where a share partition is."""

    @property
    def start_offset(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def delivery_complete_count(self) -> int: ...


class NewState(NamedTuple):
    topic_id: bytes
    partition: int
    state_epoch: int
    start_offset: int


class StateKeeper(Protocol):
    """The share coordinators of the cluster. Each function returns what became of every row."""

    async def initialize(self, group_id: str, rows: Sequence[NewState]) -> Mapping[Place, ErrorCode]: ...

    async def read_summary(
        self, group_id: str, rows: Sequence[tuple[bytes, int, int]]
    ) -> Mapping[Place, ShareSummary | ErrorCode]:
        """`rows`: topic id, partition, leader epoch (-1: not known)."""

    async def delete(self, group_id: str, rows: Sequence[Place]) -> Mapping[Place, ErrorCode]: ...


class NoStateKeeper:
    """There is no share coordinator, as in a cluster without the feature."""

    async def initialize(self, group_id: str, rows: Sequence[NewState]) -> Mapping[Place, ErrorCode]:
        return {(row.topic_id, row.partition): ErrorCode.COORDINATOR_NOT_AVAILABLE for row in rows}

    async def read_summary(
        self, group_id: str, rows: Sequence[tuple[bytes, int, int]]
    ) -> Mapping[Place, ShareSummary | ErrorCode]:
        return {(topic_id, partition): ErrorCode.COORDINATOR_NOT_AVAILABLE for topic_id, partition, _ in rows}

    async def delete(self, group_id: str, rows: Sequence[Place]) -> Mapping[Place, ErrorCode]:
        return dict.fromkeys(rows, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class InitializeShareStates(Command):
    """Ask for the states of new share partitions, and pass the outcome to `GroupShard.on_share_states_initialized`."""

    group_id: str
    rows: tuple[NewState, ...]


@dataclass(frozen=True, slots=True)
class InitializedShareStates:
    """What became of each partition that was asked about."""

    group_id: str
    outcomes: Mapping[Place, ErrorCode]
