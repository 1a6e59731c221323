"""In which version a request goes to a broker whose versions are known. Pure.

It is the newest that both sides know, so that one client speaks to this broker, to Apache Kafka 3.9 and to Apache Kafka 4,
which knows fewer old versions. Brokers do not choose: theirs come from `config.inter_broker_version`.
Source: KIP-35; Kafka NodeApiVersions.
"""

from __future__ import annotations

from typing import Final

from client.opening import VersionRanges
from protocol.errors import ErrorCode, KafkaError
from protocol.schema import Request

HIGHEST: Final[dict[int, int]] = {
    0: 11,  # Produce: 12 adds partitions to transactions by itself, from 13 on topics are named by their ids
    1: 12,  # Fetch: from 13 on topics are named by their ids
    3: 12,  # Metadata: 13 may tell the client to begin again with its bootstrap addresses
    8: 9,  # OffsetCommit, and OffsetFetch below: from 10 on topics are named by their ids
    9: 9,
    15: 5,  # DescribeGroups: from 6 on a group that does not exist is an error
    22: 4,  # InitProducerId, and EndTxn below: the second part of KIP-890 raises the epoch at the end of each transaction
    24: 3,  # AddPartitionsToTxn: from 4 on for brokers
    26: 4,
    28: 4,  # TxnOffsetCommit: 5 adds the group to the transaction by itself
    57: 1,  # UpdateFeatures: from 2 on there are no results of single features
}
"""The newest version that is used of an API, where that is not the newest that is known, unless a caller knows more of it."""


def common_version(request: type[Request], known: VersionRanges, broker: str, max_version: int | None = None) -> int:
    """Return the newest common version; `broker` is the name of who knows these. `max_version` is given by who understands
    the request up to there, in place of `HIGHEST`. Raises KafkaError."""
    theirs, first = known.get(request.api_key), request.min_version
    if max_version is None:
        max_version = HIGHEST.get(request.api_key, request.max_version)
    last = min(request.max_version, max_version)
    if theirs is not None and max(first, theirs[0]) <= min(last, theirs[1]):
        return min(last, theirs[1])
    spoken = "not" if theirs is None else f"in versions {theirs[0]} to {theirs[1]}"
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{broker} speaks {request.api_name} {spoken}, this client in {first} to {last}",
    )
