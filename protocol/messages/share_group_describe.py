"""State and members of share groups (KIP-932).

  v1  the first stable version
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int16, int32, string, struct, uuid


class ShareGroupDescribeRequest(Request, key=77, versions="1", flexible="0+"):
    group_ids:                     list[str] = array(string)
    include_authorized_operations: bool      = bool_()


class TopicPartitions(Message):
    topic_id:   bytes     = uuid()
    topic_name: str       = string()
    partitions: list[int] = array(int32)


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Message):
    member_id:              str        = string()
    rack_id:                str | None = string(nullable="0+", default=None)
    member_epoch:           int        = int32()
    client_id:              str        = string()
    client_host:            str        = string()
    subscribed_topic_names: list[str]  = array(string)
    assignment:             Assignment = struct(Assignment)


class DescribedGroup(Message):
    error_code:            int          = int16()
    error_message:         str | None   = string(nullable="0+", default=None)
    group_id:              str          = string()
    group_state:           str          = string()
    group_epoch:           int          = int32()
    assignment_epoch:      int          = int32()
    assignor_name:         str          = string()
    members:               list[Member] = array(Member)
    authorized_operations: int          = int32(default=-2147483648)


class ShareGroupDescribeResponse(Response, answers=ShareGroupDescribeRequest):
    throttle_time_ms: int                  = int32()
    groups:           list[DescribedGroup] = array(DescribedGroup)
