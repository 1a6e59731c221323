"""Which broker coordinates a group or a transactional id.

  v1  transactions, error message, throttle time (KIP-98)
  v2  throttling happens after the answer (KIP-219)
  v3  flexible (KIP-482)
  v4  several keys at once (KIP-699)
  v5  TRANSACTION_ABORTABLE (KIP-890)
  v6  share groups (KIP-932)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    key:              str       = string("0-3", default="")
    key_type:         int       = int8("1+", default=0)
    coordinator_keys: list[str] = array(string, "4+", default=[])


class Coordinator(Message):
    key:           str        = string("4+")
    node_id:       int        = int32("4+")
    host:          str        = string("4+")
    port:          int        = int32("4+")
    error_code:    int        = int16("4+")
    error_message: str | None = string("4+", nullable="4+")


class FindCoordinatorResponse(Response, answers=FindCoordinatorRequest):
    throttle_time_ms: int               = int32("1+", default=0, ignorable=True)
    error_code:       int               = int16("0-3", default=0)
    error_message:    str | None        = string("1-3", nullable="1-3", default="", ignorable=True)
    node_id:          int               = int32("0-3", default=0)
    host:             str               = string("0-3", default="")
    port:             int               = int32("0-3", default=0)
    coordinators:     list[Coordinator] = array(Coordinator, "4+", default=[])
