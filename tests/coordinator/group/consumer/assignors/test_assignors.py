"""Server-side assignors beside the answers of Apache Kafka 4.3.0, `python -m tests.oracle.assignors`, and what always holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.assigned.assignor import Assignment, MemberInput, Members, Topics
from coordinator.group.consumer.assignors import ASSIGNORS
from tests.oracle.assignors import Group, recording


@pytest.mark.parametrize("group", recording())
def test_assigns_as_apache_kafka(group: Group) -> None:
    owned: Assignment = {}
    for each in group.rounds:
        members = {
            member_id: MemberInput(instance_id, topic_ids, owned.get(member_id, {}))
            for member_id, (instance_id, topic_ids) in each.members.items()
        }
        owned = ASSIGNORS[group.assignor](members, group.topics)
        assert owned == each.answer


TOPICS: Topics = {bytes([number]) * 16: count for number, count in enumerate((1, 2, 5, 8, 0), start=120)}
subscriptions = st.frozensets(st.sampled_from(list(TOPICS)))
rounds = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), subscriptions), min_size=1, max_size=4)
homogeneous_rounds = st.lists(
    st.tuples(st.frozensets(st.sampled_from("abcdefgh")), subscriptions).map(
        lambda each: dict.fromkeys(sorted(each[0]), each[1])
    ),
    min_size=1,
    max_size=4,
)


def run(name: str, rounds: list[dict[str, frozenset[bytes]]]) -> Iterator[tuple[Members, Assignment]]:
    owned: Assignment = {}
    for members in rounds:
        asked = {
            member_id: MemberInput(None, topic_ids, owned.get(member_id, {}))
            for member_id, topic_ids in members.items()
        }
        owned = ASSIGNORS[name](asked, TOPICS)
        yield asked, owned


def sizes(assignment: Assignment) -> list[int]:
    return [sum(map(len, share.values())) for share in assignment.values()]


@given(st.sampled_from(sorted(ASSIGNORS)), rounds)
def test_each_partition_has_one_owner_who_reads_it(name: str, rounds: list[dict[str, frozenset[bytes]]]) -> None:
    for members, assignment in run(name, rounds):
        assert assignment.keys() == members.keys()
        owners: Counter[tuple[bytes, int]] = Counter()
        for member_id, share in assignment.items():
            assert share.keys() <= members[member_id].topic_ids and all(share.values())
            owners.update((topic, partition) for topic, partitions in share.items() for partition in partitions)
        read = frozenset[bytes]().union(*(member.topic_ids for member in members.values()))
        assert owners == {(topic, partition): 1 for topic in read for partition in range(TOPICS[topic])}


@given(st.sampled_from(sorted(ASSIGNORS)), rounds)
def test_an_assignment_stays_when_nothing_changed(name: str, rounds: list[dict[str, frozenset[bytes]]]) -> None:
    *_, (_, before), (asked, after) = run(name, [*rounds, rounds[-1]])
    assert after == before
    assert all(share is asked[member_id].owned for member_id, share in after.items())


@given(homogeneous_rounds)
def test_uniform_is_balanced_and_moves_no_more_than_it_must(rounds: list[dict[str, frozenset[bytes]]]) -> None:
    for members, assignment in run("uniform", rounds):
        counts = sizes(assignment)
        assert max(counts, default=0) - min(counts, default=0) <= 1
        least = min(counts, default=0)
        for member_id, share in assignment.items():
            wanted = {
                (topic, partition)
                for topic, partitions in members[member_id].owned.items()
                if topic in members[member_id].topic_ids
                for partition in partitions
            }
            kept = {(topic, partition) for topic, partitions in share.items() for partition in partitions} & wanted
            assert len(kept) >= min(len(wanted), least)


@given(rounds)
def test_uniform_is_balanced_among_readers_of_different_topics(rounds: list[dict[str, frozenset[bytes]]]) -> None:
    """No partition could move to a reader that has two less than its owner."""
    for members, assignment in run("uniform", rounds):
        count = dict(zip(assignment, sizes(assignment), strict=True))
        for owner, share in assignment.items():
            for reader, member in members.items():
                assert count[owner] - count[reader] <= 1 or not share.keys() & member.topic_ids


@given(rounds)
def test_range_gives_partitions_of_one_number_to_one_member(rounds: list[dict[str, frozenset[bytes]]]) -> None:
    readers: defaultdict[tuple[int, frozenset[str]], list[bytes]] = defaultdict(list)
    for members, assignment in run("range", rounds):
        readers.clear()
        for topic, count in [*TOPICS.items(), (b"twin", 5)]:
            readers[count, frozenset(m for m, each in members.items() if topic in each.topic_ids)].append(topic)
        for topics in readers.values():
            for share in assignment.values():
                assert len({share.get(topic) for topic in topics}) == 1


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_many_members_are_assigned_in_many_steps(name: str) -> None:
    topic_ids = frozenset(TOPICS)
    members = {f"member-{number}": MemberInput(None, topic_ids, {}) for number in range(10_000)}
    steps = ASSIGNORS[name].steps(members, {**TOPICS, bytes([120]) * 16: 10_000})
    assert sum(1 for _ in steps) > 10
