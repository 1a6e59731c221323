"""The nodes by path: the same as a dictionary would say, whatever is done to them, and how little partitions are made of."""

from __future__ import annotations

import gc
import random

import pytest

from metadata.store import znodes
from metadata.store.node_map import ROOT, Node, Nodes
from metadata.store.node_tree import NodeTree
from metadata.store.port import Create, Delete, Operation, RefusedError, SetData, StoreError
from metadata.store.znodes import PartitionState

PARTITIONS = 2_000
FEW = 50  # objects, however many partitions there are


def _same(nodes: Nodes, model: dict[str, Node]) -> None:
    assert dict(nodes) == model
    assert len(nodes) == len(model)
    for path in model:
        assert path in nodes
        below = {other for other in model if other != "/" and (other.rpartition("/")[0] or "/") == path}
        assert {f"{'' if path == '/' else path}/{name}" for name in nodes.names(path)} == below
    assert nodes.ephemerals == {path: node.ephemeral_owner for path, node in model.items() if node.ephemeral_owner}


@pytest.mark.parametrize("seed", range(40))
def test_the_same_as_a_dictionary(seed: int) -> None:
    chance = random.Random(seed)
    tree, model = NodeTree(), {"/": ROOT}
    names = ("a", "b", "state")

    def operation() -> Operation:
        path = "".join(f"/{chance.choice(names)}" for _ in range(chance.randint(1, 4)))
        kind = chance.random()
        if kind < 0.5:
            return Create(path, chance.choice((b"", b"data")), ephemeral=chance.random() < 0.05)
        return SetData(path, chance.choice((b"", b"data"))) if kind < 0.7 else Delete(path)

    for step in range(300):
        transaction = [operation() for _ in range(chance.randint(1, 5))]
        if chance.random() < 0.2:  # as a partition is made
            path = f"/a/{chance.choice(names)}"
            transaction = [Create(path), Create(f"{path}/state", b"data")]
        try:
            staged = tree.stage(transaction, session_id=1, now_ms=step // 10)
        except StoreError:
            continue
        tree.apply(staged)
        for path, node in staged.nodes.items():
            if node is None:
                model.pop(path, None)
            else:
                model[path] = node
        _same(tree.nodes, model)


def test_a_path_that_is_none_is_refused_and_found_nowhere() -> None:
    tree = NodeTree()
    with pytest.raises(RefusedError):
        tree.stage([Create("here")], session_id=1, now_ms=0)
    for path in ("", "here", "//", "/a"):
        assert path not in tree.nodes
        assert tree.nodes.find(path) is None


def test_an_idle_partition_is_one_object_with_its_state() -> None:
    """Their bytes are measured by `benchmarks.sizes`."""

    def count_objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    tree = NodeTree()

    def transact(*operations: Operation) -> None:
        tree.apply(tree.stage(operations, session_id=1, now_ms=tree.zxid // 20))

    def make(topic: str) -> None:
        transact(Create(znodes.topic_path(topic)))
        transact(Create(znodes.partitions_path(topic)))
        state = PartitionState(1, 0, (1,), 1).encode()
        for partition in range(PARTITIONS):
            path = znodes.partition_path(topic, partition)
            transact(Create(path), Create(f"{path}/state", state))

    transact(Create("/brokers"))
    transact(Create("/brokers/topics"))
    make("another")  # topics share the numbers of their partitions
    before_count = count_objects()
    make("t")
    made_count = count_objects()
    assert made_count - before_count < PARTITIONS + FEW
    for partition in range(PARTITIONS):  # another leader: the number of that transaction comes to it
        transact(SetData(znodes.state_path("t", partition), PartitionState(2, 1, (2,), 1).encode()))
    assert count_objects() - made_count < FEW
    assert tree.node(znodes.partition_path("t", 7)).stat.num_children == 1
    assert tree.node(znodes.state_path("t", 7)).version == 1
