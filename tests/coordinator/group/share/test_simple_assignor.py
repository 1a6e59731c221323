"""Partitions of share groups are dealt out evenly, and members keep what they have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.assigned.assignor import Assignment, MemberInput, run_all
from coordinator.group.share.simple_assignor import simple_steps

T, U = b"t" * 16, b"u" * 16


def assign(
    topics: dict[bytes, int], subscriptions: dict[str, set[bytes]], before: Assignment | None = None
) -> Assignment:
    members = {
        name: MemberInput(None, frozenset(read), (before or {}).get(name, {})) for name, read in subscriptions.items()
    }
    read = frozenset().union(*subscriptions.values())
    assignable = {topic: frozenset(range(count)) for topic, count in topics.items() if topic in read}
    return run_all(simple_steps(members, assignable))


@pytest.mark.parametrize(
    ("topics", "subscriptions", "expected"),
    [
        ({T: 2}, {"a": {T}}, {"a": {T: {0, 1}}}),
        ({T: 3}, {"a": {T}, "b": {T}}, {"a": {T: {0, 2}}, "b": {T: {1}}}),
        ({T: 1}, {"a": {T}, "b": {T}}, {"a": {T: {0}}, "b": {T: {0}}}),
        ({T: 2}, {"a": {T}, "b": {T}, "c": {T}}, {"a": {T: {0, 1}}, "b": {T: {0}}, "c": {T: {1}}}),
        ({T: 2, U: 2}, {"a": {T}, "b": {U}, "c": {T, U}}, {"a": {T: {0}}, "b": {U: {0}}, "c": {T: {1}, U: {1}}}),
        ({T: 0}, {"a": {T}}, {"a": {}}),
        ({}, {"a": set(), "b": set()}, {"a": {}, "b": {}}),
    ],
)
def test_assignments(topics: dict[bytes, int], subscriptions: dict[str, set[bytes]], expected: Assignment) -> None:
    assert assign(topics, subscriptions) == expected


def test_members_keep_what_they_have() -> None:
    before = assign({T: 4}, {"a": {T}, "b": {T}})
    again = assign({T: 4}, {"a": {T}, "b": {T}}, before)
    assert all(again[name] is before[name] for name in before)
    third = assign({T: 4}, {"a": {T}, "b": {T}, "c": {T}}, before)
    kept = [third[name].get(T, frozenset()) & before[name][T] for name in "ab"]
    assert [len(each) for each in kept] == [2, 1]
    assert len(third["c"][T]) == 1


names = st.sampled_from("abcdefgh")
subscription = st.dictionaries(names, st.sets(st.sampled_from([T, U])), min_size=1)
sizes = st.fixed_dictionaries({T: st.integers(0, 7), U: st.integers(0, 3)})


@given(first=subscription, second=subscription, old=sizes, new=sizes)
def test_every_partition_has_members_and_every_member_its_part(
    first: dict[str, set[bytes]], second: dict[str, set[bytes]], old: dict[bytes, int], new: dict[bytes, int]
) -> None:
    before = assign(old, first)
    after = assign(new, second, before)
    assert after.keys() == second.keys()
    for topic, count in new.items():
        readers = [name for name, read in second.items() if topic in read]
        holders = [[name for name in readers if partition in after[name].get(topic, ())] for partition in range(count)]
        if readers:
            assert all(holders)
        assert all(after[name].get(topic) is None for name in second if name not in readers)
        assert not any(partition >= count for name in readers for partition in after[name].get(topic, ()))
    if all(read == next(iter(second.values())) for read in second.values()):
        counts = [sum(map(len, shares.values())) for shares in after.values()]
        assert max(counts) - min(counts) <= 1 or 0 in counts
