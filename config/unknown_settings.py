"""Settings of a broker that do not exist, and what may be meant: a similar name, or the broker's name of a topic's setting.

Brokers and topics have many settings in common under other names: `retention.ms` of a topic is `log.retention.ms` of a broker.
Rules: pure. A start goes on with unknown names, as Apache Kafka's does: plug-ins have settings of their own there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from config.acl_settings import READ_BY_AUTHORIZER
from config.broker import BrokerSettings, is_listener_setting
from config.topic import LogConfig
from runtime.suggestions import nearest

_OF_TOPICS = {name: row.synonyms[0] for name, row in LogConfig.definitions.items() if row.synonyms}


@dataclass(frozen=True, slots=True)
class UnknownSetting:
    """An unknown name; `hint` says what may be meant, as `broker_setting_hint` does."""

    name: str
    hint: str

    def __str__(self) -> str:
        return f"unknown setting {self.name}{self.hint}"


def unknown_settings(settings: BrokerSettings) -> tuple[UnknownSetting, ...]:
    """Return the given names that are unknown; each gets a warning at a start."""
    others = settings.names_of_others
    return tuple(
        UnknownSetting(name, broker_setting_hint(name, others))
        for name in settings.given
        if name not in settings.definitions and not is_listener_setting(name) and name not in others
    )


def broker_setting_hint(name: str, others: Iterable[str] = ()) -> str:
    """Return `: did you mean X?`, or the broker's name of a topic's setting, to follow the message about an unknown name of
    a broker's setting; nothing where no name is like it. `others` are names that are known beside the settings of a broker."""
    if name in READ_BY_AUTHORIZER:
        return ": only an authorizer reads it, and authorizer.class.name is not set"
    if name in _OF_TOPICS:
        return f": it is a topic's, the broker's is {_OF_TOPICS[name]}"
    found = nearest(name.lower(), (*BrokerSettings.definitions, *others, *_OF_TOPICS))
    return "" if found is None else f": did you mean {_OF_TOPICS.get(found, found)}?"
