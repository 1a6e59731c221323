"""State, protocol and members of classic groups.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  authorized operations (KIP-430)
  v4  group instance id (KIP-345)
  v5  flexible (KIP-482)
  v6  error message; a group that does not exist is an error (KIP-1043)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, bytes_, int16, int32, string


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    groups:                        list[str] = array(string)
    include_authorized_operations: bool      = bool_("3+", default=False)


class DescribedGroupMember(Message):
    member_id:         str        = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id:         str        = string()
    client_host:       str        = string()
    member_metadata:   bytes      = bytes_()
    member_assignment: bytes      = bytes_()


class DescribedGroup(Message):
    error_code:            int                        = int16()
    error_message:         str | None                 = string("6+", nullable="6+", default=None)
    group_id:              str                        = string()
    group_state:           str                        = string()
    protocol_type:         str                        = string()
    protocol_data:         str                        = string()
    members:               list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int                        = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Response, answers=DescribeGroupsRequest):
    throttle_time_ms: int                  = int32("1+", default=0, ignorable=True)
    groups:           list[DescribedGroup] = array(DescribedGroup)
