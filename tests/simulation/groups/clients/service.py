"""A service: a member of a group, as `client.event_loop.group_member` has it, that reads what it is given and commits how
far it is.

Now and then it leaves, hangs, crashes, comes again in either protocol; and a commit comes late, with an epoch that is
over: a thread that slept. It must be refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from client.committing import OffsetAndMetadata
from client.error_codes import error_codes
from client.errors import FatalError
from client.event_loop.group_member import GroupMember
from client.event_loop.reader import PartitionReader
from client.membership.assignors import decode_assignment
from client.membership.contract import GroupProtocol, MemberSettings, Phase, TopicPattern
from client.reading.positions import Positions
from coordinator.group.consumer.member import STATIC_LEAVE_EPOCH
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.groups.plan import HEARTBEAT_INTERVAL_MS, REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS
from tests.simulation.groups.world import GroupWorld
from tests.simulation.line import Unavailable

POLL_MS = 400
FEW_BYTES = 2_000  # of a fetch, so that a group has something to read for long
PATTERN = TopicPattern("in(to)?")
LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
CLASSIC = frozenset({
    ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID,
})  # fmt: skip
LATE = frozenset({
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.REBALANCE_IN_PROGRESS,
})  # fmt: skip
EXPECTED: dict[type[Request], frozenset[ErrorCode]] = {
    ConsumerGroupHeartbeatRequest: LOST,
    JoinGroupRequest: CLASSIC,
    SyncGroupRequest: CLASSIC,
    HeartbeatRequest: CLASSIC,
    LeaveGroupRequest: CLASSIC,
    OffsetCommitRequest: LATE,
    OffsetFetchRequest: LATE | {ErrorCode.UNSTABLE_OFFSET_COMMIT},
}


@dataclass(frozen=True, slots=True)
class Then:
    """What held when a request was sent."""

    term: int  # of the coordinator
    sent_s: float
    forgotten_count: int
    floors: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Former:
    """A membership that may be over."""

    member_id: str
    epoch: int
    keys: tuple[TopicPartition, ...]


class Service:
    """`protocols`: it comes each time in one of them. `leaves`: how likely it does something else than read, at each
    look."""

    def __init__(
        self,
        world: GroupWorld,
        name: str,
        group: str,
        protocols: Sequence[GroupProtocol],
        *,
        instance_id: str | None = None,
        leaves: float = 0.03,
    ) -> None:
        self.name = name
        self.group = group
        self._world = world
        self._protocols = protocols
        self._instance_id = instance_id
        self._leaves = leaves
        self._cluster = ObservedCluster(world, name, self)
        self._line = world.line(f"{name}-late")
        self._member: GroupMember | None = None
        self._reader: PartitionReader | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._ids: set[str] = set()
        self._former: Former | None = None
        self._has_crashed = False

    async def run(self) -> None:
        """Ends when all is over, everything is read, and the group has let us commit it."""
        await find_coordinator(self._world, self._world.line(self.name), self.group)
        is_done = False
        while not is_done:
            self._member, self._reader = member, reader = self._begin()
            try:
                is_done = await self._stay(member, reader)
            except FatalError as error:
                self._world.count("members cut off")
                self._world.loop.note(f"{self.name} is cut off: {error}")
            await reader.close()
            if self._has_crashed:
                await self._crash(member)
            else:
                await member.close()
            self._over()
            await asyncio.sleep(self._world.random.choice((0.1, 1.0, 6.0)))
        await self._cluster.close()

    def _begin(self) -> tuple[GroupMember, PartitionReader]:
        world, rng = self._world, self._world.random
        protocol = rng.choice(self._protocols)
        is_consumer = protocol is GroupProtocol.CONSUMER
        settings = MemberSettings(
            protocol=protocol,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
            server_assignor=rng.choice((None, "uniform", "range")) if is_consumer else None,
            instance_id=self._instance_id,
        )
        names = [topic.name for topic in world.topics]
        subscription = PATTERN if is_consumer and rng.random() < 0.3 else names
        world.count(f"{protocol.value} members begun")
        member = GroupMember(self._cluster, self.group, subscription, self, rng, settings)
        positions = Positions(max_partition_bytes=FEW_BYTES)
        return member, PartitionReader(self._cluster, rng, positions, max_wait_ms=300)

    def _over(self) -> None:
        """The member is no more."""
        for each in self._ids:
            self._world.ownership.ended(self.group, each)
        self._ids.clear()
        self._committed.clear()
        self._member = self._reader = None

    async def _stay(self, member: GroupMember, reader: PartitionReader) -> bool:
        """Until we go: False. True when all is over. Raises FatalError."""
        world, rng = self._world, self._world.random
        while True:
            member.polled()
            for each in await reader.poll(POLL_MS):
                world.progress.read(
                    self.group,
                    (each.topic, each.partition),
                    each.record.offset,
                    bytes(each.record.value or b"").decode(),
                )
            if rng.random() < 0.5 or world.is_quiet:
                await self._commit(member, reader, reader.positions.partitions)
            if world.producers_are_done:
                if self._has_all(member, reader):
                    world.finished.add(self.name)
                else:  # it has got more since
                    world.finished.discard(self.name)
            if world.producers_are_done and world.finished >= world.services:
                return True
            if world.is_quiet:
                continue
            if rng.random() < 0.2:
                await self._commit_late()
            if rng.random() < self._leaves:
                what = rng.choice(("leaves", "hangs", "crashes"))
                world.count(f"members: {what}")
                world.loop.note(f"{self.name} {what}")
                if what == "hangs":
                    await asyncio.sleep(REBALANCE_TIMEOUT_MS / 1_000 * rng.uniform(0.8, 1.8))
                    continue
                self._has_crashed = what == "crashes"
                return False

    async def _crash(self, member: GroupMember) -> None:
        """It goes without a word."""
        await member._tasks.close()
        self._has_crashed = False
        await self._cluster.close()
        self._cluster = ObservedCluster(self._world, self.name, self)

    def _has_all(self, member: GroupMember, reader: PartitionReader) -> bool:
        """Whether the group is stable, and everything that is ours was read and is committed."""
        world, owned = self._world, reader.positions.partitions
        if member.core.phase is not Phase.STABLE or not world.ownership.is_complete(self.group, world.keys):
            return False
        if set(member.core.partitions) != set(owned):
            return False
        positions = {key: reader.positions.offset(key) for key in owned}
        return all(
            position is not None
            and position.offset >= world.logs.partitions[key].committed_end
            and (self._committed.get(key) == position.offset or position.offset == 0)
            for key, position in positions.items()
        )

    # --- commits ---

    async def _commit(self, member: GroupMember, reader: PartitionReader, keys: Collection[TopicPartition]) -> None:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for key in keys:
            position = reader.positions.offset(key)
            if position is not None and position.offset != self._committed.get(key, 0):
                offsets[key] = position
        if not offsets:
            return
        try:
            async with asyncio.timeout(REBALANCE_TIMEOUT_MS / 1_000):
                await member.commit(offsets)
        except (KafkaError, TimeoutError):
            self._world.count("commits given up")
            return
        self._committed |= {key: position.offset for key, position in offsets.items()}

    async def _commit_late(self) -> None:
        world, former = self._world, self._former
        if former is None or not former.keys:
            return
        key, version = world.random.choice(former.keys), world.random.choice((9, 10))
        is_over = world.epochs.is_over(self.group, former.member_id, former.epoch)
        forgotten_count = world.epochs.forgotten_count
        offset = max(world.progress.floor(self.group, key), 0)
        row = OffsetCommitRequestPartition(partition_index=key[1], committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=former.epoch,
            member_id=former.member_id,
            topics=[OffsetCommitRequestTopic(name=key[0], topic_id=world.topic_ids[key[0]], partitions=[row])],
        )
        world.progress.committing(self.group, key, offset)
        try:
            response = await self._line.call(request, version, OffsetCommitResponse)
        except Unavailable:
            return
        code = ErrorCode.of(response.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            is_over &= world.epochs.is_over(self.group, former.member_id, former.epoch)
            if is_over and self._line.is_up_to_date:
                world.epochs.late_commit_accepted(self.group, former.member_id, former.epoch, forgotten_count)
            return
        world.progress.refused(self.group, key, offset)
        world.count("commits that came late and were refused", is_over and code not in world.not_now)
        if code not in LATE and code not in world.not_now:
            world.report(f"{self.name}: a late commit was answered {code!r}")

    # --- the listener ---

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        member, reader = self._member, self._reader
        left = set(partitions)
        while member is not None and reader is not None and left and not member.core.error:
            left &= set(member.core.partitions)
            try:
                committed = await member.committed(left) if left else {}
            except KafkaError as error:
                self._world.loop.note(f"{self.name} has no offsets of {left}: {error}")
                await asyncio.sleep(0.2)
                continue
            left &= set(member.core.partitions)
            reader.assign({key: committed.get(key) for key in left})
            self._committed |= {key: committed[key].offset for key in left if key in committed}
            return

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        member, reader = self._member, self._reader
        if member is None or reader is None:
            return
        if not is_lost:
            await asyncio.sleep(self._world.random.choice((0.0, 0.1, 1.0)))
            await self._commit(member, reader, [key for key in partitions if key in reader.positions.partitions])
        reader.drop(partitions)
        for key in partitions:
            self._committed.pop(key, None)

    # --- what goes over the wire ---

    def _named(self, rows: Collection[TopicPartitions]) -> list[TopicPartition]:
        return [(self._world.name_of(row.topic_id), partition) for row in rows for partition in row.partitions]

    def sending(self, broker_id: int, request: Request) -> object:
        world, ownership, floors = self._world, self._world.ownership, {}
        match request:
            case ConsumerGroupHeartbeatRequest():
                self._ids.add(request.member_id)
                if request.member_epoch < 0:
                    ownership.ended(self.group, request.member_id)
                    if request.member_epoch == STATIC_LEAVE_EPOCH:
                        world.epochs.leaving_for_a_while(self.group, request.member_id)
                elif request.member_epoch == 0:
                    ownership.joining(self.group, request.member_id)
                    world.epochs.joining(self.group, request.member_id, may_be_new=len(self._protocols) > 1)
                elif request.topic_partitions is not None:
                    ownership.kept(self.group, request.member_id, self._named(request.topic_partitions))
            case JoinGroupRequest():
                for each in self._ids:  # under whatever id it was a member
                    ownership.joining(self.group, each)
            case LeaveGroupRequest():
                for identity in request.members:
                    ownership.ended(self.group, identity.member_id)
            case OffsetCommitRequest():
                for key, offset in _offsets(request):
                    world.progress.committing(self.group, key, offset)
            case OffsetFetchRequest():
                floors = {key: world.progress.floor(self.group, key) for key in world.keys}
        return Then(world.group_term(broker_id, self.group), world.loop.time(), world.progress.forgotten_count, floors)

    def unanswered(self, request: Request) -> None:
        """It is repeated, or in doubt."""

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        expected = EXPECTED.get(type(request))
        if expected is None:
            return
        world = self._world
        is_current = then.term == world.group_term(broker_id, self.group)
        is_current = is_current and world.is_group_coordinator(broker_id, self.group)
        for code in map(ErrorCode.of, error_codes(response)):
            if (
                code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)
                and self._instance_id is not None
            ):
                world.count("instances that were not released")
            elif code is ErrorCode.GROUP_ID_NOT_FOUND and (
                then.forgotten_count or _is_farewell(request) or len(self._protocols) > 1
            ):
                pass  # the group may be one of the other kind by now
            elif code not in expected and code not in world.not_now:
                world.report(f"{self.name}: {request.api_name} was answered {code!r}")
        match request, response:
            case ConsumerGroupHeartbeatRequest(), ConsumerGroupHeartbeatResponse():
                self._on_heartbeat(request, response, then, is_current=is_current)
            case HeartbeatRequest(), HeartbeatResponse(error_code=0) if is_current:
                world.ownership.answered(self.group, request.member_id, then.sent_s)
            case SyncGroupRequest(), SyncGroupResponse(error_code=0):
                self._on_assignment(
                    request.member_id, decode_assignment(response.assignment), then, is_current=is_current
                )
            case OffsetCommitRequest(), OffsetCommitResponse():
                self._on_committed(request, response, then)
            case OffsetFetchRequest(), OffsetFetchResponse() if is_current:
                for key, offset in _fetched(response):
                    world.progress.fetched(self.group, key, then.floors[key], offset, then.forgotten_count)

    def _on_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        then: Then,
        *,
        is_current: bool,
    ) -> None:
        world, member_id, code = self._world, request.member_id, ErrorCode.of(response.error_code)
        keys = tuple(key for key in world.keys if member_id in world.ownership.owners(self.group, key))
        if code in LOST:
            world.count("members fenced")
            if request.member_epoch > 0:
                self._former = Former(member_id, request.member_epoch, keys or tuple(world.keys))
            world.ownership.ended(self.group, member_id)
        if code is ErrorCode.UNKNOWN_MEMBER_ID and is_current and then.forgotten_count == world.epochs.forgotten_count:
            world.epochs.ended(self.group, member_id)
        if code is not ErrorCode.NONE:
            return
        if request.member_epoch < 0:
            if is_current and request.member_epoch == -1:
                world.epochs.ended(self.group, member_id)
            return
        world.count("heartbeats of consumer groups")
        if is_current:
            world.epochs.answered(self.group, member_id, response.member_epoch)
        if response.assignment is not None:
            self._on_assignment(
                member_id, self._named(response.assignment.topic_partitions), then, is_current=is_current
            )
        elif is_current:
            world.ownership.answered(self.group, member_id, then.sent_s)
        self._former = self._former or Former(member_id, response.member_epoch, tuple(world.keys))

    def _on_assignment(self, member_id: str, keys: list[TopicPartition], then: Then, *, is_current: bool) -> None:
        self._ids.add(member_id)
        if is_current and then.forgotten_count == self._world.progress.forgotten_count:
            self._world.ownership.assigned(self.group, member_id, keys, then.sent_s)
        else:
            self._world.ownership.trusted_no_more(self.group, member_id, keys, then.sent_s)

    def _on_committed(self, request: OffsetCommitRequest, response: OffsetCommitResponse, then: Then) -> None:
        codes = {
            (topic.name, row.partition_index): ErrorCode.of(row.error_code)
            for topic in response.topics
            for row in topic.partitions
        }
        for key, offset in _offsets(request):
            code = codes[key]
            if code is ErrorCode.NONE:
                self._world.progress.committed(self.group, key, offset, then.forgotten_count)
            elif code in LATE:
                self._world.progress.refused(self.group, key, offset)


def _offsets(request: OffsetCommitRequest) -> list[tuple[TopicPartition, int]]:
    return [
        ((topic.name, row.partition_index), row.committed_offset)
        for topic in request.topics
        for row in topic.partitions
    ]


def _fetched(response: OffsetFetchResponse) -> list[tuple[TopicPartition, int]]:
    rows = [((topic.name, row.partition_index), row) for topic in response.topics for row in topic.partitions]
    found = [(key, row.committed_offset) for key, row in rows if not row.error_code]
    for group in response.groups:
        if not group.error_code:
            found += [
                ((topic.name, row.partition_index), row.committed_offset)
                for topic in group.topics
                for row in topic.partitions
                if not row.error_code
            ]
    return found


def _is_farewell(request: Request) -> bool:
    return isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < 0
