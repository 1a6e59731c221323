"""Which acquired records belong to aborted transactions: groups that read committed records do not get them. Pure.

A transactional batch is aborted if the log's index of aborted transactions has one of its producer around it. Control batches
are acquired as all others: members acknowledge them as gaps.
Source: KIP-932; Kafka SharePartition.maybeFilterAbortedTransactionalAcquiredRecords.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter

from protocol.records.batch import BatchHeader
from replication.sharing.share_partition import AcquiredRange
from storage.segments.txn_index import AbortedTxn

_first_offset = itemgetter(0)


def aborted_ranges(headers: Iterable[BatchHeader], aborted: Sequence[AbortedTxn]) -> list[tuple[int, int]]:
    """Return the first and last offsets of the batches of aborted transactions, ascending; `headers` are those of the batches
    that were read, `aborted` the transactions that overlap them."""
    if not aborted:
        return []
    of_producer: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for transaction in aborted:
        of_producer[transaction.producer_id].append((transaction.first_offset, transaction.last_offset))
    for transactions in of_producer.values():
        transactions.sort()  # those of one producer do not overlap
    found: list[tuple[int, int]] = []
    for header in headers:
        if header.is_transactional and not header.is_control and header.producer_id in of_producer:
            transactions = of_producer[header.producer_id]
            index = bisect_right(transactions, header.base_offset, key=_first_offset) - 1
            if index >= 0 and header.base_offset < transactions[index][1]:
                found.append((header.base_offset, header.last_offset))
    return found


def without(rows: Iterable[AcquiredRange], ranges: Sequence[tuple[int, int]]) -> list[AcquiredRange]:
    """Return what is left of acquired rows without the offsets of `ranges`; both ascend."""
    left: list[AcquiredRange] = []
    index = 0
    for first, last, delivery_count in rows:
        begin = first
        while index < len(ranges) and ranges[index][1] < begin:
            index += 1
        at = index
        while at < len(ranges) and ranges[at][0] <= last:
            if begin < ranges[at][0]:
                left.append(AcquiredRange(begin, ranges[at][0] - 1, delivery_count))
            begin = ranges[at][1] + 1
            at += 1
        if begin <= last:
            left.append(AcquiredRange(begin, last, delivery_count))
    return left
