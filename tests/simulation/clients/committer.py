"""A consumer that manages its partitions itself and keeps its place in a group: commits rising numbers, and reads them."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.checkers.commits import text_of
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.clients.producer import LONGEST_PAUSE_S
from tests.simulation.line import Unavailable
from tests.simulation.world import World


class Committer:
    def __init__(self, world: World, name: str) -> None:
        rng = world.random
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._commit_version = rng.randint(2, 8)
        self._fetch_version = rng.randint(1, 8)
        topic = rng.choice(world.topics)
        self._key = (f"group-{name}", topic.name, rng.randrange(topic.partitions))
        self._next = 0
        self._pause_s = world.pace * rng.choice((0.2, 0.7))

    async def run(self) -> None:
        await find_coordinator(self._world, self._wire, self._key[0])
        while not self._world.is_quiet:
            await asyncio.sleep(min(self._world.random.expovariate(1 / self._pause_s), LONGEST_PAUSE_S))
            if self._world.random.random() < 0.6:
                await self._commit()
            else:
                await self._fetch()
        while not await self._commit():
            await self._wire.pause()
        while not await self._fetch():
            await self._wire.pause()

    async def _commit(self) -> bool:
        world, (group, topic, partition) = self._world, self._key
        offset = self._next
        self._next += 1
        world.commits.sending(self._key, offset)
        cuts_count = world.commits.model(self._key).cuts_count
        try:
            answer = await self._wire.call(
                commit_request(group, topic, partition, offset), self._commit_version, OffsetCommitResponse
            )
        except Unavailable:
            return False
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            world.count("commits acknowledged")
            world.commits.acknowledged(self._key, offset, cuts_count)
            return True
        if code not in world.not_now:
            world.report(f"{self.name}: commit was answered {ErrorCode(code)!r}")
        return False

    async def _fetch(self) -> bool:
        world, (group, topic, partition) = self._world, self._key
        model = world.commits.model(self._key)
        floor, cuts_count = model.floor, model.cuts_count
        version = self._fetch_version
        if version >= 8:
            request = OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
                    )
                ]
            )
        else:
            request = OffsetFetchRequest(
                group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
            )
        try:
            answer = await self._wire.call(request, version, OffsetFetchResponse)
        except Unavailable:
            return False
        error = answer.groups[0].error_code if version >= 8 else answer.error_code
        topics = answer.groups[0].topics if version >= 8 else answer.topics
        codes = {error, *(row.error_code for of_topic in topics for row in of_topic.partitions)} - {0}
        if codes:
            for code in codes - world.not_now:
                world.report(f"{self.name}: OffsetFetch was answered {ErrorCode(code)!r}")
            return False
        if not topics and version == 1:
            return False  # it has no place for an error
        if not topics:
            world.report(f"{self.name}: OffsetFetch v{version} answered no topic: {answer}")
            return False
        if not self._wire.is_up_to_date:
            return False  # of a coordinator that was one
        row = topics[0].partitions[0]
        world.count("commits fetched")
        world.commits.fetched(self._key, floor, cuts_count, row.committed_offset, row.metadata)
        return True


def commit_request(
    group: str, topic: str, partition: int, offset: int, *, generation: int = -1, member: str = ""
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=text_of(offset)
                    )
                ],
            )
        ],
    )
