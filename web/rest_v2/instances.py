"""All consumer instances of this process.

Rules: an instance belongs to the user who made it: for anybody else it is not there. Bounded: at most so many. One that nobody
has used for a while is closed, so that its group gives its partitions to others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from runtime.tasks import TaskScope
from web.errors import HttpProblem
from web.rest_v2.consumed import consumed
from web.rest_v2.errors import INSTANCE_EXISTS, INSTANCE_NOT_FOUND, NO_ROOM
from web.rest_v2.instance import ConsumerInstance

if TYPE_CHECKING:
    from client.reading.positions import ReadRecord
    from config.web import WebSettings
    from web.cluster.user_cluster import UserCluster
    from web.rest_v2.instance_settings import InstanceSettings
    from web.schemas.registry import SchemaRegistry
    from web.surroundings import Surroundings

LOOK_S: Final = 1.0
"""How often it is looked for instances that nobody uses."""
CLOSE_S: Final = 3.0
"""How long the end of this process waits for groups to be left."""
logger = logging.getLogger(__name__)

_Key = tuple[str, str, str]
"""The user, the group, the name."""


class ConsumerInstances:
    def __init__(self, settings: WebSettings, surroundings: Surroundings, schemas: SchemaRegistry | None) -> None:
        self._limit = settings.barnabas_web_consumer_instances_max
        self._idle_ms = settings.barnabas_web_consumer_instance_timeout_ms
        self._surroundings = surroundings
        self._schemas = schemas
        self._instances: dict[_Key, ConsumerInstance] = {}
        self._tasks = TaskScope("consumer instances")
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._instances)

    async def close(self) -> None:
        await self._tasks.close()
        await self._close(list(self._instances))

    def create(self, cluster: UserCluster, settings: InstanceSettings) -> ConsumerInstance:
        """Raises HttpProblem for one that there is already, and when there are too many."""
        key = (cluster.name, settings.group, settings.name)
        if key in self._instances:
            text = "Consumer with specified consumer ID already exists in the specified consumer group."
            raise HttpProblem(409, text, number=INSTANCE_EXISTS)
        if len(self._instances) >= self._limit:
            text = f"{self._limit} consumer instances exist, which is the limit (barnabas.web.consumer.instances.max)"
            raise HttpProblem(503, text, number=NO_ROOM)

        async def render(record: ReadRecord) -> bytes:
            return await consumed(record, settings.form, self._schemas)

        surroundings = self._surroundings
        instance = ConsumerInstance(settings, cluster, surroundings.clock, surroundings.randomness, render)
        self._instances[key] = instance
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.spawn(self._look(), name="idle ones")
        return instance

    def find(self, cluster: UserCluster, group: str, name: str) -> ConsumerInstance:
        """Return the user's instance, which counts as used. Raises HttpProblem."""
        found = self._instances.get((cluster.name, group, name))
        if found is None:
            raise HttpProblem(404, "Consumer instance not found.", number=INSTANCE_NOT_FOUND)
        found.used_ms = self._surroundings.clock.monotonic_ms()
        return found

    async def delete(self, cluster: UserCluster, group: str, name: str) -> None:
        """Raises HttpProblem."""
        self.find(cluster, group, name)
        await self._instances.pop((cluster.name, group, name)).close()

    async def close_idle(self) -> None:
        """Close what nobody has used for too long."""
        before_ms = self._surroundings.clock.monotonic_ms() - self._idle_ms
        idle = [key for key, each in self._instances.items() if not each.is_busy and each.used_ms <= before_ms]
        for _, group, _ in idle:
            logger.info("a consumer was not used any more: group=%s", group)
        await self._close(idle)

    async def _close(self, keys: Collection[_Key]) -> None:
        closing = [self._instances.pop(key) for key in keys]
        ends = await asyncio.gather(
            *(asyncio.wait_for(each.close(), CLOSE_S) for each in closing), return_exceptions=True
        )
        for each, end in zip(closing, ends, strict=True):
            if isinstance(end, Exception):
                logger.warning("a consumer did not leave its group: group=%s error=%s", each.settings.group, end)

    async def _look(self) -> None:
        while self._instances:
            await asyncio.sleep(LOOK_S)
            await self.close_idle()
