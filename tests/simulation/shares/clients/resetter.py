"""The only member of its group: whenever it leaves it sets where the group starts, and reads all from there again."""

from __future__ import annotations

from typing import Final

from client.admin.steps import KeyKind
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_share_group_offsets import (
    AlteredPartition,
    AlteredTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.observed import NoObserver, ObservedCluster
from tests.simulation.shares.clients.member import ShareMember
from tests.simulation.shares.plan import SharePlan
from tests.simulation.shares.world import ShareWorld

LEAVES = 0.15
ANYWHERE: Final = 1 << 62
REFUSALS = frozenset({ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND})


class Resetter(ShareMember):
    def __init__(self, world: ShareWorld, name: str, plan: SharePlan) -> None:
        super().__init__(world, name, plan, leaves=LEAVES)
        self._tools = ObservedCluster(world, f"{name}-tools", NoObserver())

    async def _between(self) -> None:
        world = self._world
        if world.is_quiet:
            return
        key = world.random.choice(world.keys_of(self.group))
        start = world.random.randint(0, world.logs.partitions[key].committed_end)
        row = AlteredPartition(partition_index=key[1], start_offset=start)
        request = AlterShareGroupOffsetsRequest(
            group_id=self.group, topics=[AlteredTopic(topic_name=key[0], partitions=[row])]
        )
        code = await self._altered(key, request)
        world.loop.note(f"{self.name} sets {key} to {start}: {code and code.name}")
        if code is ErrorCode.NONE:
            world.count("start offsets set")
            self._reset(key, start)
        elif code in (None, ErrorCode.NETWORK_EXCEPTION) or code in world.not_now:
            self._reset(key, ANYWHERE)  # nobody knows
        elif code not in REFUSALS:
            world.report(f"{self.name}: {request!r} was answered {code!r}")

    async def _altered(self, key: TopicPartition, request: AlterShareGroupOffsetsRequest) -> ErrorCode | None:
        self._world.starts.altering(self.group, key)
        try:
            response = await self._tools.send_to_coordinator(
                KeyKind.GROUP, self.group, request, AlterShareGroupOffsetsResponse
            )
        except (OSError, KafkaError) as error:
            self._world.loop.note(f"{self.name}: {error}")
            self._tools.forget_coordinator(KeyKind.GROUP, self.group)
            return None
        if response.error_code:
            self._tools.forget_coordinator(KeyKind.GROUP, self.group)
            return ErrorCode.of(response.error_code)
        return ErrorCode.of(response.responses[0].partitions[0].error_code)

    def _reset(self, key: TopicPartition, start: int) -> None:
        self._world.starts.altering(self.group, key)
        self._world.deliveries.reset(self.group, key, start)
