"""Share groups whose states other brokers keep: members join, administrators change offsets and delete, and what
fails is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from coordinator.group.share.state_keeping import NewState, Place
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_share_group_offsets import (
    AlteredPartition,
    AlteredTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from protocol.messages.delete_share_group_offsets import (
    DeletedTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.coordinator.group.consumer.members import image, topic_id
from tests.coordinator.world import World

T = topic_id("t")


@dataclass
class Summary:
    start_offset: int
    leader_epoch: int = 0
    delivery_complete_count: int = -1


@dataclass
class Keeper:
    """A share coordinator that keeps where partitions begin. `error` is its answer to everything; while `answers` is clear it
    does not answer."""

    starts: dict[tuple[str, bytes, int], int] = field(default_factory=dict)
    error: ErrorCode = ErrorCode.NONE
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    async def initialize(self, group_id: str, rows: Sequence[NewState]) -> Mapping[Place, ErrorCode]:
        await self.answers.wait()
        if self.error is ErrorCode.NONE:
            self.starts.update({(group_id, row.topic_id, row.partition): row.start_offset for row in rows})
        return {(row.topic_id, row.partition): self.error for row in rows}

    async def read_summary(
        self, group_id: str, rows: Sequence[tuple[bytes, int, int]]
    ) -> Mapping[Place, Summary | ErrorCode]:
        return {
            (each, partition): Summary(self.starts.get((group_id, each, partition), -1)) for each, partition, _ in rows
        }

    async def delete(self, group_id: str, rows: Sequence[Place]) -> Mapping[Place, ErrorCode]:
        await self.answers.wait()
        if self.error is ErrorCode.NONE:
            for place in rows:
                self.starts.pop((group_id, *place), None)
        return dict.fromkeys(rows, self.error)


async def heartbeat(world: World, member_id: str, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
    return await world.groups.share_heartbeat(request, "client", "/h")


async def joined(world: World) -> int:
    """A member "m" that has the partitions of `t`. Returns its epoch."""
    response = await heartbeat(world, "m", 0, "t")
    for _ in range(3):
        await world.advance(1_000)
        response = await heartbeat(world, "m", response.member_epoch)
    return response.member_epoch


async def alter(world: World, **starts: int) -> AlterShareGroupOffsetsResponse:
    topics = [
        AlteredTopic(topic_name=name, partitions=[AlteredPartition(partition_index=index, start_offset=start)
                     for index in (0, 9)])
        for name, start in starts.items()
    ]  # fmt: skip
    return await world.groups.shares.alter_offsets(AlterShareGroupOffsetsRequest(group_id="g", topics=topics))


async def delete(world: World, *names: str) -> DeleteShareGroupOffsetsResponse:
    topics = [DeletedTopic(topic_name=name) for name in names]
    return await world.groups.shares.delete_offsets(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics))


async def world_of(keeper: Keeper) -> World:
    world = World(keeper=keeper)
    await world.lead()
    world.groups.on_image_changed(image(t=2, u=1))
    return world


async def test_a_group_that_is_not_there_begins_where_it_is_told() -> None:
    keeper = Keeper()
    async with await world_of(keeper) as world:
        response = await alter(world, t=7, nowhere=1)
        rows = {(topic.topic_name, row.partition_index): row.error_code
                for topic in response.responses for row in topic.partitions}  # fmt: skip
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert rows == {("t", 0): 0, ("t", 9): missing, ("nowhere", 0): missing, ("nowhere", 9): missing}
        assert keeper.starts == {("g", T, 0): 7}
        assert world.groups.describe_share_group("g").group_state == "Empty"
        await joined(world)
        assert keeper.starts == {("g", T, 0): 7, ("g", T, 1): -1}
        assert world.groups.shares.initialized("g") == [(T, 0), (T, 1)]
        summaries = await world.groups.shares.summaries("g", [(T, 0)])
        assert summaries == {(T, 0): Summary(7)}


async def test_offsets_that_the_share_coordinator_refuses_are_told() -> None:
    keeper = Keeper(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    async with await world_of(keeper) as world:
        response = await alter(world, t=7)
        row = response.responses[0].partitions[0]
        assert (row.error_code, row.error_message) == (15, ErrorCode.COORDINATOR_NOT_AVAILABLE.message)
        assert world.groups.shares.initialized("g") == []


async def test_a_request_for_topics_that_do_not_exist_makes_no_group() -> None:
    async with await world_of(Keeper()) as world:
        await alter(world, nowhere=1)
        assert world.groups.describe_share_group("g").error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_groups_with_members_are_not_changed() -> None:
    async with await world_of(Keeper()) as world:
        await joined(world)
        for change in (alter(world, t=1), delete(world, "t")):
            with pytest.raises(KafkaError) as refused:
                await change
            assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
        [result] = await world.groups.delete_groups(["g"])
        assert result.error_code == ErrorCode.NON_EMPTY_GROUP


async def test_topics_are_forgotten_and_read_again_from_the_beginning() -> None:
    keeper = Keeper()
    async with await world_of(keeper) as world:
        await alter(world, t=7)
        response = await delete(world, "t", "u", "nowhere")
        found = {topic.topic_name: (topic.error_code, topic.error_message) for topic in response.responses}
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == {
            "t": (0, None),
            "u": (missing, "There is no offset information to delete."),
            "nowhere": (missing, missing.message),
        }
        assert keeper.starts == {}
        await joined(world)
        assert keeper.starts == {("g", T, 0): -1, ("g", T, 1): -1}


async def test_a_deletion_that_failed_is_repeated() -> None:
    keeper = Keeper()
    async with await world_of(keeper) as world:
        await alter(world, t=7)
        keeper.error = ErrorCode.NOT_COORDINATOR
        response = await delete(world, "t")
        assert [topic.error_code for topic in response.responses] == [ErrorCode.NOT_COORDINATOR]
        [result] = await world.groups.delete_groups(["g"])
        assert result.error_code == ErrorCode.NOT_COORDINATOR
        keeper.error = ErrorCode.NONE
        response = await delete(world, "t")
        assert [topic.error_code for topic in response.responses] == [ErrorCode.NONE]
        assert keeper.starts == {}


async def test_a_group_is_deleted_with_its_states() -> None:
    keeper = Keeper()
    async with await world_of(keeper) as world:
        epoch = await joined(world)
        assert (await heartbeat(world, "m", -1)).error_code == 0, epoch
        assert len(keeper.starts) == 2
        [result, other] = await world.groups.delete_groups(["g", "other"])
        assert (result.error_code, other.error_code) == (0, ErrorCode.GROUP_ID_NOT_FOUND)
        assert keeper.starts == {}
        assert world.groups.describe_share_group("g").error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_member_that_joins_during_a_deletion_waits_for_it() -> None:
    keeper = Keeper()
    async with await world_of(keeper) as world:
        await alter(world, t=7)
        keeper.answers.clear()
        deleting = asyncio.create_task(delete(world, "t"))
        await world.settle()
        response = await heartbeat(world, "m", 0, "t")
        await world.settle()
        assert response.assignment is not None and response.assignment.topic_partitions == []
        keeper.answers.set()
        await deleting
        assert keeper.starts == {}
        for _ in range(3):
            await world.advance(1_000)
            response = await heartbeat(world, "m", response.member_epoch)
        assert keeper.starts == {("g", T, 0): -1, ("g", T, 1): -1}


async def test_a_change_ends_with_the_leadership() -> None:
    keeper = Keeper()
    async with await world_of(keeper) as world:
        await alter(world, t=7)
        keeper.answers.clear()
        deleting = asyncio.create_task(world.groups.delete_groups(["g"]))
        changing = asyncio.create_task(alter(world, u=1))
        await world.settle()
        for partition in range(4):
            world.groups.runtime.on_resignation(partition)
        keeper.answers.set()
        [result] = await deleting
        assert result.error_code == ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError) as refused:
            await changing
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
