"""The assignor `simple`: members of a share group get partitions in equal numbers, and each partition as many members.

With fewer members than partitions each partition has one member; with more, each has several, rounded up, so that no member is
without. Members keep as much as they can of what they have. Where all members read the same topics, all partitions are dealt
out together; where they do not, those of each topic among the members that read it.

Rules: as all assignors (`assigned/assignor.py`). Only partitions that may be assigned are.
Source: Kafka SimpleAssignor, SimpleHomogeneousAssignmentBuilder, SimpleHeterogeneousAssignmentBuilder (KIP-932). Kafka's order
of partitions follows from hashes of topic ids; here it is ascending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from math import ceil
from typing import Final, TypeAlias

from coordinator.group.assigned.assignor import (
    STEP_WORK,
    Assignment,
    Members,
    Steps,
    TopicPartitions,
    id_order,
)

ASSIGNOR_NAME: Final = "simple"

_Place: TypeAlias = tuple[bytes, int]
_Places: TypeAlias = dict[str, set[_Place]]


def simple_steps(members: Members, assignable: TopicPartitions) -> Steps:
    """`assignable`: of each topic that some member reads, the partitions that may be assigned."""
    topic_ids = sorted(assignable, key=id_order)
    first = next(iter(members.values()), None)
    dealt: _Places = {member_id: set() for member_id in members}
    if first is not None and all(each.topic_ids == first.topic_ids for each in members.values()):
        places = [(topic_id, partition) for topic_id in topic_ids for partition in sorted(assignable[topic_id])]
        yield from _deal(members, list(members), places, dealt)
    else:
        for topic_id in topic_ids:
            readers = [member_id for member_id, member in members.items() if topic_id in member.topic_ids]
            places = [(topic_id, partition) for partition in sorted(assignable[topic_id])]
            yield from _deal(members, readers, places, dealt)
            yield
    assignment: Assignment = {}
    for member_id, member in members.items():
        shares = _by_topic(dealt[member_id])
        assignment[member_id] = member.owned if shares == member.owned else shares
        yield
    return assignment


def _deal(
    members: Members, readers: Sequence[str], places: Sequence[_Place], dealt: _Places
) -> Generator[None, None, None]:
    """Deal `places` out among `readers`, and add them to `dealt`."""
    if not places or not readers:
        return
    sharing = -(-len(readers) // len(places))
    quota = _quotas(readers, sharing * len(places))
    sharers: dict[_Place, list[str]] = {place: [] for place in places}
    mine: _Places = {}
    for member_id in readers:
        present = sorted(place for place in _owned(members[member_id].owned, places) if place in sharers)
        kept = present[max(0, len(present) - quota[member_id]) :]
        mine[member_id] = set(kept)
        for place in kept:
            sharers[place].append(member_id)
        yield
    for place, having in sharers.items():
        surplus = max(0, len(having) - sharing)
        for member_id in having[:surplus]:
            mine[member_id].discard(place)
        del having[:surplus]
    yield from _fill(sharers, sharing, mine, quota)
    for member_id, got in mine.items():
        dealt[member_id] |= got


def _fill(
    sharers: Mapping[_Place, list[str]], sharing: int, mine: _Places, quota: Mapping[str, int]
) -> Generator[None, None, None]:
    """Give places with too few members to those that have too few places, by turns. A place that all of these have already
    stays with fewer."""
    unfilled = deque(member_id for member_id, got in mine.items() if len(got) < quota[member_id])
    work = 0
    for place, having in sharers.items():
        refused = 0
        while len(having) < sharing and refused < len(unfilled):
            work += 1
            member_id = unfilled.popleft()
            got = mine[member_id]
            if place in got:
                refused += 1
                unfilled.append(member_id)
                continue
            got.add(place)
            having.append(member_id)
            refused = 0
            if len(got) < quota[member_id]:
                unfilled.append(member_id)
        if work >= STEP_WORK:
            yield
            work = 0


def _quotas(readers: Sequence[str], total: int) -> dict[str, int]:
    """How many places each reader gets of `total`: equally many, give or take one."""
    precise = total / len(readers)
    bounds = [ceil(precise * index) for index in range(len(readers) + 1)]
    return {member_id: bounds[index + 1] - bounds[index] for index, member_id in enumerate(readers)}


def _owned(owned: TopicPartitions, places: Sequence[_Place]) -> Iterable[_Place]:
    """What a member has of the topics of `places`, which are of one topic or of all."""
    first, last = places[0][0], places[-1][0]
    topic_ids: Iterable[bytes] = owned if first != last else [first]
    for topic_id in topic_ids:
        for partition in owned.get(topic_id, ()):
            yield topic_id, partition


def _by_topic(places: Iterable[_Place]) -> TopicPartitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
