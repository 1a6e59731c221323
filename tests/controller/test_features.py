"""UpdateFeatures: what is refused, and why, as far as a cluster without features of its own can tell."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller import features
from controller.features import FeatureUpdate, Upgrade, refusal, requested
from metadata.store.znodes import FinalizedFeatures
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
