"""What a change of settings does to those who have read them before: logs, partitions, fetchers, quotas, the controller.

Rules: `follow` once every owner is made; it brings the owners up to what holds then, and listens from there on. Who
reads its settings afresh each time needs nothing here.
Source: Kafka TopicConfigHandler, BrokerConfigHandler, DynamicBrokerConfig's reconfigurables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.composition import accept_limits
from replication.leader_endpoint import FetchSettings

if TYPE_CHECKING:
    from broker.network.acceptor import Acceptor
    from broker.services import Services
    from broker.settings.replication_quotas import ReplicationQuotas
    from config.broker import BrokerSettings
    from config.topic import LogConfig
    from replication.fetchers import Fetchers


class SettingsEffects:
    """`fetchers` is None for a broker that has no others beside it."""

    def __init__(
        self, services: Services, acceptor: Acceptor, quotas: ReplicationQuotas, fetchers: Fetchers | None
    ) -> None:
        self._services = services
        self._acceptor = acceptor
        self._quotas = quotas
        self._fetchers = fetchers
        self._is_unclean_allowed = services.dynamic_settings.settings.unclean_leader_election_enable

    def follow(self) -> None:
        dynamic = self._services.dynamic_settings
        self._limit(dynamic.settings)
        for topic in dynamic.configured_topics:
            self._quotas.on_topic_settings(topic, dynamic.log_config(topic))
        dynamic.on_topic_changed(self._on_topic)
        dynamic.on_broker_changed(self._on_broker)

    def _on_topic(self, topic: str, config: LogConfig) -> None:
        self._quotas.on_topic_settings(topic, config)
        self._reread(topic)
        if config.unclean_leader_election_enable:
            self._services.controller.on_unclean_election_enabled(topic)

    def _reread(self, topic: str | None = None) -> None:
        """What was read of one topic's settings, or (None) of all: one walk over the partitions for all of them."""
        self._services.logs.update_configs(topic)
        for partition in self._services.partitions:
            if topic is None or partition.topic == topic:
                partition.on_config_changed()

    def _on_broker(self, settings: BrokerSettings) -> None:
        """Limits of connections, and the defaults of every topic."""
        services = self._services
        self._limit(settings)
        if self._fetchers is not None:
            changed = FetchSettings.of(settings, services.broker_id)
            services.tasks.spawn(self._fetchers.change_settings(changed), name="change fetchers")
        self._reread()
        was_allowed, self._is_unclean_allowed = self._is_unclean_allowed, settings.unclean_leader_election_enable
        if self._is_unclean_allowed and not was_allowed:
            services.controller.on_unclean_election_enabled()

    def _limit(self, settings: BrokerSettings) -> None:
        """What those may take who were made with the static settings. Fetchers were made with what holds."""
        self._acceptor.limits = accept_limits(settings)
        self._quotas.on_broker_settings(self._services.dynamic_settings.layers)
        self._services.logs.cleaner.change_settings(settings)
