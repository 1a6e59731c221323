"""A member of a share group joins, reports and leaves (KIP-932).

  v1  the first stable version
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string, struct, uuid


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="0+"):
    group_id:               str              = string()
    member_id:              str              = string()
    member_epoch:           int              = int32()
    rack_id:                str | None       = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)


class TopicPartitions(Message):
    topic_id:   bytes     = uuid()
    partitions: list[int] = array(int32)


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Response, answers=ShareGroupHeartbeatRequest):
    throttle_time_ms:      int               = int32()
    error_code:            int               = int16()
    error_message:         str | None        = string(nullable="0+", default=None)
    member_id:             str | None        = string(nullable="0+", default=None)
    member_epoch:          int               = int32()
    heartbeat_interval_ms: int               = int32()
    assignment:            Assignment | None = struct(Assignment, nullable="0+", default=None)
