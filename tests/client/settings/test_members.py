"""The settings of a group's member: which protocol, and what is refused beside it."""

from __future__ import annotations

import pytest

from client.membership.contract import GroupProtocol, MemberSettings
from client.settings.members import parse_member
from client.settings.values import SettingsError

CONSUMER = {"group.protocol": "consumer"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, MemberSettings()),
        ({"group.protocol": "Classic", "session.timeout.ms": "9"}, MemberSettings(session_timeout_ms=9)),
        (
            CONSUMER | {"group.remote.assignor": "range", "client.rack": "a", "group.instance.id": "i"},
            MemberSettings(GroupProtocol.CONSUMER, server_assignor="range", rack_id="a", instance_id="i"),
        ),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor,range"},
            MemberSettings(assignors=("roundrobin", "range")),
        ),
        ({"max.poll.interval.ms": "7", "heartbeat.interval.ms": "8"}, MemberSettings(
            max_poll_interval_ms=7, heartbeat_interval_ms=8
        )),
    ],
)  # fmt: skip
def test_settings(properties: dict[str, str], expected: MemberSettings) -> None:
    assert parse_member(properties) == expected
    assert parse_member({f"kafka.{name}": text for name, text in properties.items()}, "kafka.") == expected


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"group.protocol": "streams"}, "group.protocol=streams is not one of classic, consumer"),
        ({"group.remote.assignor": "range"}, "group.remote.assignor cannot be set with group.protocol=classic"),
        (CONSUMER | {"session.timeout.ms": "9"}, "session.timeout.ms cannot be set with group.protocol=consumer"),
        (CONSUMER | {"heartbeat.interval.ms": "9"}, "heartbeat.interval.ms cannot be set"),
        (CONSUMER | {"partition.assignment.strategy": "range"}, "partition.assignment.strategy cannot be set"),
        ({"partition.assignment.strategy": "sticky"}, "sticky is not one of range, roundrobin"),
    ],
)
def test_what_is_refused(properties: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        parse_member(properties)
