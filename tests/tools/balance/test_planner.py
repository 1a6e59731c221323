"""Plans that even out a cluster: what they must keep, for any cluster, and what they make of some."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tools.balance.goals import GOALS, distances
from tools.balance.layout import Key, Layout, PartitionLoad
from tools.balance.planner import Move, balance

GB = 1 << 30


def loads(
    *replicas: tuple[int, ...], sizes: tuple[int, ...] = (), rates: tuple[int, ...] = ()
) -> dict[Key, PartitionLoad]:
    return {
        ("t", index): PartitionLoad(
            each, sizes[index] * GB if sizes else 0, rates[index] * 1_000_000 if rates else 0
        )
        for index, each in enumerate(replicas)
    }  # fmt: skip


def brokers(*ids: int, rack: str | None = None) -> dict[int, str | None]:
    return dict.fromkeys(ids, rack)


def spreads(layout: Layout, sums: Counter[int]) -> int:
    return max(sums[broker] for broker in layout.takers) - min(sums[broker] for broker in layout.takers)


def test_what_is_even_stays() -> None:
    assert balance(Layout(loads((1, 2), (2, 3), (3, 1)), brokers(1, 2, 3))) == []
    assert balance(Layout({}, brokers(1, 2))) == []
    assert balance(Layout(loads((1,)), brokers(1))) == []


def test_a_new_broker_gets_its_share_of_replicas_and_bytes_in_as_few_moves_as_possible() -> None:
    sizes = (9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1)
    layout = Layout(loads(*((1 + index // 2 % 2,) for index in range(12)), sizes=sizes), brokers(1, 2, 3))
    moves = balance(layout)
    assert [layout.count[broker] for broker in (1, 2, 3)] == [4, 4, 4]
    assert [layout.bytes[broker] // GB for broker in (1, 2, 3)] == [20, 20, 20]
    assert sum(move.copied_bytes for move in moves) == 20 * GB, "not a byte more than the new broker gets"


def test_racks_come_first() -> None:
    layout = Layout(loads((1, 2), (1, 2), (1, 2)), {1: "a", 2: "a", 3: "b"})
    balance(layout)
    assert all(3 in replicas for replicas in layout.replicas.values())


def test_four_replicas_are_spread_two_and_two_over_two_racks() -> None:
    layout = Layout(loads((1, 2, 3, 4)), {1: "a", 2: "a", 3: "a", 4: "b", 5: "b"})
    [move] = balance(layout)
    assert Counter(layout.rack(broker) for broker in move.after) == {"a": 2, "b": 2}


def test_leaders_are_evened_out_by_order_alone_also_through_others() -> None:
    layout = Layout(loads((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 1)), brokers(1, 2, 3))
    moves = balance(layout)
    assert [layout.leaders[broker] for broker in (1, 2, 3)] == [2, 2, 2]
    assert sum(move.copied_bytes for move in moves) == 0
    layout = Layout(loads((1, 2), (1, 2), (1, 3), (2, 3), (2, 3), (3, 2)), brokers(1, 2, 3))
    layout.lead(("t", 5), 2)  # 3, 3 and none: one goes from 1 to 3, one from 2 to 3
    balance(layout)
    assert spreads(layout, layout.leaders) <= 1


def test_heavy_partitions_are_exchanged_for_light_ones() -> None:
    layout = Layout(loads((1,), (1,), (1,), (2,), (2,), (2,), sizes=(100, 100, 100, 1, 1, 100)), brokers(1, 2))
    moves = balance(layout)
    assert [layout.bytes[broker] // GB for broker in (1, 2)] == [201, 201]
    assert len(moves) == 2 and sum(move.copied_bytes for move in moves) == 101 * GB


def test_an_exchange_that_evens_out_little_for_what_it_copies_is_left() -> None:
    layout = Layout(loads((1,), (1,), (2,), (2,), sizes=(100, 100, 90, 90)), brokers(1, 2))
    assert balance(layout, percent=1) == []


def test_rates_are_evened_out_by_leaders_first() -> None:
    layout = Layout(loads((1, 2), (1, 2), (2, 1), (2, 1), sizes=(5, 5, 5, 5), rates=(10, 10, 1, 1)), brokers(1, 2))
    moves = balance(layout)
    assert [layout.rate[broker] // 1_000_000 for broker in (1, 2)] == [11, 11]
    assert sum(move.copied_bytes for move in moves) == 0


def test_rates_of_single_replicas_are_evened_out_by_exchanging_them() -> None:
    layout = Layout(loads((1,), (1,), (2,), (2,), sizes=(5, 5, 5, 5), rates=(10, 10, 1, 1)), brokers(1, 2))
    balance(layout)
    assert [layout.rate[broker] // 1_000_000 for broker in (1, 2)] == [11, 11]
    assert layout.bytes[1] == layout.bytes[2]


def test_a_drained_broker_has_nothing_and_an_excluded_one_keeps_what_it_has() -> None:
    layout = Layout(loads((1, 2), (2, 3), (3, 4), (4, 1)), brokers(1, 2, 3, 4), frozenset((3,)), frozenset((4,)))
    balance(layout)
    assert layout.count[3] == 0
    assert layout.count[4] == 2
    assert [layout.count[broker] for broker in (1, 2)] == [3, 3]


def test_of_a_broker_that_is_needed_everything_else_is_moved() -> None:
    """Two partitions have three replicas on three brokers, and it leads none of them any more."""
    layout = Layout(loads((3, 1, 2), (3,), (1, 3), (1, 2, 3)), brokers(1, 2, 3), frozenset((3,)))
    balance(layout)
    assert layout.needed(3) == [("t", 0), ("t", 3)]
    assert all(layout.leader(key) != 3 for key in layout.loads)
    assert sorted(layout.replicas["t", 2]) == [1, 2] and layout.replicas["t", 1] != [3]


def test_partitions_that_may_not_move_count() -> None:
    fixed = {("f", index): PartitionLoad((1,), is_movable=False) for index in range(4)}
    layout = Layout(loads((1,), (1,), (2,), (2,)) | fixed, brokers(1, 2))
    moves = balance(layout)
    assert all(move.key[0] == "t" for move in moves)
    assert [layout.count[broker] for broker in (1, 2)] == [4, 4]


def test_a_large_cluster_is_planned_in_seconds() -> None:
    partitions = {
        ("t", index): PartitionLoad(tuple(1 + (index + step) % 20 for step in range(3)), (index * 7919 % 1000) << 20)
        for index in range(4000)
    }
    layout = Layout(partitions, {broker: f"r{broker % 3}" for broker in range(1, 25)})
    balance(layout)
    assert spreads(layout, layout.count) <= 1
    assert spreads(layout, layout.leaders) <= 1
    assert distances(layout)[GOALS.index("bytes")] == 0


@st.composite
def clusters(draw: st.DrawFn) -> Layout:
    racks = draw(st.dictionaries(st.integers(1, 8), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7))
    ids = sorted(racks)
    drained = draw(st.frozensets(st.sampled_from(ids), max_size=2))
    kept = draw(st.frozensets(st.sampled_from(ids), max_size=2)) - drained
    most = len(racks) - len(kept)
    partitions = {}
    for index in range(draw(st.integers(0, 14))):
        replicas = draw(st.lists(st.sampled_from([*ids, 99]), min_size=1, max_size=max(most, 1), unique=True))
        partitions["t", index] = PartitionLoad(
            tuple(replicas),
            draw(st.sampled_from((0, 1, 5, 40))) * GB,
            draw(st.sampled_from((0, 1, 30))) * 1_000_000,
            draw(st.integers(0, 5)) > 0,
        )
    return Layout(partitions, racks, drained, kept)


@given(clusters())
def test_every_plan_keeps_the_rules(layout: Layout) -> None:
    before, racks = distances(layout), {broker: layout.rack(broker) for broker in range(100)}
    assert racks[99] == "\x0099", "the rack of a broker that is gone is like no other"
    on_kept = {key: [broker for broker in replicas if broker not in (*layout.takers, *layout.drained)]
               for key, replicas in layout.replicas.items()}  # fmt: skip
    moves = balance(layout)
    after = distances(layout)
    assert after <= before, "no goal is worse unless one before it is better"
    needed = [key for broker in layout.drained for key in layout.needed(broker)]
    led = [key for key in needed if layout.leader(key) in layout.drained]
    assert not led or not layout.takers, "whoever stays leads"
    assert after[0] == len(needed) + len(set(led)), "what is left on drained brokers is told"
    assert all(set(layout.takers) <= set(layout.replicas[key]) for key in needed), "nobody else could have it"
    for key, load in layout.loads.items():
        replicas = layout.replicas[key]
        assert len(replicas) == len(set(replicas)) == len(load.replicas)
        assert load.is_movable or tuple(replicas) == load.replicas
        assert set(replicas) - set(load.replicas) <= set(layout.takers)
        assert sorted(on_kept[key]) == sorted(
            broker for broker in replicas if broker not in (*layout.takers, *layout.drained)
        )
    assert [move.key for move in moves] == [
        key for key, load in sorted(layout.loads.items()) if tuple(layout.replicas[key]) != load.replicas
    ]
    sums = Layout({key: PartitionLoad(tuple(replicas), layout.loads[key].bytes, layout.loads[key].rate)
                   for key, replicas in layout.replicas.items()}, {})  # fmt: skip
    assert (sums.count, sums.leaders, sums.bytes, sums.rate) == (
        layout.count, layout.leaders, layout.bytes, layout.rate)  # fmt: skip


@given(clusters())
def test_the_plan_of_what_a_plan_has_made_is_empty_and_the_same_cluster_gives_the_same_plan(layout: Layout) -> None:
    def again(replicas: dict[Key, list[int]]) -> tuple[Layout, list[Move]]:
        made = Layout(
            {key: PartitionLoad(tuple(replicas[key]), load.bytes, load.rate, load.is_movable)
             for key, load in layout.loads.items()},
            layout._racks, layout.drained, frozenset(layout._racks) - layout.drained - frozenset(layout.takers),
        )  # fmt: skip
        return made, balance(made)

    start = {key: list(replicas) for key, replicas in layout.replicas.items()}
    first = balance(layout)
    assert again(start)[1] == first
    assert again(layout.replicas)[1] == []
