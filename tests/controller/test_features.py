"""UpdateFeatures: what is refused, and why."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller import features
from controller.controller_context import LiveBroker
from controller.features import FeatureUpdate, Upgrade, refusal, refusal_of_any, requested
from metadata.features import REGISTERED
from metadata.store.znodes import BrokerRegistration, FinalizedFeatures
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

OLD: list[Mapping[str, Mapping[str, int]]] = [{"f": {"min_version": 1, "max_version": 2}}]
NEW: list[Mapping[str, Mapping[str, int]]] = [{"f": {"min_version": 1, "max_version": 3}}]


@pytest.mark.parametrize(
    ("update", "existing", "words"),
    [
        (FeatureUpdate("", 1, Upgrade.UPGRADE), None, "can not be empty"),
        (FeatureUpdate("f", 1, Upgrade.UNKNOWN), None, "unknown upgrade type"),
        (FeatureUpdate("f", 0, Upgrade.SAFE_DOWNGRADE), None, "delete non-existing"),
        (FeatureUpdate("f", 0, Upgrade.SAFE_DOWNGRADE), 2, None),
        (FeatureUpdate("f", 0, Upgrade.UPGRADE), 2, "less than 1"),
        (FeatureUpdate("f", 2, Upgrade.UPGRADE), 2, "Can not upgrade .* to the same value"),
        (FeatureUpdate("f", 2, Upgrade.SAFE_DOWNGRADE), 2, "Can not downgrade .* to the same value"),
        (FeatureUpdate("f", 1, Upgrade.UPGRADE), 2, "Can not downgrade .* without"),
        (FeatureUpdate("f", 3, Upgrade.SAFE_DOWNGRADE), 2, "can not be greater"),
        (FeatureUpdate("f", 1, Upgrade.SAFE_DOWNGRADE), 2, None),
        (FeatureUpdate("f", 3, Upgrade.UPGRADE), 2, None),
        (FeatureUpdate("f", 4, Upgrade.UPGRADE), None, "supported minVersion"),
        (FeatureUpdate("g", 1, Upgrade.UPGRADE), None, "is not supported"),
    ],
)
def test_refusals(
    update: FeatureUpdate, existing: int | None, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "SUPPORTED", {"f": (1, 3)})
    reason = refusal(update, existing, NEW)
    if words is None:
        assert reason is None
    else:
        assert reason is not None
        with pytest.raises(ValueError, match=words):
            raise ValueError(reason)


G, T = "group.version", "transaction.version"
DOWN, UNSAFE = Upgrade.SAFE_DOWNGRADE, Upgrade.UNSAFE_DOWNGRADE
NO_DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)


@pytest.mark.parametrize(
    ("update", "existing", "words"),
    [
        (FeatureUpdate(G, 1, Upgrade.UPGRADE), 0, None),
        (FeatureUpdate(G, 1, Upgrade.UPGRADE), 1, None),
        (FeatureUpdate(G, 1, DOWN), 1, None),
        (FeatureUpdate(G, 0, DOWN), 1, None),
        (FeatureUpdate(G, 0, DOWN), 0, None),
        (FeatureUpdate(T, 1, UNSAFE), 2, None),
        (FeatureUpdate(G, 0, Upgrade.UPGRADE), 1, NO_DOWNGRADE),
        (FeatureUpdate(T, 1, Upgrade.UPGRADE), 2, NO_DOWNGRADE),
        (FeatureUpdate(T, 2, DOWN), 1, "Can't downgrade to a newer version."),
        (FeatureUpdate(G, 2, Upgrade.UPGRADE), 1, "Local controller 3 only supports versions 0-1"),
        (FeatureUpdate(G, -1, DOWN), 1, "A feature version cannot be less than 0."),
        (FeatureUpdate("nope", 1, Upgrade.UPGRADE), 0, "Local controller 3 does not support this feature."),
        (FeatureUpdate("nope", 0, DOWN), 0, "Feature nope not found."),
        (FeatureUpdate(G, 1, Upgrade.UNKNOWN), 1, "The controller does not support the given upgrade type."),
    ],
)
def test_refusals_of_updates_that_are_one_as_of_4_3(update: FeatureUpdate, existing: int, words: str | None) -> None:
    reason = refusal_of_any(update, existing, 3, {1: broker(1, REGISTERED)})
    of = f"Invalid update version {update.level} for feature {update.feature}. "
    assert reason == (words and of + words)


@pytest.mark.parametrize(
    ("registered", "words"),
    [
        ({}, "Broker 2 does not support this feature."),
        ({T: {"min_version": 1, "max_version": 1}}, "Broker 2 only supports versions 0-1"),
    ],
)
def test_a_level_that_a_broker_does_not_support(registered: Mapping[str, Mapping[str, int]], words: str) -> None:
    brokers = {1: broker(1, REGISTERED), 2: broker(2, registered)}
    reason = refusal_of_any(FeatureUpdate(T, 2, Upgrade.UPGRADE), 0, 1, brokers)
    assert reason == f"Invalid update version 2 for feature {T}. {words}"
    assert refusal_of_any(FeatureUpdate(T, 0, DOWN), 1, 1, brokers) is None, "what is taken away needs no support"


def broker(broker_id: int, features: Mapping[str, Mapping[str, int]]) -> LiveBroker:
    return LiveBroker(BrokerRegistration(broker_id, (), 0, features=features), 1)


def test_a_broker_that_cannot_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "SUPPORTED", {"f": (1, 3)})
    reason = refusal(FeatureUpdate("f", 3, Upgrade.UPGRADE), None, NEW + OLD)
    assert reason is not None
    assert "incompatible versions" in reason


def test_the_two_forms_of_the_request() -> None:
    old = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="a", max_version_level=1, allow_downgrade=True),
            FeatureUpdateKey(feature="b", max_version_level=1),
        ]
    )
    assert [each.kind for each in requested(old, 0)] == [Upgrade.SAFE_DOWNGRADE, Upgrade.UPGRADE]
    new = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="a", max_version_level=1, upgrade_type=kind) for kind in (1, 2, 3, 0, 9)
        ]
    )
    assert [int(each.kind) for each in requested(new, 1)] == [1, 2, 3, 0, 0]


def test_the_node_in_its_two_forms() -> None:
    finalized = FinalizedFeatures({"f": 3})
    assert finalized.encode() == b'{"features":{"f":3},"version":2,"status":1}'
    older = finalized.encode(with_minimum=True)
    assert older == b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}'
    assert FinalizedFeatures.decode(older) == FinalizedFeatures.decode(finalized.encode()) == finalized
