"""Logs and metrics of the group coordinator: one log line for each event, and counters.

Rules: a rebalance is always explained: its log line names the reason and the members that caused it, its counter is by
reason. What happens in ordinary operation is counted and not logged (commits).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from coordinator.group.assigned.entries import CONSUMER_KINDS
from coordinator.group.events import (
    AppendFailed,
    AssignedMemberJoined,
    AssignmentReceived,
    ExpressionsNotResolved,
    GroupConverted,
    GroupEpochBumped,
    GroupRemoved,
    MemberFenced,
    MembersRemoved,
    OffsetsCommitted,
    OffsetsRemoved,
    RebalanceCompleted,
    RebalanceReason,
    RebalanceStarted,
    RecordSkipped,
    ShareStatesNotInitialized,
    TargetComputed,
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

    def consumer_group_rebalanced(self) -> None: ...

    def share_group_rebalanced(self) -> None: ...

    def offsets_committed(self, count: int) -> None: ...

    def offsets_expired(self, count: int) -> None: ...

    def offsets_deleted(self, count: int) -> None: ...


class NoGroupMetrics:
    """Counts nothing, for a coordinator without metrics."""

    def rebalance_started(self, reason: str) -> None: ...

    def rebalance_completed(self) -> None: ...

    def consumer_group_rebalanced(self) -> None: ...

    def share_group_rebalanced(self) -> None: ...

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
                logger.log(
                    logging.INFO if event.members_count else logging.DEBUG,  # the last member has left, see below
                    "rebalance started: group=%s generation=%d trigger=%s member_ids=%s members=%d reason=%s",
                    *(event.group_id, event.generation_id, event.reason.value, _names(event.member_ids)),
                    *(event.members_count, event.detail),
                )
            case RebalanceCompleted():
                self._metrics.rebalance_completed()
                if not event.member_ids:
                    logger.info("group has no members: group=%s generation=%d", event.group_id, event.generation_id)
                    return
                logger.info(
                    "rebalance completed: group=%s generation=%d protocol=%s leader_id=%s member_ids=%s",
                    *(event.group_id, event.generation_id, event.protocol_name, event.leader_id),
                    _names(event.member_ids),
                )
            case GroupEpochBumped(group_id, epoch, members_count, reason, kind):
                self._metrics.rebalance_started(RebalanceReason.EPOCH_RAISED.value)
                if kind == CONSUMER_KINDS.name:
                    self._metrics.consumer_group_rebalanced()
                else:
                    self._metrics.share_group_rebalanced()
                logger.info(
                    "group epoch raised: group=%s group_epoch=%d members=%d reason=%s",
                    *(group_id, epoch, members_count, reason),
                )
            case _:
                self._log(event)

    def _offsets_removed(self, event: OffsetsRemoved) -> None:
        if event.expired:
            self._metrics.offsets_expired(event.count)
        else:
            self._metrics.offsets_deleted(event.count)
        reason = "expired" if event.expired else "deleted"
        logger.info("offsets removed: group=%s offsets=%d reason=%s", event.group_id, event.count, reason)

    def _log(self, event: ShardEvent) -> None:
        match event:
            case MembersRemoved(group_id, member_ids, reason):
                logger.info("members removed: group=%s member_ids=%s reason=%s", group_id, _names(member_ids), reason)
            case MemberFenced(group_id, instance_id, member_id, current):
                logger.info(
                    "static member fenced: group=%s instance_id=%s member_id=%s current_member_id=%s",
                    *(group_id, instance_id, member_id, current),
                )
            case AssignmentReceived(group_id, generation_id, leader_id, missing) if missing:
                logger.warning(
                    "assignment lacks members: group=%s generation=%d leader_id=%s missing_member_ids=%s",
                    *(group_id, generation_id, leader_id, _names(missing)),
                )
            case AssignedMemberJoined(group_id, member_id, instance_id, replaced_id):
                logger.info(
                    "member joined: group=%s member_id=%s instance_id=%s replaced_member_id=%s",
                    *(group_id, member_id, instance_id or "-", replaced_id or "-"),
                )
            case TargetComputed(group_id, epoch, assignor, members_count):
                logger.info(
                    "target assignment computed: group=%s group_epoch=%d assignor=%s members=%d",
                    *(group_id, epoch, assignor, members_count),
                )
            case GroupConverted(group_id, kind, epoch, members_count):
                logger.info(
                    "group converted: group=%s kind=%s group_epoch=%d members=%d",
                    *(group_id, kind, epoch, members_count),
                )
            case ExpressionsNotResolved(group_id, reason):
                logger.warning("regular expressions not resolved: group=%s reason=%s", group_id, reason)
            case ShareStatesNotInitialized(group_id, count, error):
                logger.warning("share states not initialized: group=%s partitions=%d error=%s", group_id, count, error)
            case GroupRemoved(group_id, generation_id):
                logger.info("group removed: group=%s generation=%d", group_id, generation_id)
            case RecordSkipped(partition, offset, reason):
                logger.warning("record skipped: partition=%d offset=%d reason=%s", partition, offset, reason)
            case WaitingMemoryFull(group_id, used_bytes, limit_bytes):
                logger.warning(
                    "new members refused, barnabas.group.waiting.max.bytes is reached: group=%s "
                    "used_bytes=%d limit_bytes=%d",
                    *(group_id, used_bytes, limit_bytes),
                )
            case AppendFailed(group_id, change, error):
                logger.warning("change of a group not stored: group=%s change=%s error=%s", group_id, change, error)
            case _:
                pass


def _names(member_ids: Collection[str]) -> str:
    names = ",".join(list(member_ids)[:NAMED_MEMBERS_MAX]) or "-"
    return names if len(member_ids) <= NAMED_MEMBERS_MAX else f"{names},...({len(member_ids)})"
