"""Members of share groups that heartbeat as clients do, on a driven shard, and a share coordinator that keeps states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coordinator.group.share.group import ShareGroup
from coordinator.group.share.membership import ShareHeartbeat
from coordinator.group.share.state_keeping import InitializedShareStates, InitializeShareStates, Place
from protocol.errors import ErrorCode
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.consumer.members import image, topic_id

__all__ = ["ShareMember", "answer_commands", "driver_of", "group_of", "image", "settle", "topic_id"]


@dataclass
class ShareMember:
    driver: GroupDriver
    member_id: str
    topics: list[str]
    group_id: str = "g"
    epoch: int = 0
    assigned: dict[bytes, set[int]] = field(default_factory=dict)
    heartbeats: int = 0

    def join(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        self.epoch, self.assigned = 0, {}
        return self.send(**{"subscribed_topic_names": self.topics, **fields})

    def beat(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        return self.send(**fields)

    def leave(self) -> ShareGroupHeartbeatResponse:
        return self.send(member_epoch=-1)

    def send(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        waiter = self.start(**fields)
        [response] = [response for each, response in self.driver.responses if each == waiter]
        assert isinstance(response, ShareGroupHeartbeatResponse)
        self.take(response)
        return response

    def start(self, **fields: Any) -> str:
        """Send a heartbeat whose response may come later. Returns its waiter."""
        values = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch, **fields}
        self.heartbeats += 1
        waiter = f"{self.member_id} {self.heartbeats}"
        beat = ShareHeartbeat(ShareGroupHeartbeatRequest(**values), "client", "/127.0.0.1", waiter)
        self.driver.do(lambda shard, now_ms: shard.share_heartbeat(beat, now_ms))
        return waiter

    def take(self, response: ShareGroupHeartbeatResponse) -> None:
        if response.error_code:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = {each.topic_id: set(each.partitions) for each in response.assignment.topic_partitions}

    def partitions(self, topic: str) -> set[int]:
        return self.assigned.get(topic_id(topic), set())


def driver_of(**topics: int) -> GroupDriver:
    driver = GroupDriver()
    driver.change_topics(image(**topics))
    return driver


def group_of(driver: GroupDriver, group_id: str = "g") -> ShareGroup:
    return driver.shard._groups.share(group_id)


def answer_commands(driver: GroupDriver, error: ErrorCode = ErrorCode.NONE) -> set[Place]:
    """The share coordinator answers all that it was asked. Returns what that was about."""
    asked: set[Place] = set()
    commands, driver.commands = driver.commands, []
    for command in commands:
        assert isinstance(command, InitializeShareStates)
        places = [(row.topic_id, row.partition) for row in command.rows]
        asked |= set(places)
        outcome = InitializedShareStates(command.group_id, dict.fromkeys(places, error))
        driver.do(lambda shard, now_ms, outcome=outcome: shard.on_share_states_initialized(outcome, now_ms))
    return asked


def settle(driver: GroupDriver, members: list[ShareMember], rounds: int = 4) -> None:
    """Let all members heartbeat, and the share coordinator answer, until nothing is left to do."""
    for _ in range(rounds):
        driver.advance(1_000)
        for member in members:
            member.beat()
        answer_commands(driver)
    driver.responses.clear()
