"""Each coordinator hears of its own topic, and of no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from broker.cluster.coordinator_elections import CoordinatorElections
from replication.assignment import PartitionAssignment
from replication.partition import Partition


class Heard:
    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.calls: list[tuple[str, int, int | None]] = []

    def on_leadership(self, partition: int, leader_epoch: int) -> None:
        self.calls.append(("leads", partition, leader_epoch))

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        self.calls.append(("resigns", partition, leader_epoch))


def led(topic: str, partition: int, leader_epoch: int) -> Partition:
    assignment = PartitionAssignment(leader_epoch=leader_epoch)
    return cast(Partition, SimpleNamespace(topic=topic, partition=partition, assignment=assignment))


def test_elections_go_to_the_coordinator_of_the_topic() -> None:
    elections = CoordinatorElections()
    groups, transactions = Heard("__consumer_offsets"), Heard("__transaction_state")
    elections.add(groups)
    elections.add(transactions)
    elections.on_leader(led("__consumer_offsets", 3, 7))
    elections.on_leader(led("orders", 0, 1))
    elections.on_leader(led("__transaction_state", 5, 2))
    elections.on_not_leader("orders", 0, 2)
    elections.on_not_leader("__transaction_state", 5, 3)
    assert groups.calls == [("leads", 3, 7)]
    assert transactions.calls == [("leads", 5, 2), ("resigns", 5, 3)]
