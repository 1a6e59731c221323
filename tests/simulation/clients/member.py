"""A member of a group: joins, syncs, beats, commits, leaves now and then, and begins again whenever it is told to.

Now and then a commit comes late, with the generation before: a thread that slept over a rebalance. It must be refused.
"""

from __future__ import annotations

import asyncio

from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.simulation.clients.committer import commit_request
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.line import Unavailable
from tests.simulation.world import World

GROUP = "team"
HEARTBEAT_S = 0.8
SESSION_TIMEOUT_MS = 4_000
REBALANCE_TIMEOUT_MS = 5_000

REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class Member:
    def __init__(self, world: World, name: str, *, instance_id: str | None = None) -> None:
        self.name = name
        self._world = world
        self._wire = world.line(name)
        self._version = world.random.randint(5, 7)
        self._instance_id = instance_id
        self._member_id = ""
        self._generation = -1
        self._life = -1
        self._former: tuple[str, int, int] | None = None  # member, generation and life before these
        self._commits = 0
        self._topic = world.topics[0]

    async def run(self) -> None:
        """Ends when all is over and the group has let us commit once more."""
        await find_coordinator(self._world, self._wire, GROUP)
        while True:
            try:
                if await self._join() and await self._sync() and await self._stay():
                    return
            except Unavailable:
                self._world.count("members cut off")
            await self._wire.pause()

    def _on_error(self, code: int, what: str) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        elif code not in REJOIN and code not in self._world.not_now:
            self._world.report(f"{self.name}: {what} was answered {ErrorCode(code)!r}")

    async def _join(self) -> bool:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.name.encode())],
        )
        answer = await self._wire.call(request, self._version, JoinGroupResponse)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return False
        if answer.error_code != ErrorCode.NONE:
            self._on_error(answer.error_code, "JoinGroup")
            return False
        self._former = (self._member_id, self._generation, self._life) if self._generation >= 0 else None
        self._member_id, self._generation, self._life = answer.member_id, answer.generation_id, self._wire.life
        self._world.count("joins")
        self._members = sorted(member.member_id for member in answer.members)
        self._is_leader = answer.leader == answer.member_id
        self._world.groups.joined(
            GROUP, self._life, self._generation, answer.leader, answer.protocol_name, self._members
        )
        return True

    async def _sync(self) -> bool:
        assignment: dict[str, bytes] = {}
        if self._is_leader:
            for at, member in enumerate(self._members):
                owned = [p for p in range(self._topic.partitions) if p % len(self._members) == at]
                assignment[member] = f"{self._life}.{self._generation} {member} {owned}".encode()
            self._world.groups.assigning(GROUP, self._life, self._generation, assignment)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=content)
                for member, content in assignment.items()
            ],
        )
        answer = await self._wire.call(request, min(self._version, 5), SyncGroupResponse)
        if answer.error_code != ErrorCode.NONE:
            self._on_error(answer.error_code, "SyncGroup")
            return False
        if self._wire.life == self._life:
            self._world.groups.synced(
                GROUP, self._life, self._generation, self._member_id, self._instance_id, answer.assignment
            )
            self._world.count("syncs")
        return True

    async def _stay(self) -> bool:
        """Until the group rebalances or we leave: False. True when all is over."""
        rng = self._world.random
        while True:
            await asyncio.sleep(HEARTBEAT_S * rng.uniform(0.5, 1.0))
            is_quiet = self._world.is_quiet
            if not await self._beat() or not await self._commit():
                return False
            if is_quiet:
                return True
            if rng.random() < 0.05:
                await self._commit_late()
            if rng.random() < 0.03:
                await self._leave()
                return False

    async def _beat(self) -> bool:
        """Whether we are still a member."""
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        answer = await self._wire.call(request, 4, HeartbeatResponse)
        if answer.error_code != ErrorCode.NONE:
            self._on_error(answer.error_code, "Heartbeat")
            return False
        return True

    async def _commit(self) -> bool:
        """Whether we are still a member."""
        world = self._world
        partition = world.random.randrange(self._topic.partitions)
        newest = world.groups.newest(GROUP, self._wire.life)
        life = self._wire.life
        self._commits += 1
        request = commit_request(
            GROUP, self._topic.name, partition, self._commits, generation=self._generation, member=self._member_id
        )
        answer = await self._wire.call(request, 6, OffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            world.count("commits of members")
            if life == self._life == self._wire.life:
                world.groups.committed(GROUP, life, self._generation, newest)
            return True
        self._on_error(code, "OffsetCommit")
        return False

    async def _commit_late(self) -> None:
        world, former = self._world, self._former
        if former is None or former[0] != self._member_id or former[1:] == (self._generation, self._life):
            return
        request = commit_request(
            GROUP, self._topic.name, 0, self._commits, generation=former[1], member=self._member_id
        )
        answer = await self._wire.call(request, 6, OffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE and former[2] == self._life == self._wire.life:
            world.report(f"{self.name}: generation {former[1]} committed, though {self._generation} was under way")
        world.count("commits that came late")

    async def _leave(self) -> None:
        request = LeaveGroupRequest(
            group_id=GROUP, members=[MemberIdentity(member_id=self._member_id, group_instance_id=self._instance_id)]
        )
        answer = await self._wire.call(request, 4, LeaveGroupResponse)
        if answer.error_code != ErrorCode.NONE:
            self._on_error(answer.error_code, "LeaveGroup")
        self._world.count("leaves")
        self._member_id = ""
