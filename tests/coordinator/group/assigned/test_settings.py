"""The settings of a group stand in place of the broker's, within the broker's bounds."""

from __future__ import annotations

import pytest

from coordinator.group.assigned.settings import (
    ConsumerConfig,
    ConsumerSettings,
    GroupConfigs,
    GroupOverrides,
    MigrationPolicy,
)


@pytest.mark.parametrize(
    ("overrides", "effective"),
    [
        (GroupOverrides(), ConsumerConfig(45_000, 5_000, 1_000)),
        (GroupOverrides(session_timeout_ms=50_000), ConsumerConfig(50_000, 5_000, 1_000)),
        (GroupOverrides(1, 1, -5), ConsumerConfig(45_000, 5_000, 0)),
        (GroupOverrides(70_000, 20_000, 20_000), ConsumerConfig(60_000, 15_000, 15_000)),
    ],
)
def test_effective_settings(overrides: GroupOverrides, effective: ConsumerConfig) -> None:
    configs = GroupConfigs(ConsumerSettings())
    configs.replace({"g": overrides})
    assert configs.of("g") == effective
    assert configs.of("other") == ConsumerConfig()
    configs.replace({})
    assert configs.of("g") == ConsumerConfig()


def test_policies() -> None:
    allowed = {policy: (policy.allows_upgrade, policy.allows_downgrade) for policy in MigrationPolicy}
    assert allowed == {
        MigrationPolicy.DISABLED: (False, False),
        MigrationPolicy.UPGRADE: (True, False),
        MigrationPolicy.DOWNGRADE: (False, True),
        MigrationPolicy.BIDIRECTIONAL: (True, True),
    }
