"""What consumer groups leave to their coordinator: targets of large groups, and regular expressions."""

from __future__ import annotations

import pytest

from coordinator.group.consumer.expressions import MayDescribe
from coordinator.group.consumer.group import ConsumerGroupState
from coordinator.group_commands import PART_MEMBERS
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.group.consumer.members import image, topic_id
from tests.coordinator.world import World


async def beat(
    world: World, member_id: str, epoch: int = 0, may_describe: MayDescribe = None, **fields: object
) -> ConsumerGroupHeartbeatResponse:
    values: dict[str, object] = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **{**values, **fields}
    )
    return await world.groups.consumer_heartbeat(request, 1, "client", "/127.0.0.1", may_describe)


@pytest.mark.parametrize(
    ("members_count", "is_refused"),
    [(PART_MEMBERS + 400, False), (PART_MEMBERS + 400, True), pytest.param(10_000, False, marks=pytest.mark.long)],
)
async def test_a_large_group_gets_its_target_in_parts(members_count: int, is_refused: bool) -> None:
    """A part that is refused is no harm: the target is computed again."""
    async with World() as world:
        await world.lead()
        world.groups.on_image_changed(image(t=2 * members_count))
        names = [f"m{number}" for number in range(members_count)]
        epochs = [(await beat(world, name, subscribed_topic_names=["t"])).member_epoch for name in names]
        await world.settle()
        await world.advance(1_000)
        if is_refused:
            world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
            await beat(world, names[0], epochs[0])
            await world.settle()
            world.log.refuse_with = None
        for _ in range(4):
            for index, name in enumerate(names):
                response = await beat(world, name, epochs[index], topic_partitions=[])
                epochs[index] = response.member_epoch or epochs[index]
            await world.settle()
            await world.advance(1_000)
        [group] = [each for shard in world.groups.runtime.active_shards() for each in shard._groups]
        assert group.state is ConsumerGroupState.STABLE
        assert sorted(len(each.partitions[topic_id("t")]) for each in group.targets.values()) == [2] * members_count


async def test_an_expression_matches_what_the_member_may_describe() -> None:
    async with World() as world:
        await world.lead()
        world.groups.on_image_changed(image(t1=1, t2=1, u=1))
        joined = await beat(
            world,
            "a",
            may_describe=lambda topic: topic != "t2",
            subscribed_topic_regex="t.*",
            subscribed_topic_names=[],
        )
        assert joined.assignment is not None and joined.assignment.topic_partitions == []
        await world.settle()
        await world.advance(1_000)
        told = await beat(world, "a", joined.member_epoch, topic_partitions=[])
        assert told.assignment is not None
        assert [each.topic_id for each in told.assignment.topic_partitions] == [topic_id("t1")]


async def test_expressions_that_cannot_be_resolved_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    def fails(topic: str) -> bool:
        raise OSError("no authorizer")

    async with World() as world:
        await world.lead()
        world.groups.on_image_changed(image(t1=1))
        joined = await beat(world, "a", may_describe=fails, subscribed_topic_regex="t.*", subscribed_topic_names=[])
        await world.settle()
        assert "regular expressions not resolved" in caplog.text
        again = await beat(world, "a", joined.member_epoch, topic_partitions=[])
        await world.settle()
        await world.advance(1_000)
        told = await beat(world, "a", again.member_epoch, topic_partitions=[])
        assert told.assignment is not None and told.assignment.topic_partitions
