"""Settings of single groups: stored as `FollowedConfigs` says, and given to the coordinator of groups.

Invariant: the broker's own settings of groups are the current ones.
Source: Kafka 4.3 GroupConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.settings.followed_configs import FollowedConfigs
from config.errors import ConfigError
from config.group import OwnGroupSettings, check_group_settings
from config.share_group import share_group_config
from coordinator.group.assigned.settings import GroupConfigs, GroupOverrides

if TYPE_CHECKING:
    from broker.settings.dynamic_settings import DynamicSettings
    from config.broker import BrokerSettings
    from coordinator.group.assigned.settings import ConsumerSettings, ShareSettings
    from metadata.store.configs import Edit
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)


class StoredGroupConfigs:
    """`start` before a group is loaded. `current` is what the coordinator reads."""

    def __init__(
        self,
        store: Store,
        dynamic: DynamicSettings,
        tasks: TaskScope,
        consumer_settings: Callable[[BrokerSettings], ConsumerSettings],
        share_settings: Callable[[BrokerSettings], ShareSettings],
    ) -> None:
        """`consumer_settings` and `share_settings` return the broker's own settings of such groups; they raise ConfigError."""
        self._dynamic = dynamic
        self._nodes = FollowedConfigs(store, tasks, "groups", _valid, self._publish)
        self._consumer_settings = consumer_settings
        self._share_settings = share_settings
        self.current = GroupConfigs(consumer_settings(dynamic.settings), share_settings(dynamic.settings))

    @property
    def stored(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of each group that has some of its own, by group id."""
        return self._nodes.stored

    async def start(self) -> None:
        self._dynamic.check_broker_changes(self._check)
        self._dynamic.on_broker_changed(self._on_broker)
        await self._nodes.start()

    async def alter(self, group_id: str, edit: Edit, *, validate_only: bool) -> None:
        """Replace the settings of a group by the result of `edit`, whose errors it raises. Raises ConfigError, StoreError."""
        given = await self._nodes.alter(
            group_id,
            edit,
            lambda given: check_group_settings(given, self._dynamic.settings),
            validate_only=validate_only,
        )
        if not validate_only:
            logger.info("settings changed: group=%s settings=%s", group_id, ",".join(sorted(given)) or "-")

    def _publish(self) -> None:
        rows = {group_id: OwnGroupSettings(given) for group_id, given in self.stored.items()}
        broker = self._dynamic.settings
        shares = {group_id: share_group_config(broker, own) for group_id, own in rows.items()}
        self.current.replace(
            {
                group_id: GroupOverrides(
                    own.consumer_session_timeout_ms if "consumer.session.timeout.ms" in own.given else None,
                    own.consumer_heartbeat_interval_ms if "consumer.heartbeat.interval.ms" in own.given else None,
                    own.consumer_assignment_interval_ms if "consumer.assignment.interval.ms" in own.given else None,
                )
                for group_id, own in rows.items()
            },
            shares,
        )

    def _check(self, settings: BrokerSettings) -> None:
        """Raises ConfigError for broker settings that contradict each other."""
        self._consumer_settings(settings)
        self._share_settings(settings)

    def _on_broker(self, settings: BrokerSettings) -> None:
        try:
            self.current.settings, self.current.share = (
                self._consumer_settings(settings),
                self._share_settings(settings),
            )
        except ConfigError as error:  # another release has stored it: what was valid stays
            logger.warning("stored setting ignored: error=%s", error)
        self._publish()


def _valid(group_id: str, given: Mapping[str, str]) -> dict[str, str]:
    valid = {}
    for name, text in given.items():
        row = OwnGroupSettings.definitions.get(name)
        if row is None:
            continue  # of a kind of group that this release does not serve
        try:
            row.parse(text)
        except ConfigError as error:
            logger.warning("stored setting ignored: group=%s setting=%s error=%s", group_id, name, str(error))
        else:
            valid[name] = text
    return valid
