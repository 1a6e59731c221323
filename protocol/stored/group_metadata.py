"""A classic group in __consumer_offsets: its generation, protocol, leader and members.

A null value is a tombstone: the group was deleted. Brokers of 3.9 write value v3.

  v1  rebalance timeout
  v2  moment of the last state change
  v3  group instance id (KIP-345)
  v4  flexible
"""

from __future__ import annotations

from protocol.schema import Message, array, bytes_, int32, int64, string
from protocol.stored.stored import Stored


class GroupMetadataKey(Stored, versions="2"):
    group: str = string("2")


class MemberMetadata(Message):
    member_id:         str        = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id:         str        = string()
    client_host:       str        = string()
    rebalance_timeout: int        = int32("1+", default=-1, ignorable=True)
    session_timeout:   int        = int32()
    subscription:      bytes      = bytes_()
    assignment:        bytes      = bytes_()


class GroupMetadataValue(Stored, versions="0-4", flexible="4+"):
    protocol_type:           str                  = string()
    generation:              int                  = int32()
    protocol:                str | None           = string(nullable="0+")
    leader:                  str | None           = string(nullable="0+")
    current_state_timestamp: int                  = int64("2+", default=-1, ignorable=True)
    members:                 list[MemberMetadata] = array(MemberMetadata)
