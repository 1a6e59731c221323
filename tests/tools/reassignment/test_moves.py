"""The settings that throttle moves: those of kafka-reassign-partitions.sh, as Apache Kafka 3.9.1 got them from it."""

from __future__ import annotations

from tools.reassignment.moves import Reassignment, Transfer, brokers_of, topic_throttles, transfers

CURRENT = {("t", 0): (1, 2), ("t", 1): (2, 3), ("t", 2): (3, 1)}


def throttles(found: dict[tuple[str, int], Transfer]) -> tuple[str, str]:
    settings = topic_throttles(found)["t"]
    return settings["leader.replication.throttled.replicas"], settings["follower.replication.throttled.replicas"]


def test_all_replicas_send_and_the_new_ones_receive() -> None:
    found = transfers({}, {("t", 0): (2, 3), ("t", 1): (2, 3), ("t", 2): (1, 3)}, CURRENT)
    assert throttles(found) == ("0:1,0:2,1:2,1:3,2:1,2:3", "0:3")
    assert brokers_of(found.values()) == {1, 2, 3}


def test_what_is_moving_already_stays_throttled() -> None:
    moving = {("t", 0): Reassignment((2, 3, 1), (3,), (1,))}
    found = transfers(moving, {("t", 0): (2, 3), ("t", 1): (2, 1)}, {("t", 0): (2, 3, 1), ("t", 1): (2, 3)})
    assert throttles(found) == ("0:1,0:2,1:2,1:3", "0:3,1:1")
    assert throttles(transfers(moving, {("t", 1): (2, 1)}, CURRENT)) == ("0:1,0:2,1:2,1:3", "0:3,1:1")


def test_partitions_are_sorted_as_texts() -> None:
    found = {("t", index): Transfer(frozenset((1,)), frozenset((2,))) for index in (2, 10, 1)}
    assert throttles(found) == ("10:1,1:1,2:1", "10:2,1:2,2:2")
