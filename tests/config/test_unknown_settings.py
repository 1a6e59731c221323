"""Unknown names of settings, of brokers and of topics, with what may be meant."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from config.topic import topic_setting_hint
from config.unknown_settings import broker_setting_hint, unknown_settings


def test_unknown_names_are_kept_and_the_nearest_is_named() -> None:
    given = {"log.segmnt.bytes": "1", "my.plugin.thing": "2", "listener.name.inside.ssl.keystore.location": "/x"}
    found = BrokerSettings.from_sources(given, {}, {})
    assert [str(unknown) for unknown in unknown_settings(found)] == [
        "unknown setting log.segmnt.bytes: did you mean log.segment.bytes?",
        "unknown setting my.plugin.thing",
    ]
    assert found.given["my.plugin.thing"] == "2"


@pytest.mark.parametrize(
    ("name", "of_a_broker", "of_a_topic"),
    [
        ("retention.mz", ": did you mean log.retention.ms?", ": did you mean retention.ms?"),
        ("Retention.MS", ": did you mean log.retention.ms?", ": did you mean retention.ms?"),
        ("log.retention.mz", ": did you mean log.retention.ms?", ": did you mean retention.ms?"),
        ("max.messages.bytes", ": did you mean message.max.bytes?", ": did you mean max.message.bytes?"),
        ("flush.msg", ": did you mean log.flush.interval.ms?", ": did you mean flush.ms?"),
        ("retention.ms", ": it is a topic's, the broker's is log.retention.ms", None),
        ("segment.ms", ": it is a topic's, the broker's is log.roll.ms", None),
        ("log.retention.hours", None, ": it is a broker's, the topic's is retention.ms"),
        ("message.max.bytes", None, ": it is a broker's, the topic's is max.message.bytes"),
        ("super.users", ": only an authorizer reads it, and authorizer.class.name is not set", ""),
        ("nonsense", "", ""),
        ("", "", ""),
    ],
)
def test_what_may_be_meant(name: str, of_a_broker: str | None, of_a_topic: str | None) -> None:
    """None: the name is known there."""
    if of_a_broker is not None:
        assert broker_setting_hint(name) == of_a_broker
    if of_a_topic is not None:
        assert topic_setting_hint(name) == of_a_topic
