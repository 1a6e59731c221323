"""The leader of a generation hands in the assignment; every member gets its part.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  group instance id (KIP-345)
  v4  flexible (KIP-482)
  v5  protocol type and name (KIP-559)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bytes_, int16, int32, string


class SyncGroupRequestAssignment(Message):
    member_id:  str   = string()
    assignment: bytes = bytes_()


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id:          str                              = string()
    generation_id:     int                              = int32()
    member_id:         str                              = string()
    group_instance_id: str | None                       = string("3+", nullable="3+", default=None)
    protocol_type:     str | None                       = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name:     str | None                       = string("5+", nullable="5+", default=None, ignorable=True)
    assignments:       list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, answers=SyncGroupRequest):
    throttle_time_ms: int        = int32("1+", default=0, ignorable=True)
    error_code:       int        = int16()
    protocol_type:    str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name:    str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment:       bytes      = bytes_()
