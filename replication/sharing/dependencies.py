"""Declares what the share partitions of a broker need from the components above.

Rules: replication declares, `broker.components` provides.
Source: Kafka Persister (KIP-932).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from config.share_group import ShareGroupConfig
from protocol.errors import ErrorCode
from protocol.share_states import StateBatch
from replication.sharing.share_partition import StoredShare
from runtime.clock import Clock
from runtime.tasks import TaskScope
from runtime.timer import Timer


class ShareStates(Protocol):
    """The share coordinators of the cluster. `broker.cluster.sharing.share_state_client` fits it."""

    async def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> StoredShare:
        """Return what is stored; its start offset is -1 for a group that has not begun to read. A coordinator that has seen a
        later leader epoch refuses. Raises KafkaError."""

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Store a change. `done` is called once, perhaps before this returns: NONE when it is committed. The changes of one
        partition are stored in the order of the calls."""


class SharingMetrics(Protocol):
    """Counts what share groups do on this broker."""

    def share_loaded(self, duration_ms: int) -> None: ...


class NoSharingMetrics:
    """Counts nothing."""

    def share_loaded(self, duration_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SharingDependencies:
    """What all share partitions of a broker share. `config_of` returns the settings of a group; `call_soon` is the loop's."""

    clock: Clock
    timer: Timer
    tasks: TaskScope
    states: ShareStates
    config_of: Callable[[str], ShareGroupConfig]
    call_soon: Callable[[Callable[[], None]], object]
    metrics: SharingMetrics
