"""Groups: in one generation there is one leader, one list of members and one assignment, and generations rise.

A generation that was not stored before a crash may be given out again afterwards, so everything is known by the broker's
life as well. Of two generations only the newer may commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from client.membership.assignors import decode_assignment
from protocol.topic_partition import TopicPartition

_UUID_CHARACTERS = 36


@dataclass(slots=True)
class Generation:
    leader: str
    protocol: str | None
    members: list[str] = field(default_factory=list)
    assignment: dict[str, bytes] = field(default_factory=dict)


class GroupChecker:
    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._generations: dict[tuple[str, int, int], Generation] = {}  # (group, broker's life, generation)
        self._given: dict[tuple[str, int, str], set[bytes]] = {}  # (group, generation, member) -> of any life
        self._synced: dict[tuple[str, int], int] = {}

    def joined(
        self, group: str, life: int, generation: int, leader: str, protocol: str | None, members: list[str]
    ) -> None:
        """`members` is empty for all but the leader."""
        known = self._generations.setdefault((group, life, generation), Generation(leader, protocol))
        if (who(known.leader), known.protocol) != (who(leader), protocol):
            self._report(f"{group} generation {generation}: leaders {known.leader} and {leader}")
        if members:
            if known.members and sorted(map(who, known.members)) != sorted(map(who, members)):
                self._report(f"{group} generation {generation}: members {known.members}, then {members}")
            known.members = members
            if leader not in members:
                self._report(f"{group} generation {generation}: leader {leader} is not of {members}")
        if generation < self._synced.get((group, life), -1):
            self._report(f"{group}: generation {generation} after {self._synced[group, life]}")

    def assigning(self, group: str, life: int, generation: int, assignment: dict[str, bytes]) -> None:
        self._generations[group, life, generation].assignment = assignment
        for member, content in assignment.items():
            self._given.setdefault((group, generation, member), set()).add(content)

    def synced(
        self, group: str, life: int, generation: int, member: str, instance: str | None, assignment: bytes
    ) -> None:
        """A static member (`instance`) that comes back under a new id gets what the old one had."""
        known = self._generations[group, life, generation]
        expected = known.assignment.get(member)
        if expected != assignment and assignment not in self._inherited(group, generation, member, instance):
            self._report(f"{group} generation {generation}: {member} got {assignment!r}, the leader gave {expected!r}")
        self._synced[group, life] = max(self._synced.get((group, life), -1), generation)

    def _inherited(self, group: str, generation: int, member: str, instance: str | None) -> set[bytes]:
        """What the member may have been given in this generation before it joined in this life of the broker."""
        return {
            content
            for (of_group, of_generation, of_member), contents in self._given.items()
            if (of_group, of_generation) == (group, generation)
            and (of_member == member or (instance is not None and of_member.startswith(f"{instance}-")))
            for content in contents
        }

    def newest(self, group: str, life: int) -> int:
        """The newest generation that anybody has synced."""
        return self._synced.get((group, life), -1)

    def committing(self, group: str, generation: int, member: str, instance: str | None, key: TopicPartition) -> None:
        """A member sends a commit: of what it was given in this generation."""
        if not any(key in decode_assignment(each) for each in self._inherited(group, generation, member, instance)):
            self._report(f"{group} generation {generation}: {member} commits {key}, which it was not given")

    def committed(self, group: str, life: int, generation: int, newest_when_sent: int) -> None:
        if generation < newest_when_sent:
            self._report(f"{group}: generation {generation} committed, though {newest_when_sent} was under way")


def who(member_id: str) -> str:
    """A member without the random part of its id: a static one comes back under another."""
    return member_id[:-_UUID_CHARACTERS]
