"""In-sync sets that leaders ask for: granted, refused, told to everybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from tests.controller.cluster_steps import alter_isr, brokers, code_of, create, state, told
from tests.controller.harness import Cluster


@pytest.mark.parametrize("version", range(4))
@brokers(1, 2, 3)
async def test_an_isr_is_changed_and_everybody_s_metadata_says_so(made: Cluster, version: int) -> None:
    await create(made, (1, 2, 3))
    orders = [len(told(member)) for member in made.members.values()]
    response = await alter_isr(made, [1, 3], version=version)
    [row] = response.topics[0].partitions
    assert (row.error_code, row.isr, row.leader_id, row.leader_epoch, row.partition_epoch) == (0, [1, 3], 1, 0, 1)
    found = await state(made)
    assert (found.isr, found.leader_epoch, found.partition_epoch) == ((1, 3), 0, 1)
    for member in made.members.values():
        await member.shows(lambda image: image.topics["t"].partitions[0].isr == (1, 3))
    assert orders == [len(told(member)) for member in made.members.values()], "no LeaderAndIsr for a changed ISR"
    answer = AlterPartitionResponse.decode(response.encode(version), version)
    assert answer.topics[0].topic_name == ("t" if version < 2 else "")


@brokers(1, 2, 3)
async def test_an_isr_is_refused_to_a_stale_broker_and_to_brokers_that_are_not_fit(made: Cluster) -> None:
    await create(made, (1, 2, 3))
    assert code_of(await alter_isr(made, [1])) is ErrorCode.NONE
    assert code_of(await alter_isr(made, [1, 4])) is ErrorCode.INELIGIBLE_REPLICA
    assert code_of(await alter_isr(made, [2, 3])) is ErrorCode.INVALID_REQUEST
    assert code_of(await alter_isr(made, [1, 2], by=2)) is ErrorCode.INVALID_REQUEST

    await made.active.controller.controlled_shutdown(2, made.epoch(2))
    assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.INELIGIBLE_REPLICA
    assert code_of(await alter_isr(made, [1, 2], version=1)) is ErrorCode.OPERATION_NOT_ATTEMPTED
    made.members[3].epoch -= 1
    assert code_of(await alter_isr(made, [1, 3])) is ErrorCode.INELIGIBLE_REPLICA, "the leader saw an earlier life"
    made.members[3].epoch += 1

    made.members[1].epoch -= 1
    assert (await alter_isr(made, [1, 3])).error_code == ErrorCode.STALE_BROKER_EPOCH
    made.members[1].epoch += 1
    unknown = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=made.epoch(1),
        topics=[RequestTopicData(topic_id=b"\1" * 16, partitions=[RequestPartitionData(
            partition_index=0, leader_epoch=0, partition_epoch=0)])],
    )  # fmt: skip
    response = await made.active.controller.alter_partition(unknown, 3)
    assert code_of(response) is ErrorCode.UNKNOWN_TOPIC_ID


@brokers(1, 2, 3)
async def test_a_refused_isr_is_told_to_nobody_but_the_leader(made: Cluster) -> None:
    """It asks again and again."""
    await create(made, (1, 2, 3))
    before = {each: len(made.brokers[each].received(UpdateMetadataRequest)) for each in (1, 2, 3)}
    for _ in range(3):
        assert code_of(await alter_isr(made, [1, 4])) is ErrorCode.INELIGIBLE_REPLICA
        assert code_of(await alter_isr(made, [1, 2, 3])) is ErrorCode.NONE, "it is so already"
    await made.active.quiet()
    assert {each: len(made.brokers[each].received(UpdateMetadataRequest)) for each in (1, 2, 3)} == before
    assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.NONE
    for member in made.members.values():
        await member.shows(lambda image: image.topics["t"].partitions[0].isr == (1, 2))


@brokers(1, 2)
async def test_only_the_controller_answers(made: Cluster) -> None:
    other = next(each for each in made.members.values() if not each.controller.is_active)
    request = AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=[])
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: other.controller.alter_partition(request, 3),
        lambda: other.controller.controlled_shutdown(1, 1),
        lambda: other.controller.alter_reassignments({}),
        lambda: other.controller.list_reassignments(),
        lambda: other.controller.update_features(UpdateFeaturesRequest(feature_updates=[]), 1),
        lambda: other.controller.allocate_producer_ids(1, 1),
    ]
    for call in calls:
        with pytest.raises(KafkaError) as refused:
            await call()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
