"""The assignor `uniform`: members own as many partitions each, give or take one, and keep as much as they can of what they own.

Where all members read the same topics, that is exact: `_Homogeneous`. Where they do not, `mixed_subscriptions` comes as close
as moves of one partition at a time get it.
Source: Kafka UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from coordinator.group.assigned.assignor import (
    STEP_WORK,
    Assignment,
    Assignor,
    MemberInput,
    Members,
    Steps,
    TopicPartitions,
    Topics,
    id_order,
)
from coordinator.group.consumer.assignors.mixed_subscriptions import assign_mixed


def _steps(members: Members, topics: Topics) -> Steps:
    if not members:
        return {}
    if (yield from _is_homogeneous(members)):
        return (yield from _assign_homogeneous(members, topics))
    return (yield from assign_mixed(members, topics))


def _is_homogeneous(members: Members) -> Generator[None, None, bool]:
    """Whether all members read the same topics."""
    first = next(iter(members.values())).topic_ids
    work = 0
    for member in members.values():
        if member.topic_ids is first:
            continue
        if member.topic_ids != first:
            return False
        work += len(first) + 1
        if work >= STEP_WORK:
            yield
            work = 0
    return True


def _assign_homogeneous(members: Members, topics: Topics) -> Steps:
    """Members keep what they own up to their quota, in their order; the rest goes to those below theirs, in the same order."""
    topic_ids = sorted(next(iter(members.values())).topic_ids, key=id_order)
    quota, extras = divmod(sum(topics[topic_id] for topic_id in topic_ids), len(members))
    free = _Free()
    yield from _collect_unowned(members, topics, topic_ids, free)
    kept: dict[str, dict[bytes, frozenset[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    work = 0
    for members_before, (member_id, member) in enumerate(members.items()):
        room = quota + (extras > 0)
        kept[member_id], room = _keep(member, room, free)
        has_extra = extras > 0
        if room > 0 and has_extra and len(members) - members_before > extras:
            room -= 1  # a later member may already own one more, and would keep it
            has_extra = False
        if room > 0:
            unfilled.append((member_id, room))
        extras -= has_extra
        work += len(member.owned) + quota + 1
        if work >= STEP_WORK:
            yield
            work = 0
    for member_id, room in unfilled:
        free.move(kept[member_id], room)
        work += room
        if work >= STEP_WORK:
            yield
            work = 0
    assert free.is_empty, "partitions were left unassigned"
    assignment: Assignment = {}
    for member_id, member in members.items():
        shares = kept[member_id]
        assignment[member_id] = member.owned if shares == member.owned else shares
        work += len(shares) + 1
        if work >= STEP_WORK:
            yield
            work = 0
    return assignment


class _Free:
    """Partitions that nobody owns, in the order in which they are given out."""

    def __init__(self) -> None:
        self._runs: list[tuple[bytes, list[int]]] = []
        self._run = 0
        self._position = 0

    @property
    def is_empty(self) -> bool:
        return self._run == len(self._runs)

    def add(self, topic_id: bytes, partitions: list[int]) -> None:
        if partitions:
            self._runs.append((topic_id, partitions))

    def move(self, shares: dict[bytes, frozenset[int]], count: int) -> None:
        """Give the next `count` partitions, or all that are left, to `shares`."""
        while count > 0 and self._run < len(self._runs):
            topic_id, partitions = self._runs[self._run]
            given = partitions[self._position : self._position + count]
            shares[topic_id] = shares.get(topic_id, frozenset()).union(given)
            count -= len(given)
            self._position += len(given)
            if self._position == len(partitions):
                self._run += 1
                self._position = 0


def _collect_unowned(
    members: Members, topics: Topics, topic_ids: list[bytes], free: _Free
) -> Generator[None, None, None]:
    owned: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    work = 0
    for member in members.values():
        for topic_id, partitions in member.owned.items():
            if topic_id in owned:
                owned[topic_id].update(partitions)
            work += len(partitions) + 1
        if work >= STEP_WORK:
            yield
            work = 0
    for topic_id in topic_ids:
        taken = owned[topic_id]
        free.add(topic_id, [each for each in range(topics[topic_id]) if each not in taken])
        work += topics[topic_id] + 1
        if work >= STEP_WORK:
            yield
            work = 0


def _keep(member: MemberInput, room: int, free: _Free) -> tuple[dict[bytes, frozenset[int]], int]:
    """What `member` keeps of what it owns, and how much room is left; what it has to give up becomes free."""
    kept: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in _ordered(member.owned):
        if topic_id not in member.topic_ids:
            continue
        if len(partitions) <= room:
            kept[topic_id] = partitions
            room -= len(partitions)
            continue
        ordered = sorted(partitions)
        if room:
            kept[topic_id] = frozenset(ordered[:room])
        free.add(topic_id, ordered[room:])
        room = 0
    return kept, room


def _ordered(owned: TopicPartitions) -> list[tuple[bytes, frozenset[int]]]:
    items = list(owned.items())
    if len(items) > 1:
        items.sort(key=lambda item: id_order(item[0]))
    return items


UNIFORM: Final = Assignor("uniform", _steps)
