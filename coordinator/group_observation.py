"""Logs and metrics of the group coordinator: one log line for each event, and counters.

Rules: a rebalance is always explained: its log line names the reason and the members that caused it, its counter is by
reason. What happens in ordinary operation is counted and not logged (commits).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from coordinator.group.events import (
    AppendFailed,
    AssignmentReceived,
    GroupRemoved,
    MemberFenced,
    MembersRemoved,
    OffsetsCommitted,
    OffsetsRemoved,
    RebalanceCompleted,
    RebalanceStarted,
    RecordSkipped,
    WaitingMemoryFull,
)
from coordinator.runtime.contract import ShardEvent

logger = logging.getLogger(__name__)

# The number of names in a log line; their count follows when there are more.
NAMED_MEMBERS_MAX = 10


class GroupMetrics(Protocol):
    """The counters that the coordinator increments. `broker.observability.metrics` implements it."""

    def rebalance_started(self, reason: str) -> None: ...

    def rebalance_completed(self) -> None: ...

    def offsets_committed(self, count: int) -> None: ...

    def offsets_expired(self, count: int) -> None: ...

    def offsets_deleted(self, count: int) -> None: ...


class NoGroupMetrics:
    """Counts nothing, for a coordinator without metrics."""

    def rebalance_started(self, reason: str) -> None: ...

    def rebalance_completed(self) -> None: ...

    def offsets_committed(self, count: int) -> None: ...

    def offsets_expired(self, count: int) -> None: ...

    def offsets_deleted(self, count: int) -> None: ...


class GroupObserver:
    """Receives the events of all group shards."""

    def __init__(self, metrics: GroupMetrics) -> None:
        self._metrics = metrics

    def observe(self, event: ShardEvent) -> None:
        match event:
            case OffsetsCommitted():
                self._metrics.offsets_committed(event.count)
            case OffsetsRemoved():
                self._offsets_removed(event)
            case RebalanceStarted():
                self._metrics.rebalance_started(event.reason.value)
                logger.info(
                    "rebalance started: group=%s generation=%d reason=%s caused_by=%s members=%d detail=%r",
                    *(event.group_id, event.generation_id, event.reason.value, _names(event.member_ids)),
                    *(event.members_count, event.detail),
                )
            case RebalanceCompleted():
                self._metrics.rebalance_completed()
                logger.info(
                    "rebalance completed: group=%s generation=%d protocol=%s leader=%s members=%s",
                    *(event.group_id, event.generation_id, event.protocol_name, event.leader_id),
                    _names(event.member_ids),
                )
            case _:
                self._log(event)

    def _offsets_removed(self, event: OffsetsRemoved) -> None:
        if event.expired:
            self._metrics.offsets_expired(event.count)
        else:
            self._metrics.offsets_deleted(event.count)
        why = "expired" if event.expired else "deleted"
        logger.info("offsets removed: group=%s count=%d why=%s", event.group_id, event.count, why)

    def _log(self, event: ShardEvent) -> None:
        match event:
            case MembersRemoved(group_id, member_ids, why):
                logger.info("members removed: group=%s members=%s why=%r", group_id, _names(member_ids), why)
            case MemberFenced(group_id, instance_id, member_id, current):
                logger.info(
                    "static member fenced: group=%s instance=%s member=%s current=%s",
                    *(group_id, instance_id, member_id, current),
                )
            case AssignmentReceived(group_id, generation_id, leader_id, missing) if missing:
                logger.warning(
                    "assignment leaves members out: group=%s generation=%d leader=%s missing=%s",
                    *(group_id, generation_id, leader_id, _names(missing)),
                )
            case GroupRemoved(group_id, generation_id):
                logger.info("group removed: group=%s generation=%d", group_id, generation_id)
            case RecordSkipped(partition, offset, why):
                logger.warning("record skipped: partition=%d offset=%d why=%r", partition, offset, why)
            case WaitingMemoryFull(group_id, used_bytes, limit_bytes):
                logger.warning(
                    "new members refused: group=%s waiting_bytes=%d barnabas.group.waiting.max.bytes=%d",
                    *(group_id, used_bytes, limit_bytes),
                )
            case AppendFailed(group_id, what, error):
                logger.warning("not stored: group=%s what=%r error=%s", group_id, what, error)
            case _:
                pass


def _names(member_ids: Collection[str]) -> str:
    names = ",".join(list(member_ids)[:NAMED_MEMBERS_MAX]) or "-"
    return names if len(member_ids) <= NAMED_MEMBERS_MAX else f"{names},...({len(member_ids)})"
