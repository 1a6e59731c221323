"""What the authorizer is told by settings that are none of the broker's."""

from __future__ import annotations

import pytest

from config.acl_settings import AclSettings
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.unknown_settings import unknown_settings

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"authorizer.class.name": " ", "super.users": "nonsense"}, None),
        (AUTHORIZER, AclSettings()),
        (AUTHORIZER | {"super.users": "User:a"}, AclSettings(("User:a",))),
        (
            AUTHORIZER | {"super.users": " User:CN=a,O=b ;User:c:d;;;", "allow.everyone.if.no.acl.found": " TRUE"},
            AclSettings(("User:CN=a,O=b", "User:c:d"), allows_without_acl=True),
        ),
        (AUTHORIZER | {"super.users": ";"}, AclSettings()),
    ],
)
def test_what_is_read(given: dict[str, str], expected: AclSettings | None) -> None:
    assert BrokerSettings.from_sources(given, {}, {}).acl_settings == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"authorizer.class.name": "org.example.Authorizer"}, r"runs no Java; it must be empty, or kafka\.security"),
        ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "runs no Java"),
        (AUTHORIZER | {"super.users": "alice"}, "super.users: expected .* but got alice"),
        (AUTHORIZER | {"super.users": "User:a; ;User:b"}, "super.users"),
        (AUTHORIZER | {"allow.everyone.if.no.acl.found": "yes"}, "expected true or false but got yes"),
        (AUTHORIZER | {"authorizer.zookeeper.url": "zk:1"}, "ACLs are in the store of the broker"),
    ],
)
def test_what_stops_the_start(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerSettings.from_sources(given, {}, {})


def test_the_authorizers_settings_are_unknown_without_one() -> None:
    own = {"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}
    assert unknown_settings(BrokerSettings.from_sources(own | AUTHORIZER, {}, {})) == ()
    assert [each.name for each in unknown_settings(BrokerSettings.from_sources(own, {}, {}))] == sorted(own)
