"""A classic group: its members, its generation, and its five states.

                    first member joins                       everyone joined, or timeout
             EMPTY ---------------------> PREPARING_REBALANCE ------------------------> COMPLETING_REBALANCE
               ^                            ^   |        ^                                 |         |
               |      no member left         |   |        |   member comes, goes, changes   |         | leader's
               +----------------------------|---+        +---------------------------------+         | assignment
               |                            |                                                        v is stored
               | deleted or expired         +------------------------------------------------------ STABLE
               v                               member comes, goes, changes; leader joins again
             DEAD  (also: the leadership of the partition went elsewhere)

Rules: no IO, no clock. Membership is soft state; `stored` is the last committed group metadata record.
Invariants: `joining_count` is the number of members with a parked join; `_supporters[p]` the number of members that
support protocol p; a parked join is counted in the coordinator's `WaitingBytes`; every static member's id is in
`static_members`; a group with members has a protocol type.
Source: Kafka GroupMetadata, KIP-345 (static members), KIP-394 (member id required).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum

from coordinator.group.classic.member import Member, Protocols
from coordinator.group.classic.subscription import subscribed_topics
from coordinator.group.classic.waiting_bytes import WaitingBytes, size_of
from coordinator.group.offsets import GroupOffsets
from coordinator.runtime.contract import Waiter
from protocol.messages.join_group import JoinGroupResponseMember
from protocol.stored.group_metadata import GroupMetadataValue

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# target: the states it may be entered from.
TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class ClassicGroup:
    """Owned by the shard, from the first join, commit or loaded record until nothing of it is left."""

    __slots__ = (
        "_supporters",
        "_waiting",
        "assignment_pending_for",
        "generation_id",
        "group_id",
        "joining_count",
        "leader_id",
        "members",
        "new_member_added",
        "offsets",
        "pending_members",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "remaining_delay_ms",
        "state",
        "state_timestamp_ms",
        "static_members",
        "stored",
        "subscribed",
    )

    def __init__(self, group_id: str, now_ms: int, waiting: WaitingBytes, offsets: GroupOffsets | None = None) -> None:
        """`offsets` are those of the group id: they stay when the group becomes one of another kind."""
        self._waiting = waiting
        self.group_id = group_id
        self.state = GroupState.EMPTY
        # None: loaded from a record without it (value v0 and v1).
        self.state_timestamp_ms: int | None = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        # Member ids of MEMBER_ID_REQUIRED responses whose clients have not rejoined yet.
        self.pending_members: set[str] = set()
        # Members of this generation whose SyncGroup is still missing.
        self.pending_sync: set[str] = set()
        self.joining_count = 0
        # First rebalance only: a member was added since the delay was last extended; how long it may still be extended.
        self.new_member_added = False
        self.remaining_delay_ms: int | None = None
        # The generation whose assignment is in the log but not committed; a second one must not overtake it.
        self.assignment_pending_for: int | None = None
        # Topics the members consume, for expiry and OffsetDelete; None: not known.
        self.subscribed: frozenset[str] | None = None
        self.stored: GroupMetadataValue | None = None
        self.offsets = GroupOffsets() if offsets is None else offsets
        self._supporters: Counter[str] = Counter()

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_idle(self) -> bool:
        """Without members, and without offsets now or soon."""
        return self.is_empty and not self.offsets.is_in_use and not self.pending_members

    @property
    def can_rebalance(self) -> bool:
        return self.state in TRANSITIONS[GroupState.PREPARING_REBALANCE]

    @property
    def all_members_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_forgettable(self) -> bool:
        """Nothing durable and no members: the group may be removed from memory."""
        return (
            self.state in (GroupState.EMPTY, GroupState.DEAD)
            and self.stored is None
            and not self.pending_members
            and not self.offsets.is_in_use
        )

    def transition(self, state: GroupState, now_ms: int) -> None:
        assert self.state in TRANSITIONS[state], f"group {self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    # --- members ---------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: one of them must be supported by all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self._supporters[name] == count for name, _ in protocols)

    def add(self, member: Member, joining: Waiter | None) -> None:
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, +1)
        self._set_joining(member, joining)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending member. The caller completes its parked requests."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.joining is not None:
                self.joining_count -= 1
                self._count_bytes(member, 0)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        return member

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        joining: Waiter | None,
    ) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, +1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._set_joining(member, joining)

    def rename_static(self, group_instance_id: str, old_member_id: str, new_member_id: str) -> Member:
        """Give a static member its new id; everything else of it stays, also its position in the order."""
        member = self.members[old_member_id]
        assert self.static_members[group_instance_id] == old_member_id
        member.member_id = new_member_id
        self.members = {each.member_id: each for each in self.members.values()}
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[group_instance_id] = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)
        return member

    def take_joining(self, member: Member) -> Waiter | None:
        """Remove and return the parked join of `member`."""
        waiter, member.joining = member.joining, None
        if waiter is not None:
            self.joining_count -= 1
            self._count_bytes(member, 0)
        return waiter

    def elect_joined_leader(self) -> bool:
        """Make a member that joined the leader. False when no member joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader_id = member.member_id
                return True
        return False

    # --- generations -----------------------------------------------------------------------------------------------

    def select_protocol(self) -> str:
        """The protocol that all members support and most prefer; on a tie the one that was voted for first."""
        assert self.members
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def start_generation(self, now_ms: int) -> None:
        """The rebalance is over: the members form the next generation; without members the group is empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed = subscribed_topics(self.protocol_type, self.protocol_name, self.members.values())
        self.pending_sync.clear()
        self.transition(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def subscriptions(self) -> list[JoinGroupResponseMember]:
        """The members with their metadata under the chosen protocol, from which the leader assigns."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`; True also when the subscriptions are unknown, so that no offset is lost."""
        return self.subscribed is None or topic in self.subscribed

    # --- durable ---------------------------------------------------------------------------------------------------

    def restore(self, value: GroupMetadataValue, members: list[Member]) -> None:
        """Restore the group from a stored record. Only for a group without members in memory."""
        assert not self.members and not self.pending_sync
        self.state = GroupState.STABLE if members else GroupState.EMPTY
        self.state_timestamp_ms = value.current_state_timestamp if value.current_state_timestamp != -1 else None
        self.generation_id = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        for member in members:
            self.add(member, None)
        self.subscribed = subscribed_topics(self.protocol_type, self.protocol_name, self.members.values())

    def take_over(self, members: Sequence[Member], generation_id: int, now_ms: int) -> None:
        """Make `members`, of a consumer group before, the stable generation. Only for a new group."""
        assert not self.members and members
        for member in members:
            self.add(member, None)
        self.generation_id = generation_id
        self.protocol_name = self.select_protocol()
        self.subscribed = subscribed_topics(self.protocol_type, self.protocol_name, self.members.values())
        self.state, self.state_timestamp_ms = GroupState.STABLE, now_ms

    def clear(self, now_ms: int) -> None:
        """Reset to a group that was never stored. Only for a group without parked joins."""
        assert self.joining_count == 0
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type = self.protocol_name = self.leader_id = self.subscribed = None
        self.members.clear()
        self.static_members.clear()
        self.pending_sync.clear()
        self._supporters.clear()

    def adopt_assignment(self, value: GroupMetadataValue, now_ms: int) -> None:
        """The assignment of this generation is committed: the group is stable."""
        assert value.generation == self.generation_id
        for stored in value.members:
            self.members[stored.member_id].assignment = stored.assignment
        self.transition(GroupState.STABLE, now_ms)

    def revive(self, state_timestamp_ms: int | None) -> None:
        """The deletion failed: the group is empty again."""
        assert self.state is GroupState.DEAD and not self.members
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = state_timestamp_ms

    def _count_protocols(self, member: Member, step: int) -> None:
        for name in {name for name, _ in member.protocols}:  # a client may name one twice
            self._supporters[name] += step

    def _set_joining(self, member: Member, joining: Waiter | None) -> None:
        self.joining_count += (joining is not None) - (member.joining is not None)
        member.joining = joining
        self._count_bytes(member, 0 if joining is None else size_of(member.protocols))

    def _count_bytes(self, member: Member, size_bytes: int) -> None:
        self._waiting.change(size_bytes - member.waiting_bytes)
        member.waiting_bytes = size_bytes
