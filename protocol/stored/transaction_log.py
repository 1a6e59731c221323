"""A transaction in __transaction_state: producer id and epoch, state, and the partitions written to.

A null value is a tombstone. Brokers of 3.9 write value v0; v1 is flexible, and has what transactions v2 need (KIP-890).
"""

from __future__ import annotations

from protocol.schema import Message, array, int8, int16, int32, int64, string
from protocol.stored.stored import Stored


class TransactionLogKey(Stored, versions="0"):
    transactional_id: str = string("0")


class PartitionsSchema(Message):
    topic:         str       = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Stored, versions="0-1", flexible="1+"):
    producer_id:                          int                           = int64()
    producer_epoch:                       int                           = int16()
    transaction_timeout_ms:               int                           = int32()
    transaction_status:                   int                           = int8()
    transaction_partitions:               list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int                           = int64()
    transaction_start_timestamp_ms:       int                           = int64()
    previous_producer_id:                 int                           = int64("1+", tag=0, default=-1)
    next_producer_id:                     int                           = int64("1+", tag=1, default=-1)
    client_transaction_version:           int                           = int16("1+", tag=2, default=0)
    next_producer_epoch:                  int                           = int16("1+", tag=3, default=-1)
