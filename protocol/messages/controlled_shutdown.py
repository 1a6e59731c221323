"""A broker that wants to stop asks the controller to move its leaderships; it repeats until none remain.

  v0  its request header has no client id
  v2  broker epoch (KIP-380)
  v3  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string


class ControlledShutdownRequest(Request, key=7, versions="0-3", flexible="3+"):
    broker_id:    int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Message):
    topic_name:      str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Response, answers=ControlledShutdownRequest):
    error_code:           int                      = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
