"""Offsets by timestamp: earliest, latest, the largest timestamp's, or the first at or after a moment.

  v1   one offset with its timestamp instead of a list (KIP-79)
  v2   isolation level (KIP-98), throttle time
  v3   throttling happens after the answer (KIP-219)
  v4   leader epoch (KIP-320)
  v5   OFFSET_NOT_AVAILABLE (KIP-207)
  v6   flexible (KIP-482)
  v7   offset of the largest timestamp (KIP-734)
  v8   earliest local offset (KIP-405)
  v9   latest tiered offset (KIP-1005)
  v10  how long remote storage may take (KIP-1075)
  v11  earliest offset that is not tiered yet (KIP-1023)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, int64, string

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
"""What a request has in place of a time. Of committed records, the latest offset is the last stable one."""


class ListOffsetsPartition(Message):
    partition_index:      int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp:            int = int64()
    max_num_offsets:      int = int32("0", default=1)


class ListOffsetsTopic(Message):
    name:       str                        = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, key=2, versions="0-11", flexible="6+"):
    replica_id:      int                    = int32()
    isolation_level: int                    = int8("2+", default=0)
    topics:          list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms:      int                    = int32("10+", default=0, ignorable=True)


class ListOffsetsPartitionResponse(Message):
    partition_index:   int       = int32()
    error_code:        int       = int16()
    old_style_offsets: list[int] = array(int64, "0", default=[])
    timestamp:         int       = int64("1+", default=-1)
    offset:            int       = int64("1+", default=-1)
    leader_epoch:      int       = int32("4+", default=-1)


class ListOffsetsTopicResponse(Message):
    name:       str                                = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, answers=ListOffsetsRequest):
    throttle_time_ms: int                            = int32("2+", default=0, ignorable=True)
    topics:           list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
