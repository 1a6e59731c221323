"""The versions of transactions, and which version of a request belongs to which. Pure.

A request's version says what its client expects, whatever `transaction.version` is: the level only says what is offered.
Source: KIP-890; Kafka TransactionVersion, AddPartitionsToTxnManager (TransactionSupportedOperation).
"""

from __future__ import annotations

from typing import Final

ONE_EPOCH: Final = 0
"""The epoch of a producer stays as it is when a transaction ends."""
EPOCH_BUMPS: Final = 2
"""The end of each transaction raises the epoch of its producer, so that nothing late of one gets into the next."""

PRODUCE_SINCE: Final = 12
"""From this version on the leader adds the partition of a transactional batch to its transaction; so does, with its own
version, the group coordinator for offsets."""
OFFSET_COMMIT_SINCE: Final = 5
END_SINCE: Final = 5
ADD_PARTITIONS_SINCE: Final = 4
"""From this version on brokers send it."""
MARKERS_SINCE: Final = 2
"""From this version on a marker says of which version its transaction is."""


def version_since(first: int, api_version: int) -> int:
    """Return the version of transactions that a request with `api_version` belongs to, of an API with one of the above."""
    return EPOCH_BUMPS if api_version >= first else ONE_EPOCH
