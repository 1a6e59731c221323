"""The controller's dictionaries: they do what dictionaries do, whatever the numbers, and cost little."""

from __future__ import annotations

import gc
import random

import pytest

from controller.controller_context import ControllerContext, PartitionPhase, ReplicaPhase
from controller.partition_map import GAP_MAX, PartitionMap, ReplicaMap
from metadata.store.znodes import PartitionState, ReplicaAssignment
from protocol.topic_partition import TopicPartition

NUMBERS = (0, 1, 2, 3, 5, GAP_MAX - 1, GAP_MAX, GAP_MAX + 2, 2 * GAP_MAX, 2**31 - 1, -1)
TOPICS = tuple(f"t{number}" for number in range(10))
PER_TOPIC = 100
FEW = 100  # objects, for a thousand partitions


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_dictionary(seed: int) -> None:
    chance = random.Random(seed)
    made: PartitionMap[int] = PartitionMap()
    model: dict[TopicPartition, int] = {}
    for step in range(500):
        key = (chance.choice("ab"), chance.choice(NUMBERS))
        if chance.random() < 0.6:
            made[key] = model[key] = step % 3
        elif key in model:
            del made[key], model[key]
        else:
            assert made.pop(key, None) is None
            with pytest.raises(KeyError):
                del made[key]
        assert (key in made, made.find(key), made.get(key, 9)) == (key in model, model.get(key), model.get(key, 9))
        assert len(made) == len(model)
        assert dict(made) == dict(made.items()) == dict(made.pairs()) == model


def test_a_wild_number_costs_no_more_than_another() -> None:
    made: PartitionMap[int] = PartitionMap()
    made["t", 2**31 - 1] = 1
    assert made._rows == {}


def test_replicas() -> None:
    made: ReplicaMap[int] = ReplicaMap()
    model = {("t", partition, broker): partition * 10 + broker for partition in range(3) for broker in (1, 2)}
    made.update(model)
    assert (dict(made), len(made)) == (model, 6)
    for key in list(model):
        assert made.pop(key) == model.pop(key)
        assert made.find(key) is None
        assert (dict(made), len(made)) == (model, len(model))
    with pytest.raises(KeyError):
        made["t", 0, 1]


def test_an_idle_partition_has_no_objects_of_its_own() -> None:
    """Four places in lists that a topic has. Their bytes are measured by `benchmarks.sizes`."""
    context, state, assignment = ControllerContext(), PartitionState(1, 0, (1,), 1), ReplicaAssignment((1,))
    gc.collect()
    before_count = len(gc.get_objects())
    for topic in TOPICS:
        for partition in range(PER_TOPIC):
            context.assignments[topic, partition] = assignment
            context.leadership[topic, partition] = state
            context.partition_phases[topic, partition] = PartitionPhase.ONLINE
            context.replica_phases[topic, partition, 1] = ReplicaPhase.ONLINE
    gc.collect()
    assert len(gc.get_objects()) - before_count < FEW


def test_what_there_is_of_one_topic() -> None:
    made: PartitionMap[int] = PartitionMap()
    made.update({("a", 2): 3, ("a", 10**9): 4, ("b", 0): 5, ("a", 0): 1})
    assert list(made.of("a")) == [(0, 1), (2, 3), (10**9, 4)]
    assert list(made.of("c")) == []
