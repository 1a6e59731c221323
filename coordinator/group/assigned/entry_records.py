"""The record of an entry, whichever kind of group it is of.

Rules: no IO. The kinds of groups have codecs of their own, which this module alone knows both.
Source: Kafka GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from coordinator.group.assigned.entries import EntryKey
from coordinator.group.consumer import records as consumer_records
from coordinator.group.consumer.entries import ConsumerEntry
from coordinator.group.share import records as share_records
from coordinator.group.share.entries import ShareEntry
from coordinator.runtime.contract import CoordinatorRecord

Entry: TypeAlias = ConsumerEntry | ShareEntry


def record_of(key: EntryKey, entry: Entry | None) -> CoordinatorRecord:
    """The record that stores `entry` under `key`; a tombstone for None."""
    if key.is_of_share_group:
        encoded_key = share_records.encode_key(key)
        value = None if entry is None else share_records.encode_value(cast(ShareEntry, entry))
    else:
        encoded_key = consumer_records.encode_key(key)
        value = None if entry is None else consumer_records.encode_value(cast(ConsumerEntry, entry))
    return CoordinatorRecord(encoded_key, value)


def read_entry_key(key: bytes, version: int) -> EntryKey | None:
    """Decode the key of a record; None when `version` is no kind of entry. Raises: DecodeError."""
    return consumer_records.read_entry_key(key, version) or share_records.read_entry_key(key, version)


def read_entry(key: EntryKey, value: bytes) -> Entry:
    """Decode the value of a record. Raises: DecodeError."""
    if key.is_of_share_group:
        return share_records.read_entry(key.kind, value)
    return consumer_records.read_entry(key.kind, value)
