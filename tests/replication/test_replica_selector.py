"""Where a consumer is sent to read (KIP-392)."""

from __future__ import annotations

import pytest

from config.errors import ConfigError
from replication.replica_selector import LEADER_CLASS, RACK_AWARE_CLASS, ReplicaView, nearest_rack, replica_selector

LEADER = ReplicaView(1, "a", 100, 0)


@pytest.mark.parametrize(
    ("rack", "others", "chosen"),
    [
        pytest.param("", [ReplicaView(2, "b", 100, 0)], 1, id="the consumer does not say where it is"),
        pytest.param("a", [ReplicaView(2, "a", 100, 0)], 1, id="the leader is there"),
        pytest.param("b", [], 1, id="nobody is there"),
        pytest.param("b", [ReplicaView(2, None, 100, 0)], 1, id="who is there cannot be reached"),
        pytest.param("b", [ReplicaView(2, "c", 100, 0), ReplicaView(3, "b", 1, 9)], 3, id="one is there"),
        pytest.param("b", [ReplicaView(2, "b", 7, 0), ReplicaView(3, "b", 8, 9)], 3, id="the one that has most"),
        pytest.param("b", [ReplicaView(2, "b", 8, 5), ReplicaView(3, "b", 8, 9)], 2, id="then the one caught up last"),
        pytest.param("b", [ReplicaView(2, "b", 8, 5), ReplicaView(3, "b", 8, 5)], 3, id="then the higher id"),
    ],
)
def test_the_nearest_rack(rack: str, others: list[ReplicaView], chosen: int) -> None:
    assert nearest_rack(rack, LEADER, others).broker_id == chosen


def test_the_setting_names_apache_kafkas_classes() -> None:
    assert replica_selector(None) is None
    assert replica_selector(LEADER_CLASS) is None
    assert replica_selector(RACK_AWARE_CLASS) is nearest_rack
    with pytest.raises(ConfigError, match=r"com\.example\.Nearest"):
        replica_selector("com.example.Nearest")
