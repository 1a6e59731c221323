"""A share coordinator with a log in memory, and topics and a clock that a test changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from coordinator.runtime.coordinator_runtime import CoordinatorDependencies
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import Done, ShareCoordinator, ShareCoordinatorSettings
from metadata.image import SHARE_GROUP_STATE_TOPIC, BrokerImage, ClusterImage, PartitionImage, TopicImage
from tests.coordinator.world import START_MS, CoordinatorWorld, MemoryLog

PARTITIONS = 4
ORDERS = bytes([1] * 16)
STATE_TOPIC_ID = bytes([9] * 16)
KEY = ShareKey("g", ORDERS, 0)


def image_of(*leaders: int, orders: int = 2, brokers: tuple[int, ...] = (0,)) -> ClusterImage:
    """`leaders` are those of the partitions of the internal topic, `orders` the number of partitions of a topic."""
    topics = {
        "orders": TopicImage("orders", ORDERS, {index: _partition(0) for index in range(orders)}),
        SHARE_GROUP_STATE_TOPIC: TopicImage(
            SHARE_GROUP_STATE_TOPIC, STATE_TOPIC_ID, {index: _partition(leader) for index, leader in enumerate(leaders)}
        ),
    }
    known = {name: topic for name, topic in topics.items() if topic.partitions}
    return ClusterImage(
        brokers={broker_id: BrokerImage(broker_id, {}) for broker_id in brokers},
        topics=known,
        names_by_id={topic.topic_id: name for name, topic in known.items()},
    )


def _partition(leader: int) -> PartitionImage:
    return PartitionImage(leader, 0, (leader,), (leader,), (), 0, 0)


class ShareWorld(CoordinatorWorld):
    """`deleted`: up to where each partition of the log was deleted."""

    def __init__(
        self, settings: ShareCoordinatorSettings | None = None, log: MemoryLog | None = None, *, broker_id: int = 0
    ) -> None:
        super().__init__(log, PARTITIONS, wall_ahead_ms=START_MS)
        self.broker_id = broker_id
        self.image = image_of(*[broker_id] * PARTITIONS, brokers=(broker_id,))
        self.deleted: dict[int, int] = {}
        dependencies = CoordinatorDependencies(
            clock=self.clock, timer=self.timer, randomness=random.Random(7), tasks=self.tasks, writer=self.log,
            reader=self.log, partitions_count=lambda: self.partitions_count,
        )  # fmt: skip
        self.coordinator = ShareCoordinator(
            settings or ShareCoordinatorSettings(), dependencies, lambda: self.image, self.deleted.__setitem__
        )

    def close(self) -> None:
        self.coordinator.close()

    async def lead(self, leader_epoch: int = 0) -> None:
        self.coordinator.start()
        for partition in range(PARTITIONS):
            self.coordinator.runtime.on_leadership(partition, leader_epoch)
        await self.settle()

    def change(self, image: ClusterImage) -> None:
        self.image = image
        self.coordinator.on_image_changed(image)

    def without_orders(self) -> None:
        self.change(replace(image_of(*[self.broker_id] * PARTITIONS, orders=0), brokers=self.image.brokers))


def outcomes_of(*begin: Callable[[Done], None]) -> list[ShareOutcome]:
    """The outcomes that came at once."""
    outcomes: list[ShareOutcome] = []
    for each in begin:
        each(outcomes.append)
    return outcomes


def ignored(_outcome: ShareOutcome) -> None:
    """For an operation whose outcome does not matter."""
