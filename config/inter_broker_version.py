"""The versions of inter-broker requests, and of the records of group coordinators, by `inter.broker.protocol.version`. Pure.

Brokers do not negotiate versions: all use those of this setting, so that a cluster can be upgraded broker by broker, and the
setting last. Versions are ordered by their release.

Rules: a table per request or record, oldest first; a version uses the last row at or below it.
Source: Kafka MetadataVersion; the versions of control requests are in ControllerChannelManager, those of records in
GroupMetadataManager.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from config.validators import METADATA_VERSIONS

NAME = "inter.broker.protocol.version"

_RELEASES = METADATA_VERSIONS.releases
_ORDER = {release: index for index, release in enumerate(_RELEASES)}

Table = tuple[Sequence[int], Sequence[int]]


def _table(*rows: tuple[str, int]) -> Table:
    """(index of a release, request version from there on), as two columns."""
    return [_ORDER[release] for release, _ in rows], [version for _, version in rows]


_FETCH = _table(
    ("0.8.0", 0),
    ("0.9.0", 1),
    ("0.10.0-IV0", 2),
    ("0.10.1-IV1", 3),
    ("0.11.0-IV0", 4),
    ("0.11.0-IV1", 5),
    ("1.1-IV0", 7),
    ("2.0-IV1", 8),
    ("2.1-IV2", 10),
    ("2.3-IV1", 11),
    ("2.7-IV1", 12),
    ("3.1-IV0", 13),
    ("3.5-IV0", 14),
    ("3.5-IV1", 15),
    ("3.7-IV4", 16),
    ("3.9-IV0", 17),
)
_LIST_OFFSETS = _table(
    ("0.8.0", 0),
    ("0.10.1-IV2", 1),
    ("0.11.0-IV0", 2),
    ("2.0-IV1", 3),
    ("2.1-IV1", 4),
    ("2.2-IV1", 5),
    ("2.8-IV0", 6),
    ("3.0-IV1", 7),
    ("3.5-IV0", 8),
    ("3.9-IV0", 9),
)
_OFFSET_FOR_LEADER_EPOCH = _table(("0.8.0", 0), ("2.0-IV0", 1), ("2.1-IV1", 2), ("2.3-IV1", 3), ("2.8-IV0", 4))
_LEADER_AND_ISR = _table(
    ("0.8.0", 0),
    ("1.0-IV0", 1),
    ("2.2-IV0", 2),
    ("2.4-IV0", 3),
    ("2.4-IV1", 4),
    ("2.8-IV1", 5),
    ("3.2-IV0", 6),
    ("3.4-IV0", 7),
)
_UPDATE_METADATA = _table(
    ("0.8.0", 0),
    ("0.9.0", 1),
    ("0.10.0-IV1", 2),
    ("0.10.2-IV0", 3),
    ("1.0-IV0", 4),
    ("2.2-IV0", 5),
    ("2.4-IV1", 6),
    ("2.8-IV1", 7),
    ("3.4-IV0", 8),
)
_STOP_REPLICA = _table(("0.8.0", 0), ("2.2-IV0", 1), ("2.4-IV1", 2), ("2.6-IV0", 3), ("3.4-IV0", 4))
_WRITE_TXN_MARKERS = _table(("0.8.0", 0), ("2.8-IV0", 1))
# Records of __consumer_offsets: the next leader of their partition must be able to read them.
_OFFSET_COMMIT_VALUE = _table(("0.8.0", 1), ("2.1-IV0", 2), ("2.1-IV1", 3))
_GROUP_METADATA_VALUE = _table(("0.8.0", 0), ("0.10.1-IV0", 1), ("2.1-IV0", 2), ("2.3-IV0", 3))


@dataclass(frozen=True, slots=True, order=True)
class InterBrokerVersion:
    """One version; `index` is its place in the order of releases."""

    index: int

    @classmethod
    def parse(cls, text: str) -> InterBrokerVersion:
        """ "3.9-IV0"; or "3.9" and "3.9.1", the last version of that release. Raises ConfigError."""
        METADATA_VERSIONS(NAME, text)
        segments = text.split(".")
        head = ".".join(segments[: 3 if text.startswith("0.") else 2])
        if head in _ORDER:
            return cls(_ORDER[head])
        of_release = [index for release, index in _ORDER.items() if release.partition("-")[0] == head]
        return cls(of_release[-1])

    def __str__(self) -> str:
        return _RELEASES[self.index]

    def is_at_least(self, release: str) -> bool:
        return self.index >= _ORDER[release]

    def _request_version(self, table: Table) -> int:
        since, versions = table
        return versions[bisect_right(since, self.index) - 1]

    # Between replicas.

    @property
    def fetch(self) -> int:
        return self._request_version(_FETCH)

    @property
    def list_offsets(self) -> int:
        return self._request_version(_LIST_OFFSETS)

    @property
    def offset_for_leader_epoch(self) -> int:
        return self._request_version(_OFFSET_FOR_LEADER_EPOCH)

    @property
    def supports_offset_for_leader_epoch(self) -> bool:
        """KIP-101; below it followers truncate to their high watermark."""
        return self.is_at_least("0.11.0-IV2")

    @property
    def truncates_on_fetch(self) -> bool:
        """KIP-595: the response to a fetch has the epoch at which the logs diverge."""
        return self.is_at_least("2.7-IV1")

    # From the controller.

    @property
    def leader_and_isr(self) -> int:
        return self._request_version(_LEADER_AND_ISR)

    @property
    def update_metadata(self) -> int:
        return self._request_version(_UPDATE_METADATA)

    @property
    def stop_replica(self) -> int:
        return self._request_version(_STOP_REPLICA)

    # From transaction coordinators.

    @property
    def write_txn_markers(self) -> int:
        return self._request_version(_WRITE_TXN_MARKERS)

    # Among group coordinators.

    @property
    def offset_commit_value(self) -> int:
        """The version of an offset commit without an expiry time."""
        return self._request_version(_OFFSET_COMMIT_VALUE)

    @property
    def group_metadata_value(self) -> int:
        return self._request_version(_GROUP_METADATA_VALUE)

    @property
    def supports_static_members(self) -> bool:
        """KIP-345; a coordinator from below it drops the instance ids of the groups that it loads."""
        return self.is_at_least("2.3-IV0")

    # To the controller, and in the store.

    @property
    def supports_alter_partition(self) -> bool:
        """KIP-497; below it a leader writes its ISR to the store."""
        return self.is_at_least("2.7-IV2")

    @property
    def supports_topic_ids(self) -> bool:
        """KIP-516."""
        return self.is_at_least("2.8-IV0")

    @property
    def supports_feature_versioning(self) -> bool:
        """KIP-584."""
        return self.is_at_least("2.7-IV0")

    @property
    def supports_leader_recovery(self) -> bool:
        """KIP-704."""
        return self.is_at_least("3.2-IV0")

    @property
    def supports_producer_id_allocation(self) -> bool:
        """KIP-730; below it a broker allocates its blocks in the store."""
        return self.is_at_least("3.0-IV0")

    @property
    def writes_feature_minimum(self) -> bool:
        """Before KIP-778 a finalized feature was stored with its lowest level, too."""
        return not self.is_at_least("3.3-IV0")


LATEST = InterBrokerVersion.parse("3.9")
