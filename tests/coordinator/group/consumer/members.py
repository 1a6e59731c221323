"""Members of consumer groups that heartbeat as clients do, on a driven shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coordinator.group.consumer.membership import ConsumerHeartbeat
from metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.coordinator.driver import GroupDriver

RACKS = 3


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")


def image(**partitions: int) -> ClusterImage:
    """A cluster with these topics."""
    topics = {
        name: TopicImage(
            name,
            topic_id(name),
            {index: PartitionImage(0, 0, (0,), (index % RACKS,), (), 0, 0) for index in range(count)},
        )
        for name, count in partitions.items()
    }
    brokers = {index: BrokerImage(index, {}, f"rack{index}") for index in range(RACKS)}
    return ClusterImage(
        brokers=brokers, topics=topics, names_by_id={each.topic_id: name for name, each in topics.items()}
    )


@dataclass
class GroupMember:
    """`owned` is what the member believes to own; it gives up at once what its assignment does not have."""

    driver: GroupDriver
    member_id: str
    topics: list[str] | None = None
    regex: str | None = None
    group_id: str = "g"
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = 60_000
    epoch: int = 0
    owned: dict[bytes, set[int]] = field(default_factory=dict)
    heartbeats: int = 0

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned = 0, {}
        everything: dict[str, Any] = {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }
        return self.send(**{**everything, **fields})

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Report what the member owns."""
        return self.send(**{"topic_partitions": self._rows(), **fields})

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.send(member_epoch=epoch)

    def send(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        waiter = self.start(**fields)
        [response] = [response for each, response in self.driver.responses if each == waiter]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self.take(response)
        return response

    def start(self, **fields: Any) -> str:
        """Send a heartbeat whose response may come later. Returns its waiter."""
        values = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            **fields,
        }
        self.heartbeats += 1
        waiter = f"{self.member_id} {self.heartbeats}"
        beat = ConsumerHeartbeat(
            ConsumerGroupHeartbeatRequest(**values), 1, "client", "/127.0.0.1", f"{self.member_id}-new", waiter
        )
        self.driver.do(lambda shard, now_ms: shard.consumer_heartbeat(beat, now_ms))
        return waiter

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {each.topic_id: set(each.partitions) for each in response.assignment.topic_partitions}

    def _rows(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=each, partitions=sorted(self.owned[each])) for each in sorted(self.owned)]

    def partitions(self, topic: str) -> set[int]:
        return self.owned.get(topic_id(topic), set())


def settle(driver: GroupDriver, members: list[GroupMember], rounds: int = 6) -> None:
    """Let all members heartbeat until nothing is left to do."""
    for _ in range(rounds):
        driver.advance(1_000)
        for member in members:
            member.beat()
    driver.responses.clear()
