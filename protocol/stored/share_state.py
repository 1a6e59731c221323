"""The state of share partitions (KIP-932) in __share_group_state: snapshots, and the updates that follow each.

A key's version says which kind of record it is. A null value is a tombstone. A start offset of -1 is none; a
delivery_complete_count of -1 is of a broker before 4.2, which did not count.
"""

from __future__ import annotations

from protocol.schema import Message, array, int8, int16, int32, int64, string, uuid
from protocol.stored.stored import Stored


class ShareSnapshotKey(Stored, versions="0"):
    group_id:  str   = string()
    topic_id:  bytes = uuid()
    partition: int   = int32()


class StoredStateBatch(Message):
    first_offset:   int = int64()
    last_offset:    int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Stored, versions="0", flexible="0+"):
    snapshot_epoch:          int                    = int32()
    state_epoch:             int                    = int32()
    leader_epoch:            int                    = int32()
    start_offset:            int                    = int64()
    delivery_complete_count: int                    = int32(tag=0, default=-1)
    create_timestamp:        int                    = int64()
    write_timestamp:         int                    = int64()
    state_batches:           list[StoredStateBatch] = array(StoredStateBatch)


class ShareUpdateKey(Stored, versions="1"):
    group_id:  str   = string()
    topic_id:  bytes = uuid()
    partition: int   = int32()


class ShareUpdateValue(Stored, versions="0", flexible="0+"):
    snapshot_epoch:          int                    = int32()
    leader_epoch:            int                    = int32()
    start_offset:            int                    = int64()
    delivery_complete_count: int                    = int32(tag=0, default=-1)
    state_batches:           list[StoredStateBatch] = array(StoredStateBatch)
