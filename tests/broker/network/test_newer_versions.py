"""What a level opens: which versions are offered, and which are served."""

from __future__ import annotations

import pytest

from broker.handlers import ALL
from broker.network.newer_versions import NEWER, NOT_IN_3_9, NewerVersions
from broker.network.routes import DispatchTable
from metadata.features import NEWEST_LEVELS, NO_LEVELS, CurrentLevels, FeatureLevels
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Heartbeat

PRODUCE = NewerVersions(11, {12: ("transaction.version", 2)})
NEW_API = NewerVersions(NOT_IN_3_9)
GROUPS, TRANSACTIONS = FeatureLevels(group=1), FeatureLevels(transaction=2)


@pytest.mark.parametrize(
    ("newer", "levels", "offered", "served"),
    [
        (PRODUCE, NO_LEVELS, 11, 11),
        (PRODUCE, GROUPS, 11, 13),
        (PRODUCE, FeatureLevels(transaction=1), 11, 13),
        (PRODUCE, TRANSACTIONS, 13, 13),
        (NEW_API, NO_LEVELS, NOT_IN_3_9, NOT_IN_3_9),
        (NEW_API, GROUPS, 13, 13),
    ],
)
def test_what_levels_open(newer: NewerVersions, levels: FeatureLevels, offered: int, served: int) -> None:
    assert (newer.last_offered(13, levels), newer.last_served(13, levels)) == (offered, served)
    assert newer.last_offered(3, TRANSACTIONS) == newer.last_served(3, TRANSACTIONS) == 3, "there is no handler of more"


def rows_of(table: DispatchTable) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.first_version, row.last_version) for row in table.api_versions()}


def test_without_levels_nothing_is_served_that_is_newer() -> None:
    table = DispatchTable(ALL)
    rows = rows_of(table)
    assert all(rows[key][1] <= newer.last_in_3_9 for key, newer in NEWER.items() if key in rows)
    for key, newer in NEWER.items():
        assert (table.handler(key) is None) == (newer.last_in_3_9 == NOT_IN_3_9)
        assert table.route(key, newer.last_in_3_9 + 1) is None


def test_routes_follow_the_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that levels closed are gone from where requests look them up; the others stay."""
    monkeypatch.setitem(NEWER, Heartbeat.api_key, NEW_API)
    heartbeat = next(each for each in ALL if each.api_key == Heartbeat.api_key)
    levels = CurrentLevels()
    table = DispatchTable(ALL, levels)
    kept = table.route(18, 4)
    assert kept is not None and Heartbeat.api_key not in rows_of(table)
    for _ in range(2):
        levels.publish(NEWEST_LEVELS, 1)
        assert rows_of(table)[Heartbeat.api_key] == (heartbeat.first_version, heartbeat.last_version)
        assert table.handler(Heartbeat.api_key) is not None
        assert table.route(Heartbeat.api_key, 0) is table.route(Heartbeat.api_key, 0) is not None
        levels.publish(NO_LEVELS, 2)
        assert table.handler(Heartbeat.api_key) is table.route(Heartbeat.api_key, 0) is None
        assert table.routes == {table.route_key(18, 4): kept}


def test_clients_are_not_told_of_what_is_kept_back_though_it_is_served() -> None:
    levels = CurrentLevels(NEWEST_LEVELS)
    table = DispatchTable(ALL, levels)
    told = rows_of(table)
    table.keep_back(frozenset({Heartbeat.api_key}))
    assert rows_of(table) == {key: row for key, row in told.items() if key != Heartbeat.api_key}
    assert table.route(Heartbeat.api_key, 1) is not None
    levels.publish(NO_LEVELS, 1)
    levels.publish(NEWEST_LEVELS, 2)
    assert Heartbeat.api_key not in rows_of(table)
    table.keep_back(frozenset())
    assert rows_of(table) == told
