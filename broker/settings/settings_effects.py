"""Applies changed settings to the components that keep them: logs, partitions, fetchers, quotas, expiry of
records, the controller.

Rules: `follow` is called when every component is made; it applies the current settings and subscribes to changes. Components
that read the settings at each use need nothing here.
Source: Kafka TopicConfigHandler, BrokerConfigHandler, DynamicBrokerConfig's reconfigurables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.composition import accept_limits
from replication.followers.leader_endpoint import FetchSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.network.connections.acceptor import Acceptor
    from broker.services import Services
    from broker.settings.replication_quotas import ReplicationQuotas
    from config.broker import BrokerSettings
    from config.topic import LogConfig
    from replication.followers.fetchers import Fetchers
    from replication.message_expiry import MessageExpiry


class SettingsEffects:
    """Subscribes to changes of settings. `fetchers` is None for a standalone broker."""

    def __init__(
        self,
        services: Services,
        acceptor: Acceptor,
        quotas: ReplicationQuotas,
        fetchers: Fetchers | None,
        message_expiry: MessageExpiry,
    ) -> None:
        self._services = services
        self._acceptor = acceptor
        self._quotas = quotas
        self._fetchers = fetchers
        self._message_expiry = message_expiry
        self._is_unclean_allowed = services.dynamic_settings.settings.unclean_leader_election_enable

    def follow(self) -> None:
        """Apply the current settings, and subscribe to changes."""
        dynamic = self._services.dynamic_settings
        self._apply_limits(dynamic.settings)
        for topic in dynamic.configured_topics:
            self._quotas.on_topic_settings(topic, dynamic.log_config(topic))
        for path, settings in dynamic.entities.items():
            self._apply_entity(path, settings)
        dynamic.on_entity_changed(self._apply_entity)
        dynamic.on_topic_changed(self._on_topic)
        dynamic.on_broker_changed(self._on_broker)

    def _apply_entity(self, path: str, settings: Mapping[str, str]) -> None:
        self._services.quotas.apply_entity(path, settings)
        self._acceptor.apply_entity(path, settings)

    def _on_topic(self, topic: str, config: LogConfig) -> None:
        self._quotas.on_topic_settings(topic, config)
        self._apply_to_logs(topic)
        if config.unclean_leader_election_enable:
            self._services.controller.on_unclean_election_enabled(topic)

    def _apply_to_logs(self, topic: str | None = None) -> None:
        """Apply the settings of one topic, or of all (None) in one pass over the partitions."""
        self._services.logs.update_configs(topic)
        for partition in self._services.partitions:
            if topic is None or partition.topic == topic:
                partition.on_config_changed()
                self._message_expiry.on_config_changed(partition)

    def _on_broker(self, settings: BrokerSettings) -> None:
        """Apply changed broker settings: limits, fetchers, and the defaults of every topic."""
        services = self._services
        self._apply_limits(settings)
        if self._fetchers is not None:
            changed = FetchSettings.of(settings, services.broker_id)
            services.tasks.spawn(self._fetchers.change_settings(changed), name="change fetchers")
        self._apply_to_logs()
        was_allowed, self._is_unclean_allowed = self._is_unclean_allowed, settings.unclean_leader_election_enable
        if self._is_unclean_allowed and not was_allowed:
            services.controller.on_unclean_election_enabled()

    def _apply_limits(self, settings: BrokerSettings) -> None:
        """Apply limits to components that were made with the static settings. Fetchers were made with the current ones."""
        self._acceptor.limits = accept_limits(settings)
        self._quotas.on_broker_settings(self._services.dynamic_settings.layers)
        self._services.logs.cleaner.change_settings(settings)
