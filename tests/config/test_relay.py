"""The settings of the relay."""

from __future__ import annotations

import pytest

from config.acl_settings import AclSettings
from config.errors import ConfigError
from config.relay import RelaySettings


def test_the_rows_are_in_the_order_of_their_names() -> None:
    rows = list(RelaySettings.__annotations__)
    assert len(rows) == len(RelaySettings.definitions)
    assert rows == sorted(rows)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("barnabas.relay.nmae", "x", "did you mean barnabas.relay.name"),
        ("barnabas.relay.name", "", "must be 1 to 200 of letters"),
        ("barnabas.relay.name", "a/b", "must be 1 to 200 of letters"),
        ("barnabas.relay.name", "r" * 201, "must be 1 to 200 of letters"),
        ("barnabas.relay.partitions", "0", "at least 1"),
        ("barnabas.relay.replication.factor", "0", "at least 1"),
        ("barnabas.relay.super.users", "alice", "must be users like User:alice"),
        ("barnabas.relay.delay.max.ms", str(367 * 86_400_000), "no more than"),
    ],
)
def test_wrong_values(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        RelaySettings({name: value})
    assert said in str(error.value)


def test_settings_of_the_client_beside_them_are_left_alone() -> None:
    given = {"bootstrap.servers": "b:9092", "barnabas.relay.name": "orders"}
    assert RelaySettings(given).barnabas_relay_name == "orders"


def test_what_the_authorizer_has_beside_acls() -> None:
    assert RelaySettings({}).acls == AclSettings()
    given = {
        "barnabas.relay.super.users": "User:a; User:CN=b,O=c",
        "barnabas.relay.allow.everyone.if.no.acl.found": "true",
    }
    assert RelaySettings(given).acls == AclSettings(("User:a", "User:CN=b,O=c"), allows_without_acl=True)
