"""The assignor `range`: of every topic, its readers, in one order, own one range of partitions each.

The order is the same for all topics (static members by instance id, then the others by member id), so topics with as many
partitions and the same readers are co-partitioned: a member owns the same partitions of each. Of n partitions and m readers
each owns n / m, and the first n % m one more. What members owned before decides nothing.
Source: Kafka RangeAssignor.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from coordinator.group.assigned.assignor import STEP_WORK, Assignment, Assignor, Members, Steps, Topics


def _steps(members: Members, topics: Topics) -> Steps:
    reader_counts: Counter[bytes] = Counter()
    work = 0
    for member in members.values():
        reader_counts.update(member.topic_ids)
        work += len(member.topic_ids)
        if work >= STEP_WORK:
            yield
            work = 0
    quotas = {topic_id: divmod(topics[topic_id], count) for topic_id, count in reader_counts.items()}
    positions = dict.fromkeys(quotas, 0)  # how many readers of a topic have got their range
    unfinished = set(quotas)  # topics of which partitions are left
    ordered = sorted(members, key=lambda member_id: _order(members, member_id))
    yield
    assignment: Assignment = {}
    for member_id in ordered:
        member = members[member_id]
        shares: dict[bytes, frozenset[int]] = {}
        for topic_id in member.topic_ids & unfinished:
            quota, extra = quotas[topic_id]
            position = positions[topic_id]
            positions[topic_id] = position + 1
            first = position * quota + min(position, extra)
            after = first + quota + (position < extra)
            if first < after:
                shares[topic_id] = frozenset(range(first, after))
                work += after - first
            else:
                unfinished.remove(topic_id)
        assignment[member_id] = member.owned if shares == member.owned else shares
        work += len(unfinished) + 1
        if work >= STEP_WORK:
            yield
            work = 0
    return assignment


def _order(members: Members, member_id: str) -> tuple[bool, bytes]:
    """Static members first. Texts as Java compares them, by UTF-16 code units."""
    instance_id = members[member_id].instance_id
    text = member_id if instance_id is None else instance_id
    return instance_id is None, text.encode("utf-16-be", "surrogatepass")


RANGE: Final = Assignor("range", _steps)
