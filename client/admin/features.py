"""Feature levels of a cluster: what its brokers support, what is finalized, and changes of it. Pure.

Rules: levels are changed by the controller; a cluster supports what all its brokers do. A broker of ours whose cluster has no
level above 0 tells of none, as one of Apache Kafka 3.9.
Source: KIP-584, KIP-778; Kafka FeatureCommand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from client.admin.brokers import checked, each_broker
from client.admin.steps import Place, Steps, ask
from client.opening import SOFTWARE_NAME
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

API_VERSIONS = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1")


class LevelChange(IntEnum):
    """The values are those of the request."""

    UPGRADE = 1
    DOWNGRADE = 2


@dataclass(frozen=True, slots=True)
class ClusterFeature:
    """`level` is 0 where none is finalized; `last_supported` is None while a broker does not tell it."""

    name: str
    level: int
    last_supported: int | None


@dataclass(frozen=True, slots=True)
class ClusterLevels:
    """`epoch` grows with each change."""

    features: list[ClusterFeature]
    epoch: int

    @property
    def any_above_zero(self) -> bool:
        return any(each.level for each in self.features)


def describe() -> Steps[ClusterLevels]:
    """Raises KafkaError."""
    answers: dict[int, ApiVersionsResponse] = checked((yield from each_broker(API_VERSIONS)))
    newest = max(answers.values(), key=lambda answer: answer.finalized_features_epoch)
    levels = {row.name: row.max_version_level for row in newest.finalized_features}
    supported = [{row.name: row.max_version for row in answer.supported_features} for answer in answers.values()]
    return ClusterLevels(
        [
            ClusterFeature(name, levels.get(name, 0), _last_of_all(name, supported))
            for name in sorted(levels.keys() | {name for each in supported for name in each})
        ],
        newest.finalized_features_epoch,
    )


def _last_of_all(name: str, supported: list[dict[str, int]]) -> int | None:
    last = [each.get(name) for each in supported]
    return min(each for each in last if each is not None) if None not in last else None


def update(
    levels: Mapping[str, int], change: LevelChange, *, validate_only: bool
) -> Steps[dict[str, KafkaError | None]]:
    """Change the level of each feature that is named. Raises KafkaError when the request fails as a whole."""
    updates = [
        FeatureUpdateKey(
            feature=name,
            max_version_level=level,
            upgrade_type=change,
        )
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    response: UpdateFeaturesResponse = yield from ask(request, Place.CONTROLLER)
    errors = {
        row.feature: KafkaError(ErrorCode(row.error_code), row.error_message)
        for row in response.results
        if row.error_code
    }
    return {name: errors.get(name) for name in levels}
