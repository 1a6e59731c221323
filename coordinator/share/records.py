"""The records of `__share_group_state`, as Apache Kafka 4 writes and reads them.

    key version 0    share partition -> snapshot; a null value is a tombstone: the state is deleted
    key version 1    share partition -> update of the snapshot before it

Rules: no IO.
Source: Kafka ShareCoordinatorRecordHelpers, ShareCoordinatorRecordSerde.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.runtime.contract import CoordinatorRecord
from coordinator.share.batches import KeptBatch, kept_of
from coordinator.share.state import ShareKey, Snapshot, StateUpdate
from protocol.stored.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StoredStateBatch,
)
from protocol.stored.stored import stored_version

SNAPSHOT_KEY_VERSION = 0
UPDATE_KEY_VERSION = 1
VALUE_VERSION = 0


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    key: ShareKey


@dataclass(frozen=True, slots=True)
class UpdateKey:
    key: ShareKey


@dataclass(frozen=True, slots=True)
class UnknownShareKey:
    version: int


RecordKey: TypeAlias = SnapshotKey | UpdateKey | UnknownShareKey


def snapshot_record(key: ShareKey, snapshot: Snapshot) -> CoordinatorRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        create_timestamp=snapshot.create_timestamp_ms,
        write_timestamp=snapshot.write_timestamp_ms,
        state_batches=_stored(snapshot.batches),
        delivery_complete_count=snapshot.delivery_complete_count,
    )
    return CoordinatorRecord(_snapshot_key(key), value.encode_stored(VALUE_VERSION))


def update_key(key: ShareKey) -> bytes:
    """Return the key of all updates of a share partition."""
    stored = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return stored.encode_stored(UPDATE_KEY_VERSION)


def update_record(key: bytes, update: StateUpdate) -> CoordinatorRecord:
    """Encode an update; `key` is that of `update_key`."""
    value = ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        state_batches=_stored(update.batches),
        delivery_complete_count=update.delivery_complete_count,
    )
    return CoordinatorRecord(key, value.encode_stored(VALUE_VERSION))


def share_tombstone(key: ShareKey) -> CoordinatorRecord:
    return CoordinatorRecord(_snapshot_key(key), None)


def read_key(key: bytes) -> RecordKey:
    """Decode a key. Raises: DecodeError when it is no key of this topic."""
    version = stored_version(key)
    if version == SNAPSHOT_KEY_VERSION:
        snapshot = ShareSnapshotKey.decode_stored(key)
        return SnapshotKey(ShareKey(snapshot.group_id, snapshot.topic_id, snapshot.partition))
    if version == UPDATE_KEY_VERSION:
        update = ShareUpdateKey.decode_stored(key)
        return UpdateKey(ShareKey(update.group_id, update.topic_id, update.partition))
    return UnknownShareKey(version)


def read_snapshot(value: bytes) -> Snapshot:
    """Decode a snapshot. Raises: DecodeError."""
    stored = ShareSnapshotValue.decode_stored(value)
    return Snapshot(
        stored.snapshot_epoch,
        stored.state_epoch,
        stored.leader_epoch,
        stored.start_offset,
        stored.delivery_complete_count,
        _kept(stored.state_batches),
        stored.create_timestamp,
        stored.write_timestamp,
    )


def read_update(value: bytes) -> StateUpdate:
    """Decode an update. Raises: DecodeError."""
    stored = ShareUpdateValue.decode_stored(value)
    return StateUpdate(
        stored.snapshot_epoch,
        stored.leader_epoch,
        stored.start_offset,
        stored.delivery_complete_count,
        _kept(stored.state_batches),
    )


def _snapshot_key(key: ShareKey) -> bytes:
    stored = ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return stored.encode_stored(SNAPSHOT_KEY_VERSION)


def _stored(batches: Iterable[KeptBatch]) -> list[StoredStateBatch]:
    return [
        StoredStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, count, state in batches
    ]


def _kept(batches: Iterable[StoredStateBatch]) -> tuple[KeptBatch, ...]:
    return kept_of((each.first_offset, each.last_offset, each.delivery_count, each.delivery_state) for each in batches)
