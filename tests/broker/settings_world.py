"""Brokers' dynamic settings over one simulated ensemble."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

from broker.network.request_context import RequestContext
from broker.observability.audit import AuditLog
from broker.settings.dynamic_settings import DynamicSettings
from broker.settings.stored_passwords import StoredPasswords
from config.broker import BrokerSettings
from metadata.features import CurrentLevels
from metadata.image import ClusterImage, MetadataCache, PartitionImage, TopicImage
from metadata.store.port import Store
from metadata.store.registration import ensure_persistent_paths
from protocol.primitives import ZERO_UUID
from runtime.clock import Clock, SystemClock
from runtime.slices import SerialQueue
from runtime.tasks import TaskScope
from security.authorizer import EverybodyAllowed
from tests.broker.contexts import context_of
from tests.simulation.store import SimulatedEnsemble

PARTITION = PartitionImage(0, 0, (0,), (0,), (), 0, 1)


class SettingsWorld:
    """`async with SettingsWorld(...) as world`: broker 0 is started, others join with `broker`."""

    def __init__(
        self,
        given: dict[str, str] | None = None,
        topics: tuple[str, ...] = ("t", "u"),
        clock: Clock | None = None,
    ) -> None:
        self.static = BrokerSettings.from_sources({}, {}, given or {})
        self.clock = clock or SystemClock()
        self.ensemble = SimulatedEnsemble(self.clock)
        self.metadata = MetadataCache("cluster")
        images = {name: TopicImage(name, ZERO_UUID, {0: PARTITION}) for name in topics}
        self.metadata.publish(ClusterImage(cluster_id="cluster", topics=images))
        self.tasks = TaskScope("test")

    async def __aenter__(self) -> SettingsWorld:
        self.store: Store = self.ensemble.connect()
        await ensure_persistent_paths(self.store)
        self.settings = await self.broker(0, self.store)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.tasks.close()
        await self.store.close()

    async def broker(self, broker_id: int, store: Store | None = None) -> DynamicSettings:
        passwords = StoredPasswords.of(self.static, random.Random(5))
        store = store or self.ensemble.connect()
        settings = DynamicSettings(self.static, broker_id, store, self.tasks, self.clock, passwords)
        await settings.start()
        return settings

    def context(self, version: int) -> RequestContext:
        services = SimpleNamespace(
            authorizer=EverybodyAllowed(),
            audit=AuditLog(),
            broker_id=0,
            clock=self.clock,
            serial_queue=SerialQueue(self.clock, asyncio.get_running_loop().call_soon),
            dynamic_settings=self.settings,
            features=CurrentLevels(),
            metadata=self.metadata,
        )
        return context_of(services, version)
