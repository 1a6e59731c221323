"""A committed offset in __consumer_offsets.

The key's v0 and v1 are alike. A null value is a tombstone. Brokers of 3.9 write value v3, or v1 when the commit
carries its own retention time.

  v1  moment of expiry
  v2  no moment of expiry (KIP-211)
  v3  leader epoch (KIP-320)
  v4  flexible; topic id (KIP-848)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import int32, int64, string, uuid
from protocol.stored.stored import Stored


class OffsetCommitKey(Stored, versions="0-1"):
    group:     str = string("0-1")
    topic:     str = string("0-1")
    partition: int = int32("0-1")


class OffsetCommitValue(Stored, versions="0-4", flexible="4+"):
    offset:           int   = int64()
    leader_epoch:     int   = int32("3+", default=-1, ignorable=True)
    metadata:         str   = string()
    commit_timestamp: int   = int64()
    expire_timestamp: int   = int64("1", default=-1, ignorable=True)
    topic_id:         bytes = uuid("4+", tag=0, default=ZERO_UUID, ignorable=True)
