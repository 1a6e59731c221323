"""Empty groups are deleted with their offsets (KIP-229).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string)


class DeletableGroupResult(Message):
    group_id:   str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, answers=DeleteGroupsRequest):
    throttle_time_ms: int                        = int32()
    results:          list[DeletableGroupResult] = array(DeletableGroupResult)
