"""Members of the classic protocol as clients that are driven: they join, synchronise, and rejoin when they are told to."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from client.membership.assignors import assign_ranges, decode_assignment, decode_subscription, encode_assignment
from coordinator.group.classic.member_join import Join
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription, SubscriptionTopicPartition
from tests.coordinator.driver import GroupDriver


@dataclass
class ClassicClient:
    """`owned` are the (topic, partition) that it reads: all that its last assignment has."""

    driver: GroupDriver
    name: str
    topics: list[str]
    group_id: str = "g"
    instance_id: str | None = None
    protocol_type: str = "consumer"
    member_id: str = ""
    generation_id: int = -1
    owned: set[tuple[str, int]] = field(default_factory=set)
    requests: int = 0

    def join(self, metadata: bytes | None = None) -> str:
        """Send JoinGroup. Returns its waiter: the response may come later."""
        self.requests += 1
        waiter = f"{self.name} {self.requests}"
        rows: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            rows.setdefault(topic, []).append(partition)
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[SubscriptionTopicPartition(topic=topic, partitions=each) for topic, each in rows.items()],
        ).encode_stored(1)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata or subscription)],
        )
        join = Join(request, 9, self.name, "/127.0.0.1", str(uuid.uuid5(uuid.NAMESPACE_OID, waiter)), waiter)
        self.driver.do(lambda shard, now_ms: shard.join(join, now_ms))
        answer = self.answer(waiter)
        if isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self.join(metadata)
        return waiter

    def answer(self, waiter: str) -> JoinGroupResponse | SyncGroupResponse | None:
        found = [response for each, response in self.driver.responses if each == waiter]
        assert len(found) < 2
        return found[0] if found else None

    def joined(self, waiter: str) -> ErrorCode:
        """Take the response to a JoinGroup, and send SyncGroup, as the leader with an assignment."""
        answer = self.answer(waiter)
        assert isinstance(answer, JoinGroupResponse)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        shares = {}
        if answer.leader == answer.member_id:
            members = [
                decode_subscription(each.member_id, each.group_instance_id, each.metadata) for each in answer.members
            ]
            counts = {name: len(topic.partitions) for name, topic in self.driver.topics.names().items()}
            shares = assign_ranges(members, counts)
        rows = [
            SyncGroupRequestAssignment(member_id=each, assignment=encode_assignment(shares[each])) for each in shares
        ]
        return self.synced(self.sync(rows))

    def sync(self, rows: list[SyncGroupRequestAssignment] | None = None) -> str:
        self.requests += 1
        waiter = f"{self.name} {self.requests}"
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=rows or [],
        )
        self.driver.do(lambda shard, now_ms: shard.sync(request, waiter, now_ms))
        return waiter

    def synced(self, waiter: str) -> ErrorCode:
        answer = self.answer(waiter)
        if answer is None:
            return ErrorCode.NONE  # the leader has not sent its assignment yet
        assert isinstance(answer, SyncGroupResponse)
        if not answer.error_code:
            self.owned = set(decode_assignment(answer.assignment))
        return ErrorCode(answer.error_code)

    def rejoin(self) -> ErrorCode:
        return self.joined(self.join())

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        errors: list[ErrorCode] = []

        def beat(shard: object, now_ms: int) -> list[object]:
            error, effects = self.driver.shard.heartbeat(request, now_ms)
            errors.append(error)
            return effects

        self.driver.do(beat)
        return errors[0]

    def beat(self) -> ErrorCode:
        """A heartbeat, and all that follows from its response, in a consumer group."""
        error = self.heartbeat()
        return self.rejoin() if error is ErrorCode.REBALANCE_IN_PROGRESS else error

    def leave(self) -> list[ErrorCode]:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answers: list[list[ErrorCode]] = []

        def leave(shard: object, now_ms: int) -> list[object]:
            response, effects = self.driver.shard.leave(self.group_id, [identity], now_ms)
            answers.append([ErrorCode(each.error_code) for each in response.members])
            return effects

        self.driver.do(leave)
        return answers[0]


def stable(driver: GroupDriver, *clients: ClassicClient) -> None:
    """Let the clients form a stable classic group."""
    waiters = [client.join() for client in clients]
    driver.advance(3_000 * (1 + len(clients)))
    for client, waiter in zip(clients, waiters, strict=True):
        assert client.joined(waiter) is ErrorCode.NONE
    for client in clients:
        if not client.owned:
            client.synced(client.sync())


def rebalanced(driver: GroupDriver, *clients: ClassicClient) -> None:
    """Let the clients of a classic group that rebalances join again."""
    waiters = [client.join() for client in clients]
    for client, waiter in zip(clients, waiters, strict=True):
        assert client.joined(waiter) is ErrorCode.NONE
    for client in clients:
        client.synced(client.sync())
