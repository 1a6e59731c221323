"""What hinders writers, readers and members of groups, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.errors import ErrorCode
from tools.health.view import BrokerView, LogDirectoryView, PartitionView
from tools.waiting.hindrances import GroupState, TopicState, group_hindrance, read_hindrance, write_hindrance

GB = 1_000_000_000


def partition(index: int, leader: int | None = 1, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionView:
    return PartitionView("t", index, leader, (1, 2, 3), isr)


def broker(*, is_offline: bool = False, usable: int = 50 * GB, floor: str = "1000000000") -> BrokerView:
    directory = LogDirectoryView("/data", is_offline=is_offline, total_bytes=100 * GB, usable_bytes=usable)
    return BrokerView(2, "", None, directories=(directory,), settings={"barnabas.disk.free.min.bytes": floor})


SOUND = TopicState("t", 0, (partition(0), partition(1)), 2, {2: broker()})
MISSING = TopicState("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
LEADERLESS = replace(SOUND, partitions=(partition(0), partition(1, None)))
MANY = replace(SOUND, partitions=tuple(partition(index, None) for index in range(5)))
FEW = replace(SOUND, partitions=(partition(0, isr=(1,)), partition(1)))
OFFLINE = replace(SOUND, brokers={2: broker(is_offline=True)})
FULL = replace(SOUND, brokers={2: broker(usable=GB // 2)})
ALMOST_FULL = replace(SOUND, brokers={2: broker(usable=9 * GB)})
FULL_TEXT = (
    "broker 2, /data: the disk is full: 500 MB of 100 GB are free, less than barnabas.disk.free.min.bytes=1000000000: "
    "records are refused"
)


@pytest.mark.parametrize(
    ("state", "writes", "reads"),
    [
        (SOUND, None, None),
        (ALMOST_FULL, None, None),
        (MISSING, "topic t does not exist", "topic t does not exist"),
        (LEADERLESS, "partition t-1 has no leader", "partition t-1 has no leader"),
        (MANY, "partitions t-0, t-1, t-2 ... have no leader", "partitions t-0, t-1, t-2 ... have no leader"),
        (FEW, "partition t-0 has fewer replicas in sync (1) than min.insync.replicas=2", None),
        (OFFLINE, "broker 2, /data: the log directory is offline after an IO error",
         "broker 2, /data: the log directory is offline after an IO error"),
        (FULL, FULL_TEXT, None),
    ],
)  # fmt: skip
def test_a_topic(state: TopicState, writes: str | None, reads: str | None) -> None:
    assert write_hindrance(state, needs_all=True) == writes
    assert read_hindrance(state) == reads


def test_only_what_is_asked_for_hinders() -> None:
    assert write_hindrance(FEW, needs_all=False) is None
    assert write_hindrance(replace(FEW, min_isr=None), needs_all=True) is None
    assert read_hindrance(LEADERLESS, {0}) is None
    alone = replace(SOUND, partitions=(PartitionView("t", 0, 1, (1,), (1,)),))
    assert write_hindrance(alone, needs_all=True) is None, "brokers ask for no more replicas than there are"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (GroupState("g"), "group g has no coordinator"),
        (GroupState("g", offsets=MISSING), "group g has no coordinator: topic t does not exist"),
        (GroupState("g", offsets=LEADERLESS), "group g has no coordinator: partition t-1 has no leader"),
        (
            GroupState("g", 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            "broker 2, the coordinator of group g, is loading it",
        ),
        (GroupState("g", 2, ErrorCode.NOT_COORDINATOR), "the coordinator of group g moves to another broker"),
        (GroupState("g", 2, 0, "PreparingRebalance", 3), "group g is rebalancing: it waits for 3 members"),
        (
            GroupState("g", 2, 0, "CompletingRebalance", 1, FULL),
            f"group g is rebalancing: it waits for 1 member; {FULL_TEXT}",
        ),
        (GroupState("g", 2, 0, "Stable", 2), "group g has 2 members, and no partition for this one"),
        (GroupState("g", 2, 0, "Dead"), None),
    ],
)
def test_a_group(state: GroupState, text: str | None) -> None:
    assert group_hindrance(state) == text
