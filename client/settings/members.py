"""The settings of a group's member, by Kafka's names. Pure.

Rules: the classic protocol is the default, and nothing chooses another one but `group.protocol`. A setting of the other
protocol is refused, as in Kafka: it would have no effect.
Source: Kafka ConsumerConfig of 4.3.0 (CLASSIC_PROTOCOL_UNSUPPORTED_CONFIGS, CONSUMER_PROTOCOL_UNSUPPORTED_CONFIGS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from client.membership.contract import GroupProtocol, MemberSettings
from client.settings.given import Given
from client.settings.values import SettingsError

_OF_CLASSIC: Final = ("heartbeat.interval.ms", "session.timeout.ms", "partition.assignment.strategy")
_OF_CONSUMER: Final = ("group.remote.assignor",)
_STRATEGIES: Final[Mapping[str, str]] = {
    "range": "range",
    "roundrobin": "roundrobin",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
}
"""Java's names and librdkafka's."""


def parse_member(properties: Mapping[str, str], prefix: str = "") -> MemberSettings:
    """Return the settings of a member among `properties`, each of whose names has `prefix`. Raises SettingsError."""
    given, usual = Given(properties, prefix), MemberSettings()
    chosen = given.choice("group.protocol", [each.value for each in GroupProtocol])
    protocol = usual.protocol if chosen is None else GroupProtocol(chosen)
    others = _OF_CLASSIC if protocol is GroupProtocol.CONSUMER else _OF_CONSUMER
    unused = given.first_of(others)
    if unused is not None:
        raise SettingsError(f"{unused} cannot be set with {given.shown('group.protocol')}={protocol.value}")
    return MemberSettings(
        protocol=protocol,
        session_timeout_ms=given.number("session.timeout.ms", usual.session_timeout_ms, 1),
        heartbeat_interval_ms=given.number("heartbeat.interval.ms", usual.heartbeat_interval_ms, 1),
        max_poll_interval_ms=given.number("max.poll.interval.ms", usual.max_poll_interval_ms, 1),
        assignors=_assignors(given) or usual.assignors,
        server_assignor=given.text("group.remote.assignor"),
        instance_id=given.text("group.instance.id"),
        rack_id=given.text("client.rack"),
    )


def _assignors(given: Given) -> tuple[str, ...]:
    name = "partition.assignment.strategy"
    words = given.words(name)
    unknown = [each for each in words if each not in _STRATEGIES]
    if unknown:
        raise SettingsError(f"{given.shown(name)}: {unknown[0]} is not one of {', '.join(_STRATEGIES)}")
    return tuple(dict.fromkeys(_STRATEGIES[each] for each in words))
