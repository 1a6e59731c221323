"""One member of a classic group.

Rules: no IO, no clock. Soft state: the group decides what of it becomes durable.
Invariants: `member_id` is unique in its group; a member waits for a join or for a sync, or for neither.
Source: Kafka MemberMetadata.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.runtime.contract import Waiter

# (name, metadata) in the member's order of preference.
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, eq=False)
class Member:
    """Owned by its group. `is_new` until the member's first generation: before that it cannot send heartbeats."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joining: Waiter | None = None
    syncing: Waiter | None = None
    waiting_bytes: int = 0
    """The memory of the parked join as counted in `coordinator.group.classic.waiting_bytes`."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_expected_to_heartbeat(self) -> bool:
        """A parked JoinGroup or SyncGroup replaces heartbeats, except a member's first join: nothing else would show that
        its client has disconnected."""
        return self.is_new or (self.joining is None and self.syncing is None)

    def metadata(self, protocol_name: str) -> bytes:
        """The subscription under `protocol_name`, which the member must support."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: Container[str]) -> str:
        """The first of the member's protocols that is a candidate."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports no candidate")
