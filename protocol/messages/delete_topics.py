"""Topics are deleted.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  TOPIC_DELETION_DISABLED (KIP-322)
  v4  flexible (KIP-482)
  v5  error message, THROTTLING_QUOTA_EXCEEDED (KIP-599)
  v6  topics by id (KIP-516)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, int16, int32, string, uuid


class DeleteTopicState(Message):
    name:     str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes      = uuid("6+")


class DeleteTopicsRequest(Request, key=20, versions="0-6", flexible="4+"):
    topics:      list[DeleteTopicState] = array(DeleteTopicState, "6+", default=[])
    topic_names: list[str]              = array(string, "0-5", default=[], ignorable=True)
    timeout_ms:  int                    = int32()


class DeletableTopicResult(Message):
    name:          str | None = string(nullable="6+")
    topic_id:      bytes      = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code:    int        = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, answers=DeleteTopicsRequest):
    throttle_time_ms: int                        = int32("1+", default=0, ignorable=True)
    responses:        list[DeletableTopicResult] = array(DeletableTopicResult)
