"""Placement: Apache Kafka's published examples, and what must hold for any cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.admin.placement import Placement, PlacementBroker, alternate, place
from protocol.errors import ErrorCode, KafkaError

FIXED = Placement(0, 0)


def brokers(*racks: str | None) -> list[PlacementBroker]:
    return [PlacementBroker(broker_id, rack) for broker_id, rack in enumerate(racks)]


def test_five_brokers_ten_partitions_three_replicas() -> None:
    """The table of AdminUtils."""
    placed = place(brokers(*[None] * 5), 10, 3, FIXED)
    assert [placed[each] for each in range(10)] == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


def test_six_brokers_in_three_racks() -> None:
    """The example of KIP-36: 0, 1 in rack 1; 2, 3 in rack 2; 4, 5 in rack 3... dealt out rack by rack."""
    known = [PlacementBroker(0, "rack1"), PlacementBroker(1, "rack3"), PlacementBroker(2, "rack3"),
             PlacementBroker(3, "rack2"), PlacementBroker(4, "rack2"), PlacementBroker(5, "rack1")]  # fmt: skip
    assert alternate(known) == [0, 3, 1, 5, 4, 2]
    placed = place(known, 7, 3, FIXED)
    assert [placed[each] for each in range(7)] == [
        (0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2),
    ]  # fmt: skip


def test_growth_goes_on_where_the_topic_ends() -> None:
    """With the shift that the first round has left, the added partitions are those of one topic made at once."""
    known = brokers(None, None, None)
    whole = place(known, 6, 2, FIXED)
    assert place(known, 3, 2, FIXED, first_partition=3) == {each: whole[each] for each in (3, 4, 5)}


@pytest.mark.parametrize(
    ("known", "partitions", "replicas", "code"),
    [
        (brokers(None), 0, 1, ErrorCode.INVALID_PARTITIONS),
        (brokers(None), -5, 1, ErrorCode.INVALID_PARTITIONS),
        (brokers(None), 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (brokers(None), 1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([], 1, 1, ErrorCode.INVALID_REPLICATION_FACTOR),
        (brokers("a", None), 1, 1, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_refusals(known: list[PlacementBroker], partitions: int, replicas: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        place(known, partitions, replicas, FIXED)
    assert refused.value.code is code


@st.composite
def clusters(draw: st.DrawFn) -> list[PlacementBroker]:
    count = draw(st.integers(1, 12))
    with_racks, with_hosts = draw(st.booleans()), draw(st.booleans())
    return [
        PlacementBroker(
            broker_id,
            f"rack{draw(st.integers(0, 3))}" if with_racks else None,
            f"host{draw(st.integers(0, 4))}" if with_hosts else None,
        )
        for broker_id in range(count)
    ]


@given(clusters(), st.data())
def test_replicas_are_apart(known: list[PlacementBroker], data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, len(known)))
    placement = Placement(data.draw(st.integers(0, len(known) - 1)), data.draw(st.integers(0, len(known) - 1)))
    by_id = {broker.broker_id: broker for broker in known}
    racks = {broker.rack for broker in known}
    hosts = {(broker.rack, broker.host) for broker in known}
    for chosen in place(known, 20, replicas, placement).values():
        assert len(set(chosen)) == replicas
        assert len({by_id[each].rack for each in chosen}) == min(replicas, len(racks))
        if None not in {broker.host for broker in known}:
            assert len({(by_id[each].rack, by_id[each].host) for each in chosen}) == min(replicas, len(hosts))


@given(st.integers(1, 10), st.integers(1, 40))
def test_leaders_are_dealt_out_evenly(count: int, partitions: int) -> None:
    placed = place(brokers(*[None] * count), partitions, 1, FIXED)
    leaders = Counter(chosen[0] for chosen in placed.values())
    assert max(leaders.values()) - min(leaders[each] for each in range(count)) <= 1
