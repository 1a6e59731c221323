"""Subscriptions of client metrics: stored as `FollowedConfigs` says, and given to what tells clients of them.

Source: Kafka 4.3 ClientMetricsConfigHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.settings.followed_configs import FollowedConfigs
from broker.telemetry.subscriptions import subscription
from config.errors import ConfigError

if TYPE_CHECKING:
    from broker.telemetry.subscriptions import MetricsSubscription, Subscriptions
    from metadata.store.configs import Edit
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)


class StoredSubscriptions:
    """`start` before clients are served. `subscriptions` are kept as they are stored; `on_changed` is called with whether there
    are any."""

    def __init__(
        self, store: Store, tasks: TaskScope, subscriptions: Subscriptions, on_changed: Callable[[bool], None]
    ) -> None:
        self._subscriptions = subscriptions
        self._on_changed = on_changed
        on_changed(False)
        self._by_name: dict[
            str, MetricsSubscription
        ] = {}  # of what is stored, so that a change compiles its own patterns only
        self._nodes = FollowedConfigs(store, tasks, "client-metrics", self._valid, self._publish)

    @property
    def stored(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of each subscription, by its name."""
        return self._nodes.stored

    async def start(self) -> None:
        await self._nodes.start()

    async def alter(self, name: str, edit: Edit, *, validate_only: bool) -> None:
        """Replace the settings of a subscription by the result of `edit`, whose errors it raises; without any there is none.
        Raises ConfigError, StoreError."""

        def check(given: Mapping[str, str]) -> None:
            subscription(name, given)

        given = await self._nodes.alter(name, edit, check, validate_only=validate_only)
        if not validate_only:
            settings = ",".join(sorted(given)) or "-"
            logger.info("settings changed: subscription=%s settings=%s", name, settings)

    def _publish(self) -> None:
        self._by_name = {name: self._by_name[name] for name in self.stored}
        self._subscriptions.replace(self._by_name)
        self._on_changed(bool(self._by_name))

    def _valid(self, name: str, given: Mapping[str, str]) -> Mapping[str, str]:
        if not given:
            return {}
        try:
            self._by_name[name] = subscription(name, given)
        except ConfigError as error:
            logger.warning("stored setting ignored: subscription=%s error=%s", name, str(error))
            return {}
        return given
