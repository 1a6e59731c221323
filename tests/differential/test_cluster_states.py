"""Controllers of ours make of partitions what those of Apache Kafka 3.9.1 did: every leader, in-sync set and leader epoch that
the state nodes had, one after the other, while brokers die, return and control."""

from __future__ import annotations

import pytest

from tests.differential.cluster_states import SCENARIOS, History, load, played
from tests.oracle.cluster import KAFKA, OURS

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]
NAMES = [name for scenarios in SCENARIOS.values() for name in scenarios]


@pytest.fixture(scope="module")
def ours(need_java: None) -> dict[str, History]:
    return dict(played(OURS))


@pytest.fixture(scope="module")
def kafkas(need_java: None) -> dict[str, History]:
    return dict(played(KAFKA))


@pytest.mark.parametrize("name", NAMES)
def test_states_are_those_of_apache_kafka(name: str, ours: dict[str, History]) -> None:
    assert ours[name] == load(name)


@pytest.mark.parametrize("name", NAMES)
def test_recording_is_true(name: str, kafkas: dict[str, History]) -> None:
    assert kafkas[name] == load(name)
