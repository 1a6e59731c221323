"""Topics get more partitions (KIP-195).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
  v3  THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int16, int32, string


class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Message):
    name:        str                                     = string()
    count:       int                                     = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics:        list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms:    int                         = int32()
    validate_only: bool                        = bool_()


class CreatePartitionsTopicResult(Message):
    name:          str        = string()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Response, answers=CreatePartitionsRequest):
    throttle_time_ms: int                               = int32()
    results:          list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
