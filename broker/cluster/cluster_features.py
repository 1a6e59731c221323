"""The epoch of the cluster's finalized features (KIP-584): the version of the node `/feature`, which controllers write.

Rules: read at the start and with each new session, and again whenever the node changes. There is no epoch without the node,
while features are disabled in it, or with an inter.broker.protocol.version below 2.7-IV0, which does not know it. While the
store does not respond, the last one stays.
Source: Kafka FinalizedFeatureChangeListener, ZkMetadataCache.updateFeaturesOrThrow.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.port import NoNodeError, SessionEvent, StoreError, WatchEvent
from metadata.store.znodes import FinalizedFeatures

if TYPE_CHECKING:
    from config.inter_broker_version import InterBrokerVersion
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class ClusterFeatures:
    """`start` once, when the cluster has a controller."""

    def __init__(self, store: Store, version: InterBrokerVersion, tasks: TaskScope) -> None:
        self._store = store
        self._is_read = version.supports_feature_versioning
        self._tasks = tasks
        self.epoch = NO_EPOCH
        """As ApiVersions responds it."""

    async def start(self) -> None:
        if self._is_read:
            self._store.subscribe(self._on_session)
            await self._read()

    async def _read(self) -> None:
        try:
            self.epoch = await self._epoch()
        except StoreError as error:  # read again with the next session
            logger.warning("feature versions not read: error=%s", type(error).__name__)

    async def _epoch(self) -> int:
        while True:
            try:
                data, stat = await self._store.get(znodes.FEATURE, self._on_watch)
                return stat.version if FinalizedFeatures.decode(data).is_enabled else NO_EPOCH
            except NoNodeError:
                if await self._store.exists(znodes.FEATURE, self._on_watch) is None:
                    return NO_EPOCH
            except ValueError as error:
                logger.warning("feature versions unreadable, treated as disabled: error=%s", error)
                return NO_EPOCH

    def _on_watch(self, _event: WatchEvent) -> None:
        self._spawn_read()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            self._spawn_read()

    def _spawn_read(self) -> None:
        if not self._tasks.is_closed:
            self._tasks.spawn(self._read(), name="read feature versions")
