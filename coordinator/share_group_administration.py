"""What administrators do with the states of share groups: see where partitions are, begin elsewhere, forget.

A change is noted in the group's shard, the share coordinator is asked, and what it has done is noted, one after the other. A
coordinator that fails in between leaves what was noted first, and the same request completes it.

Rules: a shard is found anew after each wait, since its leadership may be over.
Source: Kafka GroupCoordinatorService.alterShareGroupOffsets, deleteShareGroupOffsets, deleteShareGroups,
describeShareGroupOffsets, describeShareGroupAllOffsets (KIP-932).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from coordinator.group.shard import GroupShard
from coordinator.group.share.administration import (
    PlannedDeletion,
    PlannedOffsets,
    deletion_refused,
    partition_result,
)
from coordinator.group.share.state_keeping import InitializedShareStates, Place, ShareSummary, StateKeeper
from coordinator.runtime.contract import Effect
from coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from coordinator.runtime.shard_context import ShardContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    TopicResult,
)

R = TypeVar("R")
NO_LEADER_EPOCH = -1


class ShareGroupAdministration:
    """Owned by the group coordinator."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard], keeper: StateKeeper) -> None:
        self._runtime = runtime
        self._keeper = keeper

    async def alter_offsets(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        """Raises: KafkaError when the whole request is refused."""
        group_id = request.group_id
        plan: PlannedOffsets = await self._run(
            group_id, lambda shard, waiter, now_ms: shard.plan_share_offsets(request, waiter, now_ms)
        )
        if not plan.rows:
            return plan.response
        outcome = InitializedShareStates(group_id, await self._keeper.initialize(group_id, plan.rows))
        await self._run(group_id, lambda shard, waiter, now_ms: shard.finish_share_offsets(outcome, waiter, now_ms))
        for topic in plan.response.responses:
            topic.partitions = [
                partition_result(row.partition_index, ErrorCode(row.error_code))
                if row.error_code
                else partition_result(row.partition_index, outcome.outcomes[topic.topic_id, row.partition_index])
                for row in topic.partitions
            ]
        return plan.response

    async def delete_offsets(self, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
        """Raises: KafkaError when the whole request is refused."""
        names = [topic.topic_name for topic in request.topics]
        plan, failed = await self._delete(request.group_id, names)
        responses = [
            TopicResult(topic_name=name, topic_id=topic_id, error_code=ErrorCode.NONE)
            for topic_id, name in plan.topics.items()
            if topic_id not in failed
        ]
        responses += plan.refused
        responses += [deletion_refused(plan.topics[topic_id], error) for topic_id, error in failed.items()]
        return DeleteShareGroupOffsetsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, responses=responses)

    async def forget(self, group_id: str) -> None:
        """Delete all states of the group, which is to be removed. Raises: KafkaError when they could not be deleted."""
        _, failed = await self._delete(group_id, None)
        for error in failed.values():
            raise KafkaError(error)

    async def _delete(
        self, group_id: str, names: Sequence[str] | None
    ) -> tuple[PlannedDeletion, Mapping[bytes, ErrorCode]]:
        """What was planned, and the topics that could not be forgotten. Raises: KafkaError."""
        plan: PlannedDeletion = await self._run(
            group_id, lambda shard, waiter, now_ms: shard.plan_share_deletion(group_id, names, waiter, now_ms)
        )
        if not plan.rows:
            return plan, {}
        asked = tuple(plan.topics)
        done: tuple[bytes, ...] = ()
        try:
            outcomes = await self._keeper.delete(group_id, plan.rows)
            failed = {place[0]: error for place, error in outcomes.items() if error is not ErrorCode.NONE}
            if names is not None:  # else the entry goes with the group
                done = tuple(topic_id for topic_id in asked if topic_id not in failed)
        finally:
            await self._run(
                group_id,
                lambda shard, waiter, now_ms: shard.finish_share_deletion(group_id, asked, done, waiter, now_ms),
            )
        return plan, failed

    async def summaries(self, group_id: str, places: Sequence[Place]) -> Mapping[Place, ShareSummary | ErrorCode]:
        """Where these share partitions are. A share partition without a state begins at -1."""
        rows = [(topic_id, partition, NO_LEADER_EPOCH) for topic_id, partition in places]
        return await self._keeper.read_summary(group_id, rows) if rows else {}

    def initialized(self, group_id: str) -> list[Place]:
        """The share partitions of the group. Raises: KafkaError."""
        found = self._context(group_id).shard.initialized_share_partitions(group_id)
        return [(topic_id, partition) for topic_id in sorted(found) for partition in sorted(found[topic_id])]

    # --- shards ----------------------------------------------------------------------------------------------------

    async def _run(
        self, group_id: str, operation: Callable[[GroupShard, asyncio.Future[R | KafkaError], int], list[Effect]]
    ) -> R:
        """Raises: KafkaError, which the operation has answered."""
        response = await self._runtime.run(self._context(group_id), operation)
        if isinstance(response, KafkaError):
            raise response
        return response

    def _context(self, group_id: str) -> ShardContext[GroupShard]:
        """Raises: KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
        context = self._runtime.shard_of(group_id)
        if isinstance(context, ErrorCode):
            raise KafkaError(context)
        return context
