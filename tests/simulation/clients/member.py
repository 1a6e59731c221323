"""A member of a group, as `client.event_loop.group_member` has it: it commits what it owns, leaves now and then, and comes
again.

Now and then a commit comes late, with the generation before: a thread that slept over a rebalance. It must be refused.
"""

from __future__ import annotations

import asyncio
from typing import Any

from client.admin.steps import KeyKind
from client.committing import OffsetAndMetadata
from client.error_codes import error_codes
from client.errors import FatalError
from client.event_loop.group_member import GroupMember
from client.membership.contract import MemberSettings, Phase
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.commits import text_of
from tests.simulation.clients.committer import commit_request
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.world import World

GROUP = "team"
HEARTBEAT_S = 0.8
SETTINGS = {"session_timeout_ms": 4_000, "heartbeat_interval_ms": 800, "max_poll_interval_ms": 5_000}
EXPECTED = frozenset({
    ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID, ErrorCode.MEMBER_ID_REQUIRED,
})  # fmt: skip


class Member:
    def __init__(self, world: World, name: str, *, instance_id: str | None = None) -> None:
        rng = world.random
        self.name = name
        self._world = world
        self._cluster = ObservedCluster(world, name, self)
        version = rng.randint(5, 7)
        self._cluster.versions = {JoinGroupRequest: version, SyncGroupRequest: min(version, 5)}
        self._topic = world.topics[0].name
        self._settings = MemberSettings(instance_id=instance_id, **SETTINGS)
        self._partitions: list[TopicPartition] = []
        # (member, generation, life of the coordinator) that was joined last, and before that.
        self._present: tuple[str, int, int] | None = None
        self._former: tuple[str, int, int] | None = None
        self._commits = 0

    async def run(self) -> None:
        """Ends when all is over and the group has let us commit once more."""
        await find_coordinator(self._world, self._world.line(self.name), GROUP)
        while True:
            member = GroupMember(self._cluster, GROUP, [self._topic], self, self._world.random, self._settings)
            try:
                is_done = await self._stay(member)
            except FatalError:
                is_done = False
                self._world.count("members cut off")
            await member.close()
            self._partitions.clear()
            if is_done:
                await self._cluster.close()
                return

    async def _stay(self, member: GroupMember) -> bool:
        """Until we leave: False. True when all is over. Raises FatalError."""
        world, rng = self._world, self._world.random
        while True:
            await asyncio.sleep(HEARTBEAT_S * rng.uniform(0.5, 1.0))
            is_quiet = world.is_quiet
            member.polled()
            is_accepted = await self._commit(member)
            if is_quiet and is_accepted and member.core.phase is Phase.STABLE:
                return True
            if rng.random() < 0.05:
                await self._commit_late(member)
            if rng.random() < 0.02:
                world.count("leaves")
                return False

    async def _commit(self, member: GroupMember) -> bool:
        """Whether it was accepted, or nothing is ours."""
        if not self._partitions:
            return True
        self._commits += 1
        offsets = {
            self._world.random.choice(self._partitions): OffsetAndMetadata(self._commits, -1, text_of(self._commits))
        }
        try:
            await member.commit(offsets)
        except KafkaError:
            return False
        return True

    async def _commit_late(self, member: GroupMember) -> None:
        former, present = self._former, self._present
        if former is None or present is None or (former[0], former[2]) != (present[0], present[2]):
            return
        if former[1] == present[1]:  # it has joined the same generation twice
            return
        request = commit_request(GROUP, self._topic, 0, self._commits, generation=former[1], member=former[0])
        try:
            await self._cluster.send_to_coordinator(KeyKind.GROUP, GROUP, request, OffsetCommitResponse)
        except OSError:
            return
        self._world.count("commits that came late")

    # --- the listener ---

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        self._partitions = partitions

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        await asyncio.sleep(self._world.random.choice((0.0, 0.1, 1.0)))
        self._partitions = []

    # --- what goes over the wire ---

    def sending(self, broker_id: int, request: Request) -> object:
        world, life = self._world, self._world.group_term(broker_id, GROUP)
        if self._present is not None:
            member, generation, joined_life = self._present
            if isinstance(request, SyncGroupRequest) and request.assignments:
                given = {each.member_id: each.assignment for each in request.assignments}
                world.groups.assigning(GROUP, joined_life, generation, given)
            if isinstance(request, OffsetCommitRequest) and request.generation_id_or_member_epoch == generation:
                for topic in request.topics:
                    for row in topic.partitions:
                        key = (topic.name, row.partition_index)
                        world.groups.committing(GROUP, generation, member, self._settings.instance_id, key)
        return life, world.groups.newest(GROUP, life)

    def unanswered(self, request: Request) -> None:
        """It is repeated."""

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        world, (life, newest) = self._world, then
        codes = [ErrorCode(code) for code in error_codes(response)]
        for code in codes:
            if code not in EXPECTED and code not in world.not_now:
                world.report(f"{self.name}: {request.api_name} was answered {code!r}")
        if codes:
            return
        if isinstance(response, JoinGroupResponse):
            life = world.group_term(broker_id, GROUP)
            self._former, self._present = self._present, (response.member_id, response.generation_id, life)
            members = sorted(each.member_id for each in response.members)
            world.count("joins")
            world.groups.joined(GROUP, life, response.generation_id, response.leader, response.protocol_name, members)
        elif self._present is None or life != world.group_term(broker_id, GROUP) or life != self._present[2]:
            return
        elif isinstance(request, SyncGroupRequest) and isinstance(response, SyncGroupResponse):
            world.count("syncs")
            world.groups.synced(
                GROUP, life, request.generation_id, request.member_id, request.group_instance_id, response.assignment
            )
        elif isinstance(request, OffsetCommitRequest):
            world.count("commits of members")
            world.groups.committed(GROUP, life, request.generation_id_or_member_epoch, newest)
