"""The log directories of this broker, and the size and lag of the replicas in them (KIP-113).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
  v3  error of the whole request
  v4  total and usable bytes (KIP-827)
  v5  directories that get no new replicas (KIP-1066)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int16, int32, int64, string


class DescribableLogDirTopic(Message):
    topic:      str       = string()
    partitions: list[int] = array(int32)


class DescribeLogDirsRequest(Request, key=35, versions="0-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class DescribeLogDirsPartition(Message):
    partition_index: int  = int32()
    partition_size:  int  = int64()
    offset_lag:      int  = int64()
    is_future_key:   bool = bool_()


class DescribeLogDirsTopic(Message):
    name:       str                            = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Message):
    error_code:   int                        = int16()
    log_dir:      str                        = string()
    topics:       list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes:  int                        = int64("4+", default=-1, ignorable=True)
    usable_bytes: int                        = int64("4+", default=-1, ignorable=True)
    is_cordoned:  bool                       = bool_("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Response, answers=DescribeLogDirsRequest):
    throttle_time_ms: int                         = int32()
    error_code:       int                         = int16("3+", default=0, ignorable=True)
    results:          list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
