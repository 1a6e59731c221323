"""A member joins a group, or a rebalance of it; the answer waits for the others.

  v1  rebalance timeout (KIP-62)
  v2  throttle time
  v3  throttling happens after the answer (KIP-219)
  v4  MEMBER_ID_REQUIRED (KIP-394)
  v5  group instance id (KIP-345)
  v6  flexible (KIP-482)
  v7  protocol type in the answer (KIP-559)
  v8  reason (KIP-800)
  v9  the leader may skip the assignment (KIP-814)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, bytes_, int16, int32, string


class JoinGroupRequestProtocol(Message):
    name:     str   = string()
    metadata: bytes = bytes_()


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    group_id:             str                            = string()
    session_timeout_ms:   int                            = int32()
    rebalance_timeout_ms: int                            = int32("1+", default=-1, ignorable=True)
    member_id:            str                            = string()
    group_instance_id:    str | None                     = string("5+", nullable="5+", default=None)
    protocol_type:        str                            = string()
    protocols:            list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason:               str | None                     = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Message):
    member_id:         str        = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata:          bytes      = bytes_()


class JoinGroupResponse(Response, answers=JoinGroupRequest):
    throttle_time_ms: int                           = int32("2+", default=0, ignorable=True)
    error_code:       int                           = int16()
    generation_id:    int                           = int32(default=-1)
    protocol_type:    str | None                    = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name:    str | None                    = string(nullable="7+")
    leader:           str                           = string()
    skip_assignment:  bool                          = bool_("9+", default=False)
    member_id:        str                           = string()
    members:          list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
