"""A broker's services as far as group handlers use them: a coordinator, a cluster image, a tree store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace

from broker.network.listening.advertised_addresses import AdvertisedAddresses
from broker.network.request_context import RequestContext
from broker.observability.audit import AuditLog
from coordinator.group_coordinator import GroupCoordinatorSettings
from metadata.features import CurrentLevels
from metadata.image import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerEndpoint,
    BrokerImage,
    ClusterImage,
    MetadataCache,
    PartitionImage,
    TopicImage,
)
from metadata.store.port import Store
from protocol.primitives import ZERO_UUID
from runtime.slices import SerialQueue
from security.authorizer import EverybodyAllowed
from tests.broker.contexts import context_of
from tests.coordinator.transaction.coordinator_world import TransactionWorld
from tests.coordinator.world import World
from tests.simulation.store import SimulatedEnsemble, SimulatedStore

BROKER_ID = 1
LISTENER = "PLAINTEXT"


@dataclass
class Topics:
    """Records which internal topics were wanted."""

    wanted: list[str] = field(default_factory=list)

    def ensure(self, topic: str) -> None:
        self.wanted.append(topic)


class GroupBroker:
    """Use as an async context manager. Topic `orders` has two partitions; the coordinator leads all of its own."""

    def __init__(self, *, limit: int = 4096, groups: GroupCoordinatorSettings | None = None) -> None:
        self.world = World(groups)
        self.topics = Topics()
        self.transactions = TransactionWorld(self.world.clock, self.world.timer, self.world.tasks)
        self.metadata = MetadataCache()
        self.ensemble = SimulatedEnsemble(self.world.clock)
        self.store: Store = SimulatedStore(self.ensemble)
        self.settings = SimpleNamespace(offset_metadata_max_bytes=limit)
        self.publish(
            {
                "orders": [BROKER_ID, BROKER_ID],
                GROUP_METADATA_TOPIC: [BROKER_ID] * 4,
                TRANSACTION_STATE_TOPIC: [BROKER_ID] * 4,
            }
        )

    async def __aenter__(self) -> GroupBroker:
        await self.world.__aenter__()
        await self.world.lead()
        await self.transactions.lead()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.world.__aexit__()

    def publish(self, leaders: dict[str, list[int]]) -> None:
        topics = {
            name: TopicImage(name, ZERO_UUID, {index: _partition(leader) for index, leader in enumerate(of_topic)})
            for name, of_topic in leaders.items()
        }
        broker = BrokerImage(BROKER_ID, {LISTENER: BrokerEndpoint("broker.example", 9092)})
        self.metadata.publish(ClusterImage(brokers=MappingProxyType({BROKER_ID: broker}), topics=topics))

    def context(self, api_version: int, *, client_id: str | None = "me", host: str = "127.0.0.1") -> RequestContext:
        services = SimpleNamespace(
            authorizer=EverybodyAllowed(),
            audit=AuditLog(),
            broker_id=BROKER_ID,
            clock=self.world.clock,
            serial_queue=SerialQueue(self.world.clock, asyncio.get_running_loop().call_soon),
            groups=self.world.groups,
            transactions=self.transactions.coordinator,
            metadata=self.metadata,
            store=self.store,
            settings=self.settings,
            internal_topics=self.topics,
            features=CurrentLevels(),
            serves_consumer_groups=lambda: False,
            serves_share_groups=lambda: False,
            advertised=AdvertisedAddresses(BROKER_ID, []),
        )
        return context_of(services, api_version, client_id=client_id, host=host, listener=LISTENER)


def _partition(leader: int) -> PartitionImage:
    return PartitionImage(
        leader=leader,
        leader_epoch=0,
        isr=(leader,),
        replicas=(leader,),
        offline_replicas=(),
        partition_epoch=0,
        controller_epoch=1,
    )
