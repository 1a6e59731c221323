"""Changes of settings reach those who have read them, at a cost that follows from what they concern."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from broker.network.connections.acceptor import AcceptLimits, Acceptor
from broker.services import Services
from broker.settings.replication_quotas import ReplicationQuotas
from broker.settings.settings_effects import SettingsEffects
from config.broker import BrokerSettings
from config.topic import LogConfig
from replication.message_expiry import MessageExpiry
from tests.broker.quota_world import quotas_of

TOPICS_COUNT = 50
SETTINGS = BrokerSettings.from_sources({}, {}, {})


class Held:
    """The partitions and logs of a broker: two of each topic. Counts who walks over all of them."""

    def __init__(self) -> None:
        self.walks_count = 0
        self.reread: list[str] = []
        self.configs: list[str | None] = []
        self.cleaned_by: list[BrokerSettings] = []
        self.cleaner = SimpleNamespace(change_settings=self.cleaned_by.append)
        self.expiring: list[str] = []
        self.expiry = SimpleNamespace(on_config_changed=lambda partition: self.expiring.append(partition.topic))
        self.partitions = [
            SimpleNamespace(
                topic=f"t{number}", on_config_changed=lambda number=number: self.reread.append(f"t{number}")
            )
            for number in range(TOPICS_COUNT)
            for _ in range(2)
        ]

    def __iter__(self) -> Iterator[Any]:
        self.walks_count += 1
        return iter(self.partitions)

    def update_configs(self, topic: str | None = None) -> None:
        self.configs.append(topic)


class Dynamic:
    layers = SimpleNamespace(settings=SETTINGS)
    settings = SETTINGS
    configured_topics: tuple[str, ...] = ()
    entities: dict[str, dict[str, str]] = {}  # noqa: RUF012 - nothing changes it

    def on_topic_changed(self, listener: Any) -> None:
        self.tell_topic = listener

    def on_entity_changed(self, listener: Any) -> None:
        self.tell_entity = listener

    def on_broker_changed(self, listener: Any) -> None:
        self.tell_broker = listener


def followed(dynamic: Dynamic | None = None, acceptor: Any = None) -> tuple[Held, Dynamic]:
    held, dynamic = Held(), dynamic or Dynamic()
    services = SimpleNamespace(broker_id=1, dynamic_settings=dynamic, partitions=held, logs=held, quotas=quotas_of())
    quotas = SimpleNamespace(on_broker_settings=lambda _layers: None, on_topic_settings=lambda _topic, _config: None)
    acceptor = acceptor or SimpleNamespace(apply_entity=lambda _path, _settings: None)
    effects = SettingsEffects(
        cast(Services, services),
        cast(Acceptor, acceptor),
        cast(ReplicationQuotas, quotas),
        None,
        cast(MessageExpiry, held.expiry),
    )
    effects.follow()
    return held, dynamic


def test_a_topics_settings_concern_its_partitions() -> None:
    held, dynamic = followed()
    dynamic.tell_topic("t7", LogConfig.from_settings(SETTINGS, {}))
    assert held.configs == ["t7"]
    assert held.reread == held.expiring == ["t7", "t7"]


def test_a_brokers_settings_concern_every_topic_and_all_are_walked_over_once() -> None:
    """Ten thousand partitions of a thousand topics would otherwise hold the broker up for seconds."""
    held, dynamic = followed()
    held.cleaned_by.clear()
    dynamic.tell_broker(SETTINGS)
    assert len(held.reread) == 2 * TOPICS_COUNT
    assert held.configs == [None]
    assert held.walks_count == 1
    assert held.cleaned_by == [SETTINGS]


def test_what_was_set_before_the_start_holds_from_then_on() -> None:
    """No change tells of it."""

    class Stored(Dynamic):
        settings = BrokerSettings.from_sources({}, {}, {"max.connections": "7", "log.cleaner.threads": "3"})

    acceptor = SimpleNamespace(limits=AcceptLimits())
    held, dynamic = followed(Stored(), acceptor)
    assert acceptor.limits.max_connections == 7
    assert held.cleaned_by == [dynamic.settings]
    assert held.walks_count == 0, "logs are opened with what holds"
