"""The groups that this broker coordinates.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  flexible (KIP-482)
  v4  states (KIP-518)
  v5  types (KIP-848)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string, "4+", default=[])
    types_filter:  list[str] = array(string, "5+", default=[])


class ListedGroup(Message):
    group_id:      str = string()
    protocol_type: str = string()
    group_state:   str = string("4+", default="", ignorable=True)
    group_type:    str = string("5+", default="", ignorable=True)


class ListGroupsResponse(Response, answers=ListGroupsRequest):
    throttle_time_ms: int               = int32("1+", default=0, ignorable=True)
    error_code:       int               = int16()
    groups:           list[ListedGroup] = array(ListedGroup)
