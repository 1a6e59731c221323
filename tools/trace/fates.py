"""What became of the transactions of records, who can see them, and whose transactions they are. Pure: steps for a shell.

The leader tells a reader of committed records how far all transactions are decided: what is behind that offset, nobody of
those sees. Before it, a record of a transaction is aborted if the leader names its producer's among the aborted ones, by
producer and first offset, and committed otherwise. Behind it the marker decides, and without one the transaction is open.

Rules: a marker counts only where it has the epoch of the record's producer, or the next, which the coordinator gives
(KIP-890), and where it says what the leader says: of compacted partitions the first marker may be that of a later transaction.
Source: KIP-98, KIP-664, KIP-890.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from client.admin import transactions as transaction_steps
from client.admin.steps import Steps
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import PartitionData
from protocol.messages.list_offsets import LATEST
from tools.group_lag import Key, offsets_of
from tools.trace.reading import fetched
from tools.trace.stored import Fate, StoredRecord

_SMALLEST_BYTES: Final = 1
"""A leader gives one whole batch all the same."""


def decide_fates(records: Iterable[StoredRecord]) -> Steps[None]:
    """Set the fate of records, and which are hidden: a request for each of the transactional ones of one partition, all
    partitions side by side."""
    found = list(records)
    stable = yield from offsets_of({each.key_of_partition for each in found}, LATEST, is_committed_only=True)
    left: dict[Key, list[StoredRecord]] = {}
    for record in found:
        end = stable.get(record.key_of_partition)
        record.is_hidden = end is not None and record.offset >= end
        if record.fate is not Fate.NONE:
            left.setdefault(record.key_of_partition, []).append(record)
    while left:
        asked = {key: those[-1] for key, those in left.items()}
        positions = {key: record.offset for key, record in asked.items()}
        answers = yield from fetched(positions, is_committed=True, partition_bytes=_SMALLEST_BYTES)
        for key, record in asked.items():
            answer = answers[key]
            record.fate = Fate.UNKNOWN if isinstance(answer, KafkaError) else fate_of(record, answer)
            if record.fate is Fate.OPEN and record.marker is not None and _has_epoch(record):
                record.fate = Fate.COMMITTED if record.marker.is_commit else Fate.ABORTED
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
    assert record.marker is not None
    if record.fate not in (Fate.COMMITTED, Fate.ABORTED):
        return False
    return record.marker.is_commit is (record.fate is Fate.COMMITTED) and _has_epoch(record)


def _has_epoch(record: StoredRecord) -> bool:
    assert record.marker is not None and record.producer_epoch is not None
    return record.marker.producer_epoch in (record.producer_epoch, record.producer_epoch + 1)


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
