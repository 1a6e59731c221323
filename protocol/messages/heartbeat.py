"""A member tells the group coordinator that it is alive, and learns of a rebalance.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  group instance id (KIP-345)
  v4  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id:          str        = string()
    generation_id:     int        = int32()
    member_id:         str        = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, answers=HeartbeatRequest):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code:       int = int16()
