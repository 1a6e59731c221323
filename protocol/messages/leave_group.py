"""Members leave a group.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  several members, by instance id too (KIP-345)
  v4  flexible (KIP-482)
  v5  reason (KIP-800)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class MemberIdentity(Message):
    member_id:         str        = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason:            str | None = string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id:  str                  = string()
    member_id: str                  = string("0-2", default="")
    members:   list[MemberIdentity] = array(MemberIdentity, "3+", default=[])


class MemberResponse(Message):
    member_id:         str        = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code:        int        = int16("3+")


class LeaveGroupResponse(Response, answers=LeaveGroupRequest):
    throttle_time_ms: int                  = int32("1+", default=0, ignorable=True)
    error_code:       int                  = int16()
    members:          list[MemberResponse] = array(MemberResponse, "3+", default=[])
