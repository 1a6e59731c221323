"""Partitions whose logs there is no room for: they wait, and become what was wanted of them last."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from replication.partitions import EPOCH_DURING_DELETE
from tests.async_tests import played_by
from tests.replication.leader_world import ME, SOURCE
from tests.replication.partitions_world import OTHER_ID, Broker, state, with_broker


def test_a_partition_that_there_is_no_room_for_becomes_what_was_wanted_when_there_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error would have the controller take the replica offline, and nobody would ask for it again."""

    async def program(broker: Broker) -> None:
        broker.logs.rooms_left = 0
        wanted = [state(ME, 3, 0), state(SOURCE, 2, 1), state(-1, 5, 2)]
        answer = await broker.leader_and_isr(*wanted)
        assert [row.error_code for row in answer.topics[0].partition_errors] == [0, 0, 0]
        await broker.leader_and_isr(*wanted)
        await broker.partitions.on_room_again()
        assert not broker.partitions and broker.listener.heard == []
        broker.logs.rooms_left = 3
        await broker.partitions.on_room_again()
        assert (broker.partition.is_leader, broker.partition.assignment.leader_epoch) == (True, 3)
        assert ("follow", "t", 1, SOURCE, 2) in broker.following.calls
        assert broker.following.calls[-1] == ("settle",)
        assert broker.listener.heard == [("leader", "t", 0, 3), ("not leader", "t", 1, 2)]
        assert ("t", 2) in broker.logs.logs
        calls = len(broker.following.calls)
        await broker.partitions.on_room_again()
        assert broker.following.calls[calls:] == [("settle",)], "once"

    with caplog.at_level("INFO", "replication"):
        with_broker(program)
    told = [each.getMessage() for each in caplog.records if "disk space" in each.getMessage()]
    assert told == [
        "partitions wait, there is no disk space for their logs: partitions=3 example=t-0",
        "waiting partitions started, there is disk space for their logs: partitions=3 example=t-0 waiting_partitions=0 "
        "new_leaders=1 new_followers=1",
    ]


@played_by(with_broker)
async def test_partitions_are_taken_up_as_far_as_there_is_room(broker: Broker) -> None:
    broker.logs.rooms_left = 0
    await broker.leader_and_isr(*(state(ME, 0, index) for index in range(5)))
    for rooms, held in ((2, 2), (0, 2), (9, 5)):
        broker.logs.rooms_left = rooms
        await broker.partitions.on_room_again()
        assert len(broker.partitions) == held


@played_by(with_broker)
async def test_what_was_wanted_last_counts_for_a_partition_that_waits(broker: Broker) -> None:
    broker.logs.rooms_left = 0
    assert await broker.become(ME, 3) is ErrorCode.NONE
    assert await broker.become(SOURCE, 4) is ErrorCode.NONE
    assert await broker.become(ME, 3) is ErrorCode.STALE_CONTROLLER_EPOCH
    broker.logs.rooms_left = 1
    await broker.partitions.on_room_again()
    assert (broker.partition.assignment.leader_id, broker.partition.assignment.leader_epoch) == (SOURCE, 4)


@played_by(with_broker)
async def test_a_partition_that_waits_is_taken_up_by_a_request_that_finds_room(broker: Broker) -> None:
    broker.logs.rooms_left = 0
    await broker.become(ME, 3)
    broker.logs.rooms_left = 1
    assert await broker.become(ME, 3) is ErrorCode.NONE
    assert broker.partition.is_leader
    assert await broker.become(SOURCE, 4) is ErrorCode.NONE
    await broker.partitions.on_room_again()
    assert broker.partition.assignment.leader_epoch == 4


@pytest.mark.parametrize("delete", [False, True])
@played_by(with_broker)
async def test_a_partition_that_is_stopped_waits_no_more(broker: Broker, delete: bool) -> None:
    broker.logs.rooms_left = 0
    await broker.become(ME, 3)
    assert await broker.stop(2, delete=delete) is ErrorCode.FENCED_LEADER_EPOCH
    assert await broker.stop(EPOCH_DURING_DELETE if delete else 3, delete=delete) is ErrorCode.NONE
    broker.logs.rooms_left = 1
    await broker.partitions.on_room_again()
    assert not broker.partitions and not broker.logs.logs
    assert await broker.become(ME, 0, topic_id=OTHER_ID) is ErrorCode.NONE  # of a topic made after it


@played_by(with_broker)
async def test_a_topic_of_the_same_name_takes_the_place_of_a_partition_that_waits(broker: Broker) -> None:
    broker.logs.rooms_left = 0
    await broker.become(ME, 3)
    assert await broker.become(ME, 0, topic_id=OTHER_ID) is ErrorCode.NONE
    broker.logs.rooms_left = 1
    await broker.partitions.on_room_again()
    assert (broker.partition.topic_id, broker.partition.assignment.leader_epoch) == (OTHER_ID, 0)


@played_by(with_broker)
async def test_only_room_is_waited_for(broker: Broker) -> None:
    """What a failed directory means, the controller decides: it is told of it."""
    broker.logs.is_offline = True
    assert await broker.become(ME, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    broker.logs.is_offline = False
    await broker.partitions.on_room_again()
    assert not broker.partitions
    broker.logs.rooms_left = 0
    assert await broker.become(ME, 1) is ErrorCode.NONE
    broker.logs.is_offline = True
    await broker.partitions.on_room_again()
    broker.logs.is_offline, broker.logs.rooms_left = False, 1
    await broker.partitions.on_room_again()
    assert not broker.partitions
