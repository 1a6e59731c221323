"""Follows the node `/feature`, which controllers write, and publishes its levels and its version, which is their epoch.

Rules: read before the first request is served and with each new session, and again whenever the node changes. There are
no levels and no epoch without the node, while features are disabled in it, or with an inter.broker.protocol.version below
2.7-IV0, which does not know it. While the store does not respond, the last ones stay. A broker that does not support a
finalized level cannot serve the cluster: it ends, as one of Apache Kafka does.
Source: KIP-584; Kafka FinalizedFeatureChangeListener, ZkMetadataCache.updateFeaturesOrThrow.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from metadata.features import NO_EPOCH, NO_LEVELS, FeatureLevels, UnsupportedFeaturesError
from metadata.store import znodes
from metadata.store.port import NoNodeError, SessionEvent, StoreError, WatchEvent
from metadata.store.znodes import FinalizedFeatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from config.inter_broker_version import InterBrokerVersion
    from metadata.features import CurrentLevels
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)


class ClusterFeatures:
    """`start` once. `on_unsupported` gets the reason when a level is finalized later that this release does not support."""

    def __init__(
        self,
        store: Store,
        version: InterBrokerVersion,
        tasks: TaskScope,
        levels: CurrentLevels,
        on_unsupported: Callable[[str], None],
    ) -> None:
        self._store = store
        self._is_read = version.supports_feature_versioning
        self._tasks = tasks
        self._levels = levels
        self._on_unsupported = on_unsupported

    async def start(self) -> None:
        """Raises UnsupportedFeaturesError."""
        if self._is_read:
            self._store.subscribe(self._on_session)
            await self._read()

    async def _read(self) -> None:
        try:
            levels, epoch = await self._finalized()
        except StoreError as error:  # read again with the next session
            logger.warning("feature versions not read: error=%s", type(error).__name__)
            return
        if levels != self._levels.levels:
            logger.info("feature versions changed: levels=%s", levels.above_zero)
        self._levels.publish(levels, epoch)

    async def _finalized(self) -> tuple[FeatureLevels, int]:
        while True:
            try:
                data, stat = await self._store.get(znodes.FEATURE, self._on_watch)
                finalized = FinalizedFeatures.decode(data)
                if finalized.is_enabled:
                    return FeatureLevels.finalized(finalized.levels), stat.version
            except NoNodeError:
                if await self._store.exists(znodes.FEATURE, self._on_watch) is not None:
                    continue
            except ValueError as error:
                logger.warning("feature versions unreadable, treated as disabled: error=%s", error)
            return NO_LEVELS, NO_EPOCH

    async def _read_again(self) -> None:
        try:
            await self._read()
        except UnsupportedFeaturesError as error:
            self._on_unsupported(str(error))

    def _on_watch(self, _event: WatchEvent) -> None:
        self._spawn_read()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            self._spawn_read()

    def _spawn_read(self) -> None:
        if not self._tasks.is_closed:
            self._tasks.spawn(self._read_again(), name="read feature versions")
