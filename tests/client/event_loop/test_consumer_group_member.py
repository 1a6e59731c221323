"""The member of a consumer group on an event loop: names of topics, revocation, commits and committed offsets."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from client.committing import OffsetAndMetadata
from client.errors import FatalError
from client.event_loop.group_member import GroupMember
from client.membership.contract import GroupProtocol, MemberSettings, TopicPattern
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.schema import Request
from tests.client.event_loop.test_group_member import Listener

SETTINGS = MemberSettings(GroupProtocol.CONSUMER)
T = b"t" * 16


class Cluster:
    """A coordinator that gives its one member what the test says, and a topic that brokers know at the second question."""

    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.epoch = 1
        self.given = [0]
        self.heartbeat_codes: list[ErrorCode] = []
        self.commit_codes: list[ErrorCode] = []
        self.fetch_codes: list[ErrorCode] = []
        self._questions_count = 0

    def forget_coordinator(self, *_: object) -> None:
        """It stays the same."""

    async def send_to_any(self, request: MetadataRequest, response_type: type) -> MetadataResponse:
        self._questions_count += 1
        assert request.topics is not None and [each.topic_id for each in request.topics] == [T]
        code = ErrorCode.NONE if self._questions_count > 1 else ErrorCode.UNKNOWN_TOPIC_ID
        return MetadataResponse(topics=[MetadataResponseTopic(
            error_code=code, topic_id=T, name=None if code else "t", partitions=[]
        )], brokers=[])  # fmt: skip

    async def send_to_coordinator(self, kind: object, key: str, request: Request, *_: object, **__: object) -> Any:
        self.sent.append(request)
        match request:
            case ConsumerGroupHeartbeatRequest():
                code = self.heartbeat_codes.pop(0) if self.heartbeat_codes else ErrorCode.NONE
                rows = [TopicPartitions(topic_id=T, partitions=self.given)] if self.given else []
                return ConsumerGroupHeartbeatResponse(
                    throttle_time_ms=0, error_code=code, member_id=request.member_id, member_epoch=self.epoch,
                    heartbeat_interval_ms=5,
                    assignment=Assignment(topic_partitions=rows),
                )  # fmt: skip
            case OffsetCommitRequest():
                code = self.commit_codes.pop(0) if self.commit_codes else ErrorCode.NONE
                row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
                return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])
            case OffsetFetchRequest():
                code = self.fetch_codes.pop(0) if self.fetch_codes else ErrorCode.NONE
                found = OffsetFetchResponsePartitions(
                    partition_index=0, committed_offset=7, metadata="", error_code=ErrorCode.NONE
                )
                topics = [OffsetFetchResponseTopics(name="t", partitions=[found])]
                return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(
                    group_id="g", topics=topics, error_code=code
                )])  # fmt: skip
        raise AssertionError(request)

    def sent_of(self, kind: type) -> list[Any]:
        return [each for each in self.sent if isinstance(each, kind)]


def member_of(cluster: Cluster, listener: Listener, topics: Any = ("t",)) -> GroupMember:
    return GroupMember(cluster, "g", topics, listener, Random(1), SETTINGS)  # type: ignore[arg-type]


async def test_partitions_are_given_revoked_and_lost_and_who_is_closed_leaves() -> None:
    cluster, listener = Cluster(), Listener()
    member = member_of(cluster, listener)
    assert await listener.told.get() == ("assigned", [("t", 0)])
    cluster.given = [0, 1]
    assert await listener.told.get() == ("assigned", [("t", 1)])
    cluster.given = [1]
    assert await listener.told.get() == ("revoked", [("t", 0)])
    cluster.heartbeat_codes = [ErrorCode.FENCED_MEMBER_EPOCH]
    assert await listener.told.get() == ("lost", [("t", 1)])
    assert await listener.told.get() == ("assigned", [("t", 1)])  # joined again
    await member.close()
    heartbeats = cluster.sent_of(ConsumerGroupHeartbeatRequest)
    assert heartbeats[-1].member_epoch == -1 and len(heartbeats[0].member_id) == 22
    assert len({each.member_id for each in heartbeats}) == 1


async def test_commits_and_fetches_have_the_epoch_and_are_repeated_with_the_next_one() -> None:
    cluster, listener = Cluster(), Listener()
    member = member_of(cluster, listener)
    await listener.told.get()
    cluster.epoch, cluster.commit_codes = 2, [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE]
    await member.commit({("t", 0): OffsetAndMetadata(1)})
    epochs = [each.generation_id_or_member_epoch for each in cluster.sent_of(OffsetCommitRequest)]
    assert epochs[-1] == 2 and len(epochs) == 2
    cluster.commit_codes = [ErrorCode.UNKNOWN_MEMBER_ID]
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        await member.commit({("t", 0): OffsetAndMetadata(1)})
    with pytest.raises(KafkaError, match="STALE_MEMBER_EPOCH"):
        await member.commit({("t", 1): OffsetAndMetadata(1)})
    cluster.fetch_codes = [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE]
    assert await member.committed([("t", 0)]) == {("t", 0): OffsetAndMetadata(7)}
    [group] = cluster.sent_of(OffsetFetchRequest)[-1].groups
    assert (group.member_id, group.member_epoch) == (member.membership.member_id, 2)
    await member.close()


async def test_a_topic_that_may_not_be_read_is_told_and_a_fatal_answer_ends_the_member() -> None:
    cluster, listener = Cluster(), Listener()
    cluster.heartbeat_codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    member = member_of(cluster, listener, TopicPattern("t.*"))
    await listener.told.get()
    assert cluster.sent[0].subscribed_topic_regex == "t.*"  # type: ignore[attr-defined]
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        member.polled()
    member.polled()
    cluster.heartbeat_codes = [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert await listener.told.get() == ("lost", [("t", 0)])
    with pytest.raises(FatalError):
        member.polled()
    await member.close()


async def test_members_of_a_classic_group_name_their_topics() -> None:
    with pytest.raises(ValueError, match="name their topics"):
        GroupMember(Cluster(), "g", TopicPattern("t"), Listener(), Random(1))  # type: ignore[arg-type]
