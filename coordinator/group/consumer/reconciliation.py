"""The next step of a member towards its target assignment.

A member first gives up what it shall not own any more, in its present epoch; when it no longer reports those partitions, it
moves to the epoch of the target and gets what is free; what others still own it gets when they have given it up.

Rules: pure. A partition that another member owns is never given to this one.
Source: Kafka CurrentAssignmentBuilder (KIP-848); the epochs of partitions are those of KIP-1251.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.consumer.member import CurrentAssignment, MemberState, PartitionEpochs
from protocol.errors import ErrorCode, KafkaError

# What a member reports to own; None: it did not say.
Reported = Mapping[bytes, Collection[int]] | None


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a step is decided from. `topic_ids`: those that the member reads. `is_free` tells of a partition that this member
    does not own whether nobody does."""

    target_epoch: int
    target: TopicPartitions
    topic_ids: frozenset[bytes]
    has_subscription_changed: bool
    reported: Reported
    is_free: Callable[[bytes, int], bool]

    def step(self, current: CurrentAssignment) -> CurrentAssignment:
        """What the member owns next; `current` itself when nothing changes.

        Raises: KafkaError (FENCED_MEMBER_EPOCH) for a member in an unknown state, which has to join again.
        """
        match current.state:
            case MemberState.STABLE:
                if current.member_epoch != self.target_epoch:
                    return self._next(current, current.member_epoch)
                return self._without_unread_topics(current) if self.has_subscription_changed else current
            case MemberState.UNREVOKED_PARTITIONS:
                if not self._reports(current.pending_revocation):
                    return self._next(current, current.member_epoch)
                return self._without_unread_topics(current) if self.has_subscription_changed else current
            case MemberState.UNRELEASED_PARTITIONS:
                return self._next(current, current.member_epoch)
            case MemberState.UNKNOWN:
                if self.reported is None or self.reported:
                    raise KafkaError(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                        "rejoin.",
                    )
                return self._next(current, self.target_epoch)

    def _reports(self, partitions: PartitionEpochs) -> bool:
        """Whether the member may still own one of `partitions`."""
        if self.reported is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id, reported in self.reported.items()
            for partition in reported
        )

    def _next(self, current: CurrentAssignment, member_epoch: int) -> CurrentAssignment:
        kept: dict[bytes, Mapping[int, int]] = {}
        revoked: dict[bytes, Mapping[int, int]] = {}
        added: dict[bytes, list[int]] = {}
        has_unreleased = False
        for topic_id in dict.fromkeys([*self.target, *current.assigned]):
            target: Collection[int] = self.target.get(topic_id, ()) if topic_id in self.topic_ids else ()
            assigned = current.assigned.get(topic_id, {})
            keep = {partition: epoch for partition, epoch in assigned.items() if partition in target}
            if keep:
                kept[topic_id] = keep
            if len(keep) < len(assigned):
                revoked[topic_id] = {partition: epoch for partition, epoch in assigned.items() if partition not in keep}
            wanted = [partition for partition in target if partition not in keep]
            free = [partition for partition in wanted if self._may_take(current, topic_id, partition)]
            has_unreleased |= len(free) < len(wanted)
            if free:
                added[topic_id] = free
        if revoked and self._reports(revoked):
            # The epoch before counts as the previous one, also when it stays.
            return CurrentAssignment(
                member_epoch, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked
            )
        for topic_id, partitions in added.items():
            kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(partitions, self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        following = CurrentAssignment(self.target_epoch, current.member_epoch, state, kept, {})
        return current if following == current else following

    def _may_take(self, current: CurrentAssignment, topic_id: bytes, partition: int) -> bool:
        return partition in current.pending_revocation.get(topic_id, ()) or self.is_free(topic_id, partition)

    def _without_unread_topics(self, current: CurrentAssignment) -> CurrentAssignment:
        """The member no longer reads some topics of its assignment: it gives them up before the next target is computed."""
        unread = current.assigned.keys() - self.topic_ids
        if not unread:
            return current
        kept = {topic_id: each for topic_id, each in current.assigned.items() if topic_id not in unread}
        revoked = dict(current.pending_revocation)
        for topic_id in unread:
            revoked[topic_id] = {**revoked.get(topic_id, {}), **current.assigned[topic_id]}
        if self._reports(revoked):
            return CurrentAssignment(
                current.member_epoch, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked
            )
        return CurrentAssignment(
            current.member_epoch, current.member_epoch, current.state, kept, current.pending_revocation
        )
