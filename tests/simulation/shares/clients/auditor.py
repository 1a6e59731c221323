"""Somebody who looks where share groups start, all the time, and says when a group has nothing left to do."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from client.admin.steps import KeyKind
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_share_group_offsets import (
    DescribedPartition,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestedGroup,
    RequestedTopic,
)
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.shares.plan import TRANSACTIONAL
from tests.simulation.shares.world import ShareWorld

PAUSE_S, DRAIN_PAUSE_S = 1.5, 0.5


class Place(NamedTuple):
    """Where a group starts in a partition, and how much is before it."""

    start: int
    lag: int


class Auditor:
    def __init__(self, world: ShareWorld, name: str) -> None:
        self.name = name
        self._world = world
        self._cluster = ObservedCluster(world, name, NoObserver())

    async def run(self) -> None:
        """Ends when every group has nothing left to do."""
        world = self._world
        for group in world.groups_planned:
            await find_coordinator(world, world.line(self.name), group)
        while world.drained < set(world.groups_planned):
            for group in world.groups_planned:
                places = await self.places(group)
                if places is not None and world.producers_are_done and self._is_drained(group, places):
                    world.drained.add(group)
                    world.loop.note(f"{group} is drained")
            await asyncio.sleep(DRAIN_PAUSE_S if world.producers_are_done else PAUSE_S)
        await self._cluster.close()

    def _is_drained(self, group: str, places: dict[TopicPartition, Place]) -> bool:
        for key in self._world.keys_of(group):
            last, place = max(self._world.known(key), default=None), places.get(key)
            # What is stored does not say yet that it starts behind what is done, nor that the log begins later.
            if last is not None and (
                place is None or (place.start <= last and place.lag > self._gone(key, place.start))
            ):
                self._world.loop.note(f"{group} has not finished {key}: {place}; last is {last}")
                return False
        return True

    def _gone(self, key: TopicPartition, start: int) -> int:
        """How many records from there on may have been deleted."""
        return max(self._world.deleted_to(key) - start, 0)

    async def places(self, group: str) -> dict[TopicPartition, Place] | None:
        """None when nobody can say it now."""
        world = self._world
        floors = {key: world.starts.floor(group, key) for key in world.keys_of(group)}
        sure = {key: world.is_one_leader(world.state_key(group, key)) for key in world.keys_of(group)}
        forgotten_count, keys = world.starts.forgotten_count, world.keys_of(group)
        request = DescribeShareGroupOffsetsRequest(
            groups=[
                RequestedGroup(
                    group_id=group,
                    topics=[
                        RequestedTopic(topic_name=topic, partitions=[key[1] for key in keys if key[0] == topic])
                        for topic in world.groups_planned[group].topics
                    ],
                )
            ]
        )
        try:
            response = await self._cluster.send_to_coordinator(
                KeyKind.GROUP, group, request, DescribeShareGroupOffsetsResponse
            )
        except (OSError, KafkaError) as error:
            world.loop.note(f"{self.name}: {error}")
            self._cluster.forget_coordinator(KeyKind.GROUP, group)
            return None
        [found] = response.groups
        code = ErrorCode.of(found.error_code)
        if code is not ErrorCode.NONE:
            self._cluster.forget_coordinator(KeyKind.GROUP, group)
            if code is not ErrorCode.GROUP_ID_NOT_FOUND and code not in world.not_now:
                world.report(f"{self.name}: offsets of {group} were answered {code!r}")
            return None
        world.count("start offsets told")
        places: dict[TopicPartition, Place] = {}
        for topic in found.topics:
            for row in topic.partitions:
                key = (topic.topic_name, row.partition_index)
                if row.error_code == ErrorCode.NONE:
                    places[key] = Place(row.start_offset, row.lag)
                    if sure[key] and world.is_one_leader(world.state_key(group, key)):
                        self._told(group, key, row, floors[key], forgotten_count)
        return places

    def _told(self, group: str, key: TopicPartition, row: DescribedPartition, floor: int, forgotten_count: int) -> None:
        world = self._world
        end = max(world.log_end(each, key) or 0 for each in world.machines)
        if key[0] != TRANSACTIONAL:
            end = max(end, world.logs.partitions[key].committed_end)
        world.starts.told(group, key, row.start_offset, row.lag, floor=floor, end=end, forgotten_count=forgotten_count)
