"""The member on an event loop: what its listener is told, in which order, and what is committed."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from client.committing import OffsetAndMetadata
from client.errors import FatalError
from client.event_loop.group_member import GroupMember
from client.membership.contract import MemberSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.leave_group import LeaveGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.schema import Request
from protocol.topic_partition import TopicPartition

SETTINGS = MemberSettings(heartbeat_interval_ms=10)


class Cluster:
    """A group of one member, and the numbers of partitions."""

    def __init__(self) -> None:
        self.view = SimpleNamespace(topics={"t": SimpleNamespace(partitions=[0])})
        self.sent: list[str] = []
        self.commit_codes: list[ErrorCode] = []
        self.heartbeat_code = ErrorCode.NONE
        self._generation = 0

    def watch_topics(self, topics: object) -> None:
        """They are known."""

    async def refresh(self) -> None:
        """They are known."""

    def forget_coordinator(self, *_: object) -> None:
        self.sent.append("forgotten")

    async def send_to_coordinator(
        self, kind: object, key: str, request: Request, response_type: type[Any], **_: object
    ) -> Any:
        self.sent.append(request.api_name)
        match request:
            case JoinGroupRequest():
                self._generation += 1
                members = [JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)]
                return JoinGroupResponse(
                    error_code=0, generation_id=self._generation, protocol_name="range", leader="m", member_id="m",
                    members=members,
                )  # fmt: skip
            case SyncGroupRequest():
                return SyncGroupResponse(error_code=0, assignment=request.assignments[0].assignment)
        if response_type is OffsetCommitResponse:
            code = self.commit_codes.pop(0) if self.commit_codes else ErrorCode.NONE
            row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])
        if response_type is LeaveGroupResponse:
            return LeaveGroupResponse(error_code=0)
        return HeartbeatResponse(error_code=self.heartbeat_code)


class Listener:
    def __init__(self) -> None:
        self.told: asyncio.Queue[tuple[str, list[TopicPartition]]] = asyncio.Queue()
        self.fails = False

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.put_nowait(("assigned", partitions))
        if self.fails:
            raise ValueError("as the test wants it")

    async def revoked(self, partitions: list[TopicPartition], *, is_lost: bool) -> None:
        self.told.put_nowait(("lost" if is_lost else "revoked", partitions))


def member_of(cluster: Cluster, listener: Listener) -> GroupMember:
    return GroupMember(cluster, "g", ["t"], listener, Random(1), SETTINGS)  # type: ignore[arg-type]


async def poll_on(member: GroupMember) -> None:
    while True:
        member.polled()
        await asyncio.sleep(0)


async def test_new_partitions_have_the_leader_rebalance_and_a_lost_generation_is_told() -> None:
    cluster, listener = Cluster(), Listener()
    member = member_of(cluster, listener)
    assert await listener.told.get() == ("assigned", [("t", 0)])
    cluster.view.topics["t"].partitions.append(1)
    assert await listener.told.get() == ("revoked", [("t", 0)])
    assert await listener.told.get() == ("assigned", [("t", 0), ("t", 1)])
    cluster.heartbeat_code = ErrorCode.UNKNOWN_MEMBER_ID
    assert await listener.told.get() == ("lost", [("t", 0), ("t", 1)])
    await member.close()


async def test_commits_are_repeated_refused_and_not_made_for_what_is_not_assigned() -> None:
    cluster, listener = Cluster(), Listener()
    member = member_of(cluster, listener)
    await listener.told.get()
    cluster.commit_codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    await member.commit({("t", 0): OffsetAndMetadata(1)})
    assert cluster.sent.count("OffsetCommit") == 2 and "forgotten" in cluster.sent
    with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
        await member.commit({("t", 1): OffsetAndMetadata(1)})
    cluster.commit_codes = [ErrorCode.ILLEGAL_GENERATION]
    with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
        await member.commit({("t", 0): OffsetAndMetadata(1)})
    assert await listener.told.get() == ("lost", [("t", 0)])
    await member.close()


async def test_a_listener_that_fails_ends_the_member_and_a_member_that_is_closed_leaves() -> None:
    cluster, listener = Cluster(), Listener()
    member = member_of(cluster, listener)
    await listener.told.get()
    await member.close()
    assert cluster.sent[-1] == "LeaveGroup"
    listener.fails = True
    member = member_of(cluster, listener)
    await listener.told.get()
    with pytest.raises(FatalError, match="as the test wants it"):
        await poll_on(member)
    await member.close()
