"""Plans for replicas."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.replica_plan import PlanError, spread


def test_what_is_even_stays() -> None:
    current = {("t", 0): [1, 2], ("t", 1): [2, 3], ("t", 2): [3, 1]}
    assert spread(current, {1: None, 2: None, 3: None}) == current


def test_a_new_broker_gets_its_share_and_the_others_stay() -> None:
    current = {("t", index): [1 + index % 2, 2 - index % 2] for index in range(6)}
    plan = spread(current, {1: None, 2: None, 3: None})
    assert Counter(broker for replicas in plan.values() for broker in replicas) == {1: 4, 2: 4, 3: 4}
    assert sum(len(set(plan[key]) - set(current[key])) for key in plan) == 4


def test_a_broker_that_leaves_has_nothing() -> None:
    plan = spread({("t", 0): [1, 2], ("t", 1): [2, 1]}, {1: None, 3: None})
    assert all(sorted(replicas) == [1, 3] for replicas in plan.values())


def test_racks_come_before_numbers() -> None:
    plan = spread({("t", 0): [1, 2]}, {1: "a", 2: "a", 3: "b"})
    assert 3 in plan["t", 0]
    assert len(plan["t", 0]) == 2


def test_leaders_are_spread() -> None:
    plan = spread({("t", index): [1, 2, 3] for index in range(6)}, {1: None, 2: None, 3: None})
    assert Counter(replicas[0] for replicas in plan.values()) == {1: 2, 2: 2, 3: 2}


def test_another_number_of_replicas() -> None:
    assert len(spread({("t", 0): [1]}, {1: None, 2: None}, 2)["t", 0]) == 2
    assert spread({("t", 0): [1, 2]}, {1: None, 2: None}, 1) == {("t", 0): [1]}
    with pytest.raises(PlanError, match="need as many brokers"):
        spread({("t", 0): [1]}, {1: None}, 2)


@given(
    st.dictionaries(st.integers(0, 7), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=6),
    st.lists(st.integers(1, 4), max_size=12),
)
def test_plans_keep_the_rules(racks: dict[int, str | None], counts: list[int]) -> None:
    brokers = sorted(racks)
    current = {
        ("t", index): [brokers[(index + step) % len(brokers)] for step in range(min(count, len(brokers)))]
        for index, count in enumerate(counts)
    }
    plan = spread(current, racks)
    assert plan.keys() == current.keys()
    for key, replicas in plan.items():
        assert len(replicas) == len(set(replicas)) == len(current[key])
        names = {racks[broker] for broker in racks}
        assert len({racks[broker] for broker in replicas}) == min(len(replicas), len(names))
