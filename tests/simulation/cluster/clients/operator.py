"""Somebody who keeps the cluster moving: reassigns partitions, and calls for preferred leaders."""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from protocol.topic_partition import TopicPartition
from tests.simulation.cluster.world import GROUP_TOPIC, ClusterWorld
from tests.simulation.line import Unavailable

PREFERRED = 0
# A wish that the cluster cannot or need not fulfil just now.
REFUSALS = frozenset(
    {
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


class Operator:
    def __init__(self, world: ClusterWorld, name: str) -> None:
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._pause_s = world.random.choice((4.0, 10.0))

    async def run(self) -> None:
        world = self._world
        while not world.is_quiet:
            await asyncio.sleep(world.random.uniform(0.5, 1.5) * self._pause_s)
            try:
                if world.random.random() < 0.6:
                    await self._reassign()
                else:
                    await self._elect()
            except Unavailable:
                await self._wire.pause()

    def _expect(self, code: int, what: str) -> bool:
        """Whether it was done."""
        if code != ErrorCode.NONE and code not in self._world.not_now and code not in REFUSALS:
            self._world.report(f"{self.name}: {what} was answered {ErrorCode(code)!r}")
        return code == ErrorCode.NONE

    async def _reassign(self) -> None:
        world, rng = self._world, self._world.random
        plan = rng.choice(world.topics)
        key = (plan.name, rng.randrange(plan.partitions))
        replicas = None if rng.random() < 0.15 else rng.sample(sorted(world.machines), plan.replicas)
        answer = await self._wire.call(
            AlterPartitionReassignmentsRequest(
                timeout_ms=5_000,
                topics=[
                    ReassignableTopic(
                        name=key[0], partitions=[ReassignablePartition(partition_index=key[1], replicas=replicas)]
                    )
                ],
            ),
            0,
            AlterPartitionReassignmentsResponse,
        )
        world.loop.note(f"reassign {key} to {replicas}: {answer.error_code}")
        if not self._expect(answer.error_code, f"reassignment of {key}"):
            return
        for topic in answer.responses:
            for row in topic.partitions:
                if self._expect(row.error_code, f"reassignment of {key} to {replicas}"):
                    world.count("reassignments begun" if replicas else "reassignments cancelled")

    async def _elect(self) -> None:
        world = self._world
        key: TopicPartition = world.random.choice([*world.keys, (GROUP_TOPIC, 0)])
        answer = await self._wire.call(
            ElectLeadersRequest(
                election_type=PREFERRED,
                topic_partitions=[TopicPartitions(topic=key[0], partitions=[key[1]])],
                timeout_ms=3_000,
            ),
            2,
            ElectLeadersResponse,
        )
        if not self._expect(answer.error_code, f"election of {key}"):
            return
        for topic in answer.replica_election_results:
            for row in topic.partition_result:
                if self._expect(row.error_code, f"election of {key}"):
                    world.count("preferred leaders elected")
