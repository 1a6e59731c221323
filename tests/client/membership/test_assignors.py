"""Who gets which partitions, in the forms of Java's consumers (the expected lists are what RangeAssignor and RoundRobinAssignor
of Apache Kafka 3.9.1 give)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.membership.assignors import (
    ASSIGNORS,
    Subscriber,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription


def member(name: str, *topics: str, instance: str | None = None) -> Subscriber:
    return Subscriber(name, instance, frozenset(topics))


@pytest.mark.parametrize(
    ("name", "members", "counts", "expected"),
    [
        ("range", [member("a", "t"), member("b", "t")], {"t": 3}, {"a": "t0 t1", "b": "t2"}),
        (
            "range",
            [member("a", "t", "u"), member("b", "t", "u")],
            {"t": 3, "u": 3},
            {"a": "t0 t1 u0 u1", "b": "t2 u2"},
        ),
        ("range", [member("a", "t"), member("b", "t"), member("c", "t")], {"t": 2}, {"a": "t0", "b": "t1", "c": ""}),
        ("range", [member("a", "t"), member("b", "t", instance="x")], {"t": 3}, {"b": "t0 t1", "a": "t2"}),
        ("range", [member("a", "t"), member("b", "u")], {"t": 1}, {"a": "t0", "b": ""}),
        (
            "roundrobin",
            [member("a", "t", "u"), member("b", "t", "u")],
            {"t": 3, "u": 3},
            {"a": "t0 t2 u1", "b": "t1 u0 u2"},
        ),
        (
            "roundrobin",
            [member("a", "t"), member("b", "t", "u"), member("c", "t", "u")],
            {"t": 1, "u": 3},
            {"a": "t0", "b": "u0 u2", "c": "u1"},
        ),
    ],
)
def test_assignments(name: str, members: list[Subscriber], counts: dict[str, int], expected: dict[str, str]) -> None:
    given_to = ASSIGNORS[name](members, counts)
    assert {who: " ".join(f"{topic}{partition}" for topic, partition in given_to[who]) for who in given_to} == expected


@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.dictionaries(st.sampled_from("abcde"), st.frozensets(st.sampled_from("tuv")), min_size=1),
    st.dictionaries(st.sampled_from("tuv"), st.integers(0, 9)),
)
def test_each_partition_that_anybody_wants_has_one_owner_who_wants_it(
    name: str, wishes: dict[str, frozenset[str]], counts: dict[str, int]
) -> None:
    found = ASSIGNORS[name]([Subscriber(who, None, topics) for who, topics in wishes.items()], counts)
    owned = sorted(each for partitions in found.values() for each in partitions)
    wanted = {topic for topics in wishes.values() for topic in topics}
    assert owned == sorted((topic, n) for topic, count in counts.items() if topic in wanted for n in range(count))
    assert all(topic in wishes[who] for who, partitions in found.items() for topic, _ in partitions)
    sizes = [len(found[who]) for who in found if wishes[who] == wanted]
    if name == "roundrobin" and len(sizes) == len(found):
        assert max(sizes) - min(sizes) <= 1


def test_what_members_tell_each_other_is_read_again() -> None:
    partitions = [("t", 0), ("t", 2), ("u", 1)]
    assert decode_assignment(encode_assignment(partitions)) == partitions
    assert decode_assignment(b"") == []
    assert decode_subscription("m", "i", encode_subscription(["u", "t"])) == member("m", "t", "u", instance="i")
    older = ConsumerProtocolSubscription(topics=["t"]).encode_stored(0)
    newer = (9).to_bytes(2, "big") + ConsumerProtocolSubscription(topics=["t"]).encode_stored(3)[2:]
    assert decode_subscription("m", None, older) == decode_subscription("m", None, newer) == member("m", "t")
