"""What became of the transactions of records, and whose transactions they are. Pure: steps for a shell.

The leader tells a reader of committed records which transactions were aborted, by producer and first offset, and how far all
are decided: a record of a transaction is aborted if its producer's is among those, open if it is behind that offset, and
committed otherwise.

Rules: a marker counts only where it says the same and has the epoch of the record's producer, or the next, which the
coordinator gives (KIP-890): of compacted partitions the marker of a later transaction may be the first that there is.
Source: KIP-98, KIP-664, KIP-890.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from client.admin import transactions as transaction_steps
from client.admin.steps import Steps
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import PartitionData
from tools.group_lag import Key
from tools.trace.reading import fetched
from tools.trace.stored import Fate, StoredRecord

_SMALLEST_BYTES: Final = 1
"""A leader gives one whole batch all the same."""


def decide_fates(records: Iterable[StoredRecord]) -> Steps[None]:
    """Set the fate of records of transactions: a request for each of those of one partition, all partitions side by side."""
    left: dict[Key, list[StoredRecord]] = {}
    for record in records:
        if record.fate is not Fate.NONE:
            left.setdefault((record.topic, record.partition), []).append(record)
    while left:
        asked = {key: those[-1] for key, those in left.items()}
        positions = {key: record.offset for key, record in asked.items()}
        answers = yield from fetched(positions, is_committed=True, partition_bytes=_SMALLEST_BYTES)
        for key, record in asked.items():
            answer = answers[key]
            record.fate = Fate.UNKNOWN if isinstance(answer, KafkaError) else fate_of(record, answer)
            if record.marker is not None and not _is_its_marker(record):
                record.marker = None
            left[key].pop()
        left = {key: those for key, those in left.items() if those}


def fate_of(record: StoredRecord, answer: PartitionData) -> Fate:
    """Return what the answer to a fetch of committed records from the record's offset on says of its transaction."""
    if any(
        each.producer_id == record.producer_id and each.first_offset <= record.offset
        for each in answer.aborted_transactions or ()
    ):
        return Fate.ABORTED
    return Fate.OPEN if record.offset >= answer.last_stable_offset else Fate.COMMITTED


def _is_its_marker(record: StoredRecord) -> bool:
    marker, epoch = record.marker, record.producer_epoch
    assert marker is not None and epoch is not None
    if record.fate not in (Fate.COMMITTED, Fate.ABORTED) or marker.is_commit is not (record.fate is Fate.COMMITTED):
        return False
    return marker.producer_epoch in (epoch, epoch + 1)


def transactional_ids(producer_ids: Collection[int]) -> Steps[dict[int, str]]:
    """Return the transactional ids of producers, of those that coordinators know and this user may describe. A broker before
    3.0 knows no such question."""
    if not producer_ids:
        return {}
    try:
        listed = yield from transaction_steps.list_all(producer_ids=sorted(producer_ids))
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return {}
        raise
    return {each.producer_id: each.transactional_id for found in listed.values() for each in found}
