"""A share group without members forgets topics (KIP-932)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string, uuid


class DeletedTopic(Message):
    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Request, key=92, versions="0", flexible="0+"):
    group_id: str                = string()
    topics:   list[DeletedTopic] = array(DeletedTopic)


class TopicResult(Message):
    topic_name:    str        = string()
    topic_id:      bytes      = uuid()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Response, answers=DeleteShareGroupOffsetsRequest):
    throttle_time_ms: int               = int32()
    error_code:       int               = int16()
    error_message:    str | None        = string(nullable="0+", default=None)
    responses:        list[TopicResult] = array(TopicResult)
