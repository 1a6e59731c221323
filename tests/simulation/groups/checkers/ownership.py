"""Owners: no partition has two owners at once, by what members were told and have acknowledged.

A member owns a partition from the answer that names it to the request that names it no more (a heartbeat, a JoinGroup),
or until it leaves or learns that it has lost it; an answer to what it had asked before that, it does not hear any more. A
member that the coordinator has given up knows nothing of it, so a second owner counts only while the first cannot have been
given up: within the shortest of its timeouts behind its last heartbeat that was answered, and, once it was asked to let go,
within its rebalance timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report

NEVER_S = float("-inf")
ALWAYS_S = float("inf")


@dataclass(slots=True)
class Owner:
    alive_s: float = NEVER_S  # when the last request was sent that a coordinator has answered
    owned: set[TopicPartition] = field(default_factory=set)
    assigned: set[TopicPartition] = field(default_factory=set)  # what the coordinator has told last
    asked_back_s: dict[TopicPartition, float] = field(default_factory=dict)


class OwnershipChecker:
    """`session_s` and `rebalance_s` are the timeouts of all members."""

    def __init__(
        self,
        report: Report,
        count: Callable[[str], None],
        now_s: Callable[[], float],
        *,
        session_s: float,
        rebalance_s: float,
    ) -> None:
        self._report = report
        self._count = count
        self._now_s = now_s
        self._session_s = session_s
        self._rebalance_s = rebalance_s
        self._owners: dict[str, dict[str, Owner]] = {}  # by group and member
        self._ended_s: dict[tuple[str, str], float] = {}

    def _owner(self, group: str, member: str) -> Owner:
        return self._owners.setdefault(group, {}).setdefault(member, Owner())

    def answered(self, group: str, member: str, sent_s: float) -> None:
        """A heartbeat that was sent then has reached the coordinator, and nothing is asked back."""
        owner = self._owner(group, member)
        owner.alive_s = max(owner.alive_s, sent_s)

    def assigned(self, group: str, member: str, assignment: Collection[TopicPartition], sent_s: float) -> None:
        """The coordinator's answer to a request that was sent then names what the member may have, and nothing else."""
        if self._is_void(group, member, sent_s):
            return
        owner = self._owner(group, member)
        before_s = owner.alive_s
        owner.alive_s = max(before_s, sent_s)
        for key in owner.owned - set(assignment):
            # It may have been asked back before: an answer that said so may not have come.
            owner.asked_back_s.setdefault(key, max(before_s, NEVER_S))
        owner.assigned = set(assignment)
        for key in assignment:
            owner.asked_back_s.pop(key, None)
            if key not in owner.owned:
                owner.owned.add(key)
                self._count("partitions assigned")
                self._compare(group, member, key)

    def _compare(self, group: str, member: str, key: TopicPartition) -> None:
        now_s = self._now_s()
        if now_s >= self._sure_until_s(self._owner(group, member), key):
            return  # an answer that came late: it may have been given up since
        for other, owner in self._owners[group].items():
            if other != member and key in owner.owned and now_s < self._sure_until_s(owner, key):
                self._report(f"{group}: {key} was given to {member}, though {other} has it")

    def _sure_until_s(self, owner: Owner, key: TopicPartition) -> float:
        """Until when the coordinator cannot have given it up."""
        until_s = owner.alive_s + min(self._session_s, self._rebalance_s)
        asked_back_s = owner.asked_back_s.get(key)
        return until_s if asked_back_s is None else min(until_s, asked_back_s + self._rebalance_s)

    def _is_void(self, group: str, member: str, sent_s: float) -> bool:
        """Whether the member has ended since it sent that request."""
        return sent_s < self._ended_s.get((group, member), NEVER_S)

    def trusted_no_more(self, group: str, member: str, assignment: Collection[TopicPartition], sent_s: float) -> None:
        """A coordinator that was one has told an assignment: the member believes it, and nobody else has to."""
        if self._is_void(group, member, sent_s):
            return
        owner = self._owner(group, member)
        owner.owned |= set(assignment)
        owner.assigned = set(assignment)
        owner.alive_s = NEVER_S

    def kept(self, group: str, member: str, partitions: Collection[TopicPartition]) -> None:
        """The member says that it owns these, and no others: what it has of its assignment it may not have taken yet."""
        owner = self._owner(group, member)
        before = owner.owned
        owner.owned = before & (owner.assigned | set(partitions))
        self._count_released(len(before - owner.owned))
        owner.asked_back_s = {key: since_s for key, since_s in owner.asked_back_s.items() if key in owner.owned}

    def _count_released(self, count: int) -> None:
        for _ in range(count):
            self._count("partitions let go of")

    def joining(self, group: str, member: str) -> None:
        """The member asks to become one, and has nothing."""
        owner = self._owner(group, member)
        self._count_released(len(owner.owned))
        owner.owned.clear()
        owner.assigned.clear()
        owner.asked_back_s.clear()

    def ended(self, group: str, member: str) -> None:
        """The member is gone, or knows that it has lost everything."""
        self._owners.setdefault(group, {}).pop(member, None)
        self._ended_s[group, member] = self._now_s()

    def forget(self) -> None:
        """A coordinator may have lost what it knew: who owns what begins anew."""
        self._owners.clear()

    def owners(self, group: str, key: TopicPartition) -> list[str]:
        return [member for member, owner in self._owners.get(group, {}).items() if key in owner.owned]

    def is_complete(self, group: str, keys: Collection[TopicPartition]) -> bool:
        """Whether each partition has exactly one owner."""
        return all(len(self.owners(group, key)) == 1 for key in keys)
