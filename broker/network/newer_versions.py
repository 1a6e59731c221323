"""Which versions of requests are newer than those of Apache Kafka 3.9.1, and which feature level opens each.

Rules: pure. **Offered** is what ApiVersions tells: versions up to the last that the levels open. **Served** is what a
client may send. While all levels are 0 both are those of 3.9.1, so that a newer version is to a client what it is there:
unknown. With any level above 0 every version that there is a handler for is served, whatever is offered: as in Apache
Kafka 4.3 the version of a request decides what happens, and a level changes only what clients choose.
An API without a row has the versions of 3.9.1 and no others.
Source: ApiKeys of Apache Kafka 3.9.1 and 4.3.0; KIP-848, KIP-890, KIP-932.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from metadata.features import GROUP_VERSION, SHARE_VERSION, TRANSACTION_VERSION
from protocol.api_names import API_NAMES

if TYPE_CHECKING:
    from metadata.features import FeatureLevels

NOT_IN_3_9: Final = -1


@dataclass(frozen=True, slots=True)
class NewerVersions:
    """`last_in_3_9` is the last version of 3.9.1. Versions above it open in the order of their numbers: one in `opened_by`
    with that level of that feature, one without with any level above 0."""

    last_in_3_9: int
    opened_by: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def last_offered(self, last_handled: int, levels: FeatureLevels) -> int:
        """Return the last version to tell of, NOT_IN_3_9 when there is none; `last_handled` is the last that has a handler."""
        if not levels.any_above_zero:
            return min(self.last_in_3_9, last_handled)
        closed = [version for version, (feature, level) in self.opened_by.items() if levels.of(feature) < level]
        return min(last_handled, *(version - 1 for version in closed)) if closed else last_handled

    def last_served(self, last_handled: int, levels: FeatureLevels) -> int:
        """Return the last version that a client may send, NOT_IN_3_9 when there is none."""
        return last_handled if levels.any_above_zero else min(self.last_in_3_9, last_handled)


_CONSUMER_GROUPS = GROUP_VERSION, 1
_TRANSACTIONS_V2 = TRANSACTION_VERSION, 2

_SHARE_GROUPS = SHARE_VERSION, 1
_OF_SHARE_GROUPS = (
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
)

_BY_NAME: Final = {
    "Produce": NewerVersions(11, {12: _TRANSACTIONS_V2}),  # 12 adds partitions to transactions, 13 has topic ids
    "Fetch": NewerVersions(17),
    "ListOffsets": NewerVersions(9),
    "Metadata": NewerVersions(12),
    "OffsetCommit": NewerVersions(9),
    "OffsetFetch": NewerVersions(9),
    "DescribeGroups": NewerVersions(5),
    "InitProducerId": NewerVersions(5),
    "EndTxn": NewerVersions(4, {5: _TRANSACTIONS_V2}),
    "WriteTxnMarkers": NewerVersions(1),
    "TxnOffsetCommit": NewerVersions(4, {5: _TRANSACTIONS_V2}),
    "DescribeLogDirs": NewerVersions(4),
    "UpdateFeatures": NewerVersions(1),
    "DescribeCluster": NewerVersions(1),
    "ListTransactions": NewerVersions(1),
    "ConsumerGroupHeartbeat": NewerVersions(0, {1: _CONSUMER_GROUPS}),
    "ConsumerGroupDescribe": NewerVersions(0, {1: _CONSUMER_GROUPS}),
    "GetTelemetrySubscriptions": NewerVersions(NOT_IN_3_9),
    "PushTelemetry": NewerVersions(NOT_IN_3_9),
    "ListConfigResources": NewerVersions(NOT_IN_3_9),
    **dict.fromkeys(
        _OF_SHARE_GROUPS, NewerVersions(NOT_IN_3_9, {0: _SHARE_GROUPS, 1: _SHARE_GROUPS, 2: _SHARE_GROUPS})
    ),
}

NEWER: Final = {key: _BY_NAME[name] for key, name in API_NAMES.items() if name in _BY_NAME}
"""By API key."""
assert len(NEWER) == len(_BY_NAME), "a row has no API"
