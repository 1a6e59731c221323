"""The timers of members of the classic protocol in a consumer group.

Rules: values. The session timer of such a member is that of the others, with a timeout of its own.
Source: Kafka GroupMetadataManager.scheduleConsumerGroupJoinTimeoutIfAbsent and scheduleConsumerGroupSyncTimeout.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RejoinTimer:
    """Expires when a member was told to rejoin and did not within its rebalance timeout."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class FetchAssignmentTimer:
    """Expires when a member has joined and does not ask for its assignment within its rebalance timeout."""

    group_id: str
    member_id: str
