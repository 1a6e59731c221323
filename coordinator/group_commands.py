"""What groups need done outside their shard: targets of large groups, the matching of regular expressions, and the states of
share partitions.

Rules: the outcome is passed to the shard as an operation of its own, also when it failed: the shard waits for it. A target
is computed on the loop, in slices; expressions are matched in a thread, which the library lets run beside the loop; share
coordinators, here or on other brokers, keep the states.
Invariant: an outcome that comes after the leadership has ended is dropped.
Source: Kafka CoordinatorExecutor, TopicRegexResolver.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from coordinator.group.assigned.assignor import Assignment
from coordinator.group.assigned.entries import EntryKey, Target
from coordinator.group.assigned.entry_records import record_of
from coordinator.group.assigned.targets import ComputedTarget, ComputeTarget
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.consumer.expressions import ResolvedExpressions, ResolveExpressions
from coordinator.group.consumer.patterns import resolve
from coordinator.group.shard import GroupShard
from coordinator.group.share.state_keeping import InitializedShareStates, InitializeShareStates, StateKeeper
from coordinator.runtime.contract import Command, Effect
from coordinator.runtime.shard_context import ShardContext
from protocol.errors import ErrorCode
from runtime.clock import Clock
from runtime.slices import Slices
from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

# The members of a part of a target.
PART_MEMBERS = 500

Resolution: TypeAlias = dict[str, frozenset[str]]
# Runs a job beside the loop.
RunApart = Callable[[Callable[[], Resolution]], Awaitable[Resolution]]


async def run_here(job: Callable[[], Resolution]) -> Resolution:
    """Run the job on the loop, for a coordinator without threads."""
    return job()


class GroupCommands:
    """Carries out the commands of all group shards. Owned by the coordinator."""

    def __init__(
        self,
        clock: Clock,
        tasks: TaskScope,
        topics: GroupTopics,
        keeper: StateKeeper,
        run_apart: RunApart = run_here,
    ) -> None:
        self._clock = clock
        self._keeper = keeper
        self._tasks = tasks
        self._topics = topics
        self._run_apart = run_apart

    def carry_out(self, command: Command, context: ShardContext[GroupShard]) -> None:
        match command:
            case ComputeTarget():
                self._tasks.spawn(self._compute(command, context), name=f"target of {command.group_id}")
            case ResolveExpressions():
                self._tasks.spawn(self._resolve(command, context), name=f"expressions of {command.group_id}")
            case InitializeShareStates():
                self._tasks.spawn(self._initialize(command, context), name=f"share states of {command.group_id}")
            case _:
                raise AssertionError(f"not a command of a group: {command}")

    # --- targets ---------------------------------------------------------------------------------------------------

    async def _compute(self, command: ComputeTarget, context: ShardContext[GroupShard]) -> None:
        slices = Slices(self._clock)
        try:
            parts = await self._parts(command, await self._assignment(command, slices), slices)
        except Exception as error:  # the group could compute no other target while it waits for this one
            logger.exception("target not computed: group=%s group_epoch=%d", command.group_id, command.epoch)
            name = command.computation.assignor_name
            parts = [ComputedTarget(command.group_id, command.kind, command.epoch, name, {}, {}, failure=str(error))]
        for part in parts:
            context.run(partial(_target_computed, part))
            await slices.yield_if_due()

    async def _assignment(self, command: ComputeTarget, slices: Slices) -> Assignment:
        steps = command.computation.steps()
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                assignment: Assignment = ended.value
                return assignment
            await slices.yield_if_due()

    async def _parts(self, command: ComputeTarget, assignment: Assignment, slices: Slices) -> list[ComputedTarget]:
        """The target in parts that a shard takes in some milliseconds each, with the records of the members whose share has
        changed."""
        parts = []
        members = list(assignment)
        for start in range(0, len(members), PART_MEMBERS):
            records = {}
            of_part = members[start : start + PART_MEMBERS]
            for member_id in of_part:
                share = assignment[member_id]
                if share is not command.computation.members[member_id].owned:
                    key = EntryKey(command.kind, command.group_id, member_id)
                    records[member_id] = record_of(key, Target(share))
                await slices.yield_if_due()
            shares = {member_id: assignment[member_id] for member_id in of_part}
            is_last = start + PART_MEMBERS >= len(members)
            name = command.computation.assignor_name
            parts.append(ComputedTarget(command.group_id, command.kind, command.epoch, name, shares, records, is_last))
        return parts

    # --- expressions -----------------------------------------------------------------------------------------------

    async def _resolve(self, command: ResolveExpressions, context: ShardContext[GroupShard]) -> None:
        failure: str | None = None
        topics: Resolution = {}
        try:
            topics = await self._run_apart(partial(resolve, command.expressions, list(self._topics.names())))
            if command.may_describe is not None:
                topics = await self._described(topics, command.may_describe)
        except Exception as error:  # the group could resolve no expression while it waits for this outcome
            logger.exception("regular expressions not resolved: group=%s", command.group_id)
            failure = str(error)
        outcome = ResolvedExpressions(command.group_id, topics, command.version, failure)
        context.run(lambda shard, now_ms: shard.on_expressions_resolved(outcome, now_ms))

    async def _described(self, topics: Resolution, may_describe: Callable[[str], bool]) -> Resolution:
        slices = Slices(self._clock)
        described = {}
        for expression, names in topics.items():
            described[expression] = frozenset([name async for name in slices.over(names) if may_describe(name)])
        return described

    # --- share states ----------------------------------------------------------------------------------------------

    async def _initialize(self, command: InitializeShareStates, context: ShardContext[GroupShard]) -> None:
        try:
            outcomes = await self._keeper.initialize(command.group_id, command.rows)
        except Exception:  # the group could read none of these partitions while it waits for this outcome
            logger.exception("share states not initialized: group=%s", command.group_id)
            unknown = ErrorCode.UNKNOWN_SERVER_ERROR
            outcomes = {(row.topic_id, row.partition): unknown for row in command.rows}
        outcome = InitializedShareStates(command.group_id, outcomes)
        context.run(lambda shard, now_ms: shard.on_share_states_initialized(outcome, now_ms))


def _target_computed(computed: ComputedTarget, shard: GroupShard, now_ms: int) -> list[Effect]:
    return shard.on_target_computed(computed, now_ms)
