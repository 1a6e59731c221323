"""The cluster's feature levels: what is finalized in `/feature`, what this release supports, and who is told of a change.

Rules: pure. A level of 0 is the same as no level: the cluster is as one of Apache Kafka 3.9. Levels apply to the whole cluster.
What a broker registers begins at 1, because older controllers take nothing else; clients are told that it begins at 0.
Source: KIP-584, KIP-1022; Kafka Feature, FinalizedFeatures, ZkMetadataCache.updateFeaturesOrThrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"

NEWEST: Final[Mapping[str, int]] = MappingProxyType({GROUP_VERSION: 1, SHARE_VERSION: 1, TRANSACTION_VERSION: 2})
"""The newest level that this release supports of each feature; all begin at 0."""
REGISTERED: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {name: {"min_version": 1, "max_version": last} for name, last in NEWEST.items()}
)
"""As a broker registers them in /brokers/ids."""
NO_EPOCH: Final = -1
"""There is no `/feature`, or features are disabled in it."""
NEWEST_WORD, NONE_WORD = "newest", "none"


class UnsupportedFeaturesError(Exception):
    """Levels are finalized that this release does not support: it cannot serve this cluster."""


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """A level of each feature; 0 is that of a cluster of Apache Kafka 3.9."""

    group: int = 0
    transaction: int = 0
    share: int = 0

    @property
    def any_above_zero(self) -> bool:
        return bool(self.group or self.transaction or self.share)

    @property
    def above_zero(self) -> dict[str, int]:
        """By the name of the feature, as `/feature` has them."""
        return {name: level for name in NEWEST if (level := self.of(name))}

    def of(self, feature: str) -> int:
        """Return the level of one of the features in NEWEST."""
        if feature == GROUP_VERSION:
            return self.group
        return self.transaction if feature == TRANSACTION_VERSION else self.share

    @classmethod
    def finalized(cls, levels: Mapping[str, int]) -> FeatureLevels:
        """Take them from `/feature`. Raises UnsupportedFeaturesError."""
        unsupported = {
            name: level for name, level in levels.items() if name not in NEWEST or not 0 <= level <= NEWEST[name]
        }
        if unsupported:
            rows = ", ".join(f"{name}={level}" for name, level in sorted(unsupported.items()))
            raise UnsupportedFeaturesError(f"the cluster has feature levels that this release does not support: {rows}")
        return cls(levels.get(GROUP_VERSION, 0), levels.get(TRANSACTION_VERSION, 0), levels.get(SHARE_VERSION, 0))

    @classmethod
    def parse(cls, text: str) -> FeatureLevels:
        """Return the levels that a person has written: `newest`, `none`, or `group.version=1,transaction.version=2`; what is
        not named is 0. Raises ValueError."""
        if text == NEWEST_WORD:
            return NEWEST_LEVELS
        if text == NONE_WORD:
            return NO_LEVELS
        levels: dict[str, int] = {}
        for row in text.split(","):
            name, _, level = (part.strip() for part in row.partition("="))
            if name not in NEWEST:
                raise ValueError(f"{name!r} is not a feature; there are {', '.join(NEWEST)}")
            if not level.isdecimal() or int(level) > NEWEST[name]:
                raise ValueError(f"{name} has levels 0 to {NEWEST[name]}, not {level!r}")
            if name in levels:
                raise ValueError(f"{name} is there twice")
            levels[name] = int(level)
        return cls.finalized(levels)


NO_LEVELS: Final = FeatureLevels()
NEWEST_LEVELS: Final = FeatureLevels.finalized(NEWEST)

Listener = Callable[[FeatureLevels], None]


class CurrentLevels:
    """What this broker knows of the cluster's levels. `epoch` is the version of `/feature`, as ApiVersions responds it."""

    def __init__(self, levels: FeatureLevels = NO_LEVELS, epoch: int = NO_EPOCH) -> None:
        self.levels = levels
        self.epoch = epoch
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with the levels each time they change."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def publish(self, levels: FeatureLevels, epoch: int) -> None:
        self.epoch = epoch
        if levels == self.levels:
            return
        self.levels = levels
        for listener in tuple(self._listeners):  # one may end itself
            listener(levels)
