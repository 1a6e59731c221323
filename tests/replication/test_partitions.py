"""What LeaderAndIsr and StopReplica do to the partitions of a broker, and to who copies them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from protocol.primitives import ZERO_UUID, uuid_to_text
from replication.partitions import EPOCH_DURING_DELETE, NO_EPOCH
from storage.log.partition_log import AppendOrigin
from tests.async_tests import played_by
from tests.replication.leader_world import ME, SOURCE
from tests.replication.partitions_world import ID, OTHER_ID, Broker, state, with_broker
from tests.storage.logs import batch


@played_by(with_broker)
async def test_a_log_of_an_earlier_topic_of_the_same_name_is_not_the_new_topics(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker was down when its replica was moved away and the topic deleted and made anew: it finds the old log."""
    log = await broker.logs.log_for("t", 0, OTHER_ID)
    for leader in (ME, SOURCE):
        assert await broker.become(leader, 0) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert broker.partitions.find("t", 0) is None
    said = caplog.records[-1].getMessage()
    assert f"path={log.directory} topic_id={uuid_to_text(OTHER_ID)} current_topic_id={uuid_to_text(ID)}" in said
    assert said.endswith("remove the folder, and the replica is copied again")
    await broker.leader_and_isr(state(ME, 0, replicas=[ME]))
    said = caplog.records[-1].getMessage()
    assert "remove its partition.metadata to serve these records" in said  # nobody else has any
    assert ("follow", "t", 0, SOURCE, 0) not in broker.following.calls
    assert broker.listener.heard == []
    assert await broker.stop(EPOCH_DURING_DELETE, delete=True) is ErrorCode.NONE
    assert broker.logs.deleted == [("t", 0)]


@played_by(with_broker)
async def test_topics_of_before_topic_ids_get_theirs_one_after_the_other(broker: Broker) -> None:
    """The controller is the first broker of a cluster that knows ids."""

    def request(epoch: int, **ids: bytes) -> LeaderAndIsrRequest:
        topics = [
            LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id, partition_states=[state(ME, epoch)])
            for name, topic_id in ids.items()
        ]
        return LeaderAndIsrRequest(controller_id=9, controller_epoch=1, topic_states=topics, live_leaders=[])

    await broker.partitions.on_leader_and_isr(request(0, t=ZERO_UUID, u=ZERO_UUID))
    assert broker.partitions.find_by_id(ZERO_UUID, 0) is None
    answer = await broker.partitions.on_leader_and_isr(request(0, t=ID, u=OTHER_ID))
    assert [row.error_code for topic in answer.topics for row in topic.partition_errors] == [ErrorCode.NONE] * 2
    for topic, topic_id in (("t", ID), ("u", OTHER_ID)):
        assert broker.partitions.find_by_id(topic_id, 0) is broker.partitions.find(topic, 0) is not None


@played_by(with_broker)
async def test_a_partition_follows_leads_and_follows_again(broker: Broker) -> None:
    assert await broker.become(SOURCE, 0) is ErrorCode.NONE
    assert await broker.become(ME, 1) is ErrorCode.NONE
    assert broker.partition.is_leader
    assert await broker.become(3, 2) is ErrorCode.NONE
    assert not broker.partition.is_leader
    assert broker.following.calls == [
        ("leave", "t", 0), ("follow", "t", 0, SOURCE, 0), ("settle",),
        ("leave", "t", 0), ("settle",),
        ("leave", "t", 0), ("follow", "t", 0, 3, 2), ("settle",),
    ]  # fmt: skip
    assert broker.listener.heard == [("not leader", "t", 0, 0), ("leader", "t", 0, 1), ("not leader", "t", 0, 2)]


@played_by(with_broker)
async def test_a_partition_that_is_led_elsewhere_is_led_here_no_more(broker: Broker) -> None:
    await broker.become(ME, 3)
    broker.listener.heard.clear()
    broker.partitions.on_elsewhere("t", 0, 3)
    assert broker.partition.is_leader, "that was before this broker became it"
    broker.partitions.on_elsewhere("t", 1, 4)
    broker.partitions.on_elsewhere("t", 0, 4)
    assert not broker.partition.is_leader
    assert broker.listener.heard == [("not leader", "t", 0, 4)]
    broker.partitions.on_elsewhere("t", 0, 5)
    assert len(broker.listener.heard) == 1
    assert await broker.become(ME, 6) is ErrorCode.NONE
    assert broker.partition.is_leader


@played_by(with_broker)
async def test_nothing_changes_hands_before_the_fetcher_has_let_go(broker: Broker) -> None:
    await broker.become(SOURCE, 0)
    broker.following.leaving.clear()
    becoming = asyncio.ensure_future(broker.become(ME, 1))
    await asyncio.sleep(1)
    assert (broker.partition.assignment.leader_id, broker.partition.assignment.leader_epoch) == (SOURCE, 0)
    broker.following.leaving.set()
    assert await becoming is ErrorCode.NONE
    assert broker.partition.is_leader


@played_by(with_broker)
async def test_a_former_leader_follows_once_its_own_records_are_written(broker: Broker) -> None:
    """Else its first fetch would begin below them, and what comes back would not fit behind them."""
    await broker.become(ME, 0)
    broker.world.disk.slow_probability = 1.0
    broker.world.disk.min_delay_ms = broker.world.disk.max_delay_ms = 500.0
    broker.partition.append(batch("a"), origin=AppendOrigin.CLIENT, acks=1, now_ms=0)
    becoming = asyncio.ensure_future(broker.become(SOURCE, 1))
    await asyncio.sleep(0.1)
    assert broker.partition.log.log_end_offset == 0
    assert not broker.partition.is_leader  # it takes nothing any more
    assert ("follow", "t", 0, SOURCE, 1) not in broker.following.calls
    assert await becoming is ErrorCode.NONE
    assert broker.partition.log.log_end_offset == 1
    assert ("follow", "t", 0, SOURCE, 1) in broker.following.calls


@played_by(with_broker)
async def test_epochs_of_the_partition(broker: Broker) -> None:
    await broker.become(SOURCE, 5)
    calls = len(broker.following.calls)
    assert await broker.become(3, 4) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert await broker.become(3, 5) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert (broker.partition.assignment.leader_id, broker.partition.assignment.leader_epoch) == (SOURCE, 5)
    assert [call for call in broker.following.calls[calls:] if call != ("settle",)] == []


@played_by(with_broker)
async def test_epochs_of_the_controller(broker: Broker) -> None:
    await broker.become(SOURCE, 0, controller_epoch=4)
    answer = await broker.leader_and_isr(state(3, 7), controller_epoch=3)
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert await broker.stop(NO_EPOCH, delete=True, controller_epoch=3) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.partition.assignment.leader_epoch == 0
    assert (broker.partitions.controller_id, broker.partitions.controller_epoch) == (9, 4)


@played_by(with_broker)
async def test_a_leader_that_is_not_alive_leaves_a_log_behind_and_nothing_else(broker: Broker) -> None:
    broker.alive = {ME}
    assert await broker.become(SOURCE, 3) is ErrorCode.NONE
    assert ("t", 0) in broker.logs.logs
    assert (broker.partition.assignment.leader_id, broker.partition.assignment.leader_epoch) == (-1, -1)
    assert await broker.become(-1, 3) is ErrorCode.NONE
    broker.alive = {ME, SOURCE}
    assert await broker.become(SOURCE, 3) is ErrorCode.NONE  # the same epoch, which is news to it
    assert ("follow", "t", 0, SOURCE, 3) in broker.following.calls


@played_by(with_broker)
async def test_a_dead_leader_changes_nothing_for_a_partition_that_is_there(broker: Broker) -> None:
    await broker.become(SOURCE, 1)
    broker.alive = {ME, SOURCE}
    calls = list(broker.following.calls)
    assert await broker.become(3, 2) is ErrorCode.NONE
    assert (broker.partition.assignment.leader_id, broker.partition.assignment.leader_epoch) == (SOURCE, 1)
    assert broker.following.calls == [*calls, ("settle",)]


@played_by(with_broker)
async def test_a_partition_that_is_assigned_elsewhere_is_not_taken(broker: Broker) -> None:
    answer = await broker.leader_and_isr(state(SOURCE, 0, replicas=[SOURCE, 3]))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.partitions.find("t", 0) is None


@played_by(with_broker)
async def test_topic_ids_are_compared_and_learned(broker: Broker) -> None:
    assert await broker.become(SOURCE, 0, topic_id=ZERO_UUID) is ErrorCode.NONE
    assert await broker.become(SOURCE, 0, topic_id=ID) is ErrorCode.NONE  # the same epoch with an id
    assert broker.partition.topic_id == ID
    assert broker.partitions.find_by_id(ID, 0) is broker.partition
    assert broker.partitions.find_by_id(ZERO_UUID, 0) is None
    assert ("refresh", "t", 0, ID) in broker.following.calls
    assert await broker.become(SOURCE, 0, topic_id=ID) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert await broker.become(SOURCE, 1, topic_id=OTHER_ID) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert await broker.become(SOURCE, 1, topic_id=ZERO_UUID) is ErrorCode.NONE  # an old controller says none


@played_by(with_broker)
async def test_what_is_left_of_a_topic_is_not_found_by_the_id_of_the_one_made_after_it(broker: Broker) -> None:
    assert await broker.become(ME, 0, topic_id=OTHER_ID) is ErrorCode.NONE
    await broker.leader_and_isr(state(ME, 0, index=1), state(ME, 0, index=2), topic_id=ID)
    old, new = broker.partitions.find("t", 0), broker.partitions.find("t", 1)
    assert old is not None and new is not None
    assert (broker.partitions.find_by_id(OTHER_ID, 0), broker.partitions.find_by_id(ID, 1)) == (old, new)
    assert broker.partitions.find_by_id(ID, 0) is broker.partitions.find_by_id(OTHER_ID, 1) is None
    assert await broker.stop(EPOCH_DURING_DELETE, delete=True) is ErrorCode.NONE
    assert broker.partitions.find_by_id(OTHER_ID, 0) is None
    assert broker.partitions.find_by_id(ID, 1) is new


@played_by(with_broker)
async def test_a_topic_id_comes_with_a_new_epoch_as_well(broker: Broker) -> None:
    await broker.become(SOURCE, 0, topic_id=ZERO_UUID)
    assert await broker.become(ME, 1, topic_id=ID) is ErrorCode.NONE
    assert broker.partitions.find_by_id(ID, 0) is broker.partition


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.NONE),
        (NO_EPOCH, ErrorCode.NONE),
        (EPOCH_DURING_DELETE, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("delete", [True, False])
@played_by(with_broker)
async def test_which_stops_are_obeyed(broker: Broker, epoch: int, error: ErrorCode, delete: bool) -> None:
    await broker.become(SOURCE, 5)
    calls = len(broker.following.calls)
    assert await broker.stop(epoch, delete=delete) is error
    found = broker.partitions.find("t", 0)
    if error is not ErrorCode.NONE:
        assert found is not None
        assert found.assignment.leader_id == SOURCE
        return
    assert broker.following.calls[calls:] == [("leave", "t", 0), ("settle",)]
    assert (found is None) == delete
    assert broker.logs.deleted == ([("t", 0)] if delete else [])


@played_by(with_broker)
async def test_a_stopped_partition_is_assigned_again(broker: Broker) -> None:
    await broker.become(SOURCE, 5)
    await broker.stop(5, delete=False)
    assert await broker.become(3, 6) is ErrorCode.NONE
    assert broker.following.calls[-2:] == [("follow", "t", 0, 3, 6), ("settle",)]


@played_by(with_broker)
async def test_a_log_nobody_knows_is_deleted_too(broker: Broker) -> None:
    assert await broker.stop(EPOCH_DURING_DELETE, delete=True) is ErrorCode.NONE
    assert broker.logs.deleted == [("t", 0)]


@played_by(with_broker)
async def test_partitions_of_a_failed_directory(broker: Broker) -> None:
    await broker.become(SOURCE, 0)
    broker.partition.log.writer.refusals.fail(OSError("broken"))
    broker.partitions.on_directory_failed("/logs")
    assert ("forget", "t", 0) in broker.following.calls
    assert await broker.become(ME, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await broker.stop(1, delete=True) is ErrorCode.KAFKA_STORAGE_ERROR
    broker.logs.is_offline = True
    answer = await broker.leader_and_isr(state(SOURCE, 0, index=1))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@played_by(with_broker)
async def test_a_partition_is_offline_as_long_as_its_log_cannot_be_opened(broker: Broker) -> None:
    broker.logs.rooms_left = 0
    assert await broker.become(ME, 0) is ErrorCode.NONE
    assert not broker.partitions.is_offline("t", 0)  # it waits for room
    broker.logs.is_offline = True
    assert await broker.become(ME, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.partitions.is_offline("t", 0) and not broker.partitions.is_offline("t", 1)
    assert await broker.stop(2, delete=False) is ErrorCode.NONE
    assert broker.partitions.is_offline("t", 0)
    broker.logs.is_offline, broker.logs.rooms_left = False, 1
    assert await broker.become(ME, 3) is ErrorCode.NONE
    assert not broker.partitions.is_offline("t", 0)


@played_by(with_broker)
async def test_a_partition_that_was_deleted_is_not_offline(broker: Broker) -> None:
    broker.logs.is_offline = True
    assert await broker.become(ME, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await broker.stop(EPOCH_DURING_DELETE, delete=True) is ErrorCode.NONE
    assert not broker.partitions.is_offline("t", 0)


@played_by(with_broker)
async def test_a_directory_is_not_taken_for_one_with_a_longer_name(broker: Broker) -> None:
    await broker.become(SOURCE, 0)
    broker.partitions.on_directory_failed("/log")
    assert ("forget", "t", 0) not in broker.following.calls
    assert broker.partition.assignment.leader_id == SOURCE


@played_by(with_broker)
async def test_a_log_that_fails_while_its_fetcher_lets_go_is_not_led(broker: Broker) -> None:
    await broker.become(SOURCE, 0)
    broker.following.leaving.clear()
    becoming = asyncio.ensure_future(broker.become(ME, 1))
    await asyncio.sleep(0)
    broker.partition.log.writer.refusals.fail(OSError("broken"))
    broker.following.leaving.set()
    assert await becoming is ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.partition.is_leader


@played_by(with_broker)
async def test_each_partition_has_its_own_error(broker: Broker) -> None:
    await broker.become(SOURCE, 5)
    answer = await broker.leader_and_isr(state(SOURCE, 5, 0), state(ME, 0, 1), state(3, 0, 2, replicas=[3]))
    assert [(row.partition_index, row.error_code) for row in answer.topics[0].partition_errors] == [
        (0, ErrorCode.STALE_CONTROLLER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.partitions.leader_count == 1


def test_clients_are_served_between_the_partitions_of_a_large_request() -> None:
    async def program(broker: Broker) -> None:
        ticks = 0
        now_ms = 0

        def clock() -> int:
            nonlocal now_ms
            now_ms += 2  # each look takes two milliseconds
            return now_ms

        doors = replace(broker.partitions._dependencies, now_ms=clock)
        broker.partitions._dependencies = doors

        async def others() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        for index in range(50):
            await broker.logs.log_for("t", index, ID)
        task = asyncio.ensure_future(others())
        await broker.leader_and_isr(*(state(ME, 0, index) for index in range(50)))
        task.cancel()
        assert ticks >= 10

    with_broker(program)


@played_by(with_broker)
async def test_partitions_that_are_led_here_come_first(broker: Broker) -> None:
    answer = await broker.leader_and_isr(
        state(SOURCE, 0, 0), state(ME, 0, 1), state(SOURCE, 0, 2, replicas=[3]), state(ME, 0, 3)
    )
    rows = answer.topics[0].partition_errors
    assert [row.partition_index for row in rows] == [0, 1, 2, 3]
    assert [row.error_code for row in rows] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert [call[0::2] for call in broker.following.calls if call[0] == "leave"] == [
        ("leave", 1), ("leave", 3), ("leave", 0)
    ]  # fmt: skip


@played_by(with_broker)
async def test_an_epoch_in_which_nothing_was_appended_is_forgotten_by_who_follows(broker: Broker) -> None:
    """Its leader may not know it, and each such partition would be cut where it ends."""
    await broker.become(ME, 1)
    partition = broker.partition
    partition.append(batch("a"), origin=AppendOrigin.CLIENT, acks=1, now_ms=0)
    await broker.become(ME, 2)
    assert partition.log.epochs.latest_epoch == 2
    await broker.become(SOURCE, 3)
    assert partition.log.epochs.latest_epoch == 1


def test_the_log_tells_of_a_request_once(caplog: pytest.LogCaptureFixture) -> None:
    async def program(broker: Broker) -> None:
        await broker.leader_and_isr(*(state(ME if index < 10 else 8, 0, index) for index in range(50)))

    with caplog.at_level("INFO", "replication"):
        with_broker(program)
    told = [record.getMessage() for record in caplog.records if record.name == "replication.partitions"]
    assert len(told) == 2
    assert "partitions=50 new_leaders=10 new_followers=0" in told[0]
    assert "partitions=40 leaders=[8] example=t-10" in told[1]
