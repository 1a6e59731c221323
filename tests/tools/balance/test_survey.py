"""What a look at the cluster says beside the plan: what stays as it is."""

from __future__ import annotations

from tools.balance.layout import Key, Layout, PartitionLoad
from tools.balance.planning import what_is_needed, what_stays
from tools.balance.survey import Survey

LOADS: dict[Key, PartitionLoad] = {
    ("orders", 0): PartitionLoad((1, 7)),
    ("orders", 1): PartitionLoad((7, 2)),
    ("orders", 2): PartitionLoad((8, 1), is_movable=False),
}


def told(drained: frozenset[int]) -> list[str]:
    seen = Survey({1: None, 2: None}, LOADS, leaderless=(("orders", 2),), led_by_others=(("orders", 1),))
    assert seen.gone == {7: 2, 8: 1}
    return list(what_stays(seen, Layout(LOADS, seen.racks, drained)))


def test_brokers_that_are_gone_and_leaders_that_are_not_the_preferred_are_told() -> None:
    assert told(frozenset()) == [
        "1 partition has no leader and stays: `barnabas cluster health` tells more",
        "broker 7 is gone and keeps its 2 replicas: start it, or give them to others by --drain 7",
        "broker 8 is gone and keeps its 1 replica: start it, or give them to others by --drain 8",
        "1 partition is led by another than their preferred leader, which is counted here: `barnabas partitions elect` "
        "returns them",
    ]
    assert [line for line in told(frozenset({7, 8})) if "gone" in line] == []


def test_what_a_drained_broker_keeps_because_it_is_needed_is_told_with_the_ways_on() -> None:
    layout = Layout({("orders", 0): PartitionLoad((1, 2, 3))}, {1: None, 2: None, 3: None}, frozenset((3,)))
    stays = what_stays(Survey({1: None, 2: None, 3: None}, dict(layout.loads), (), ()), layout)
    assert not list(stays), "it is not said that its topic is not to be moved"
    assert list(what_is_needed(layout, {3: layout.needed(3)})) == [
        "broker 3 is still needed: 1 replica stays on it (orders-0), because every other broker that may have one has one "
        "already",
        "either start another broker, and drain again; or give these topics fewer replicas: `barnabas partitions plan orders "
        "--brokers 1,2 --replication-factor 2 > plan.json`, then `barnabas partitions reassign --plan plan.json --execute`",
    ]


def test_a_drained_broker_that_keeps_something_is_told() -> None:
    keeps = [line for line in told(frozenset({8})) if line.startswith("broker 8")]
    assert keeps == [
        "broker 8 keeps 1 replica, of partitions without a leader or of topics that are not to be moved: it is still "
        "needed"
    ]
