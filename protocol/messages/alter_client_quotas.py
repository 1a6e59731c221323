"""Quotas of users, client ids and addresses are set or removed (KIP-546).

  v1  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, float64, int16, int32, string


class EntityData(Message):
    entity_type: str        = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Message):
    key:    str   = string()
    value:  float = float64()
    remove: bool  = bool_()


class RequestEntryData(Message):
    entity: list[EntityData] = array(EntityData)
    ops:    list[OpData]     = array(OpData)


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    entries:       list[RequestEntryData] = array(RequestEntryData)
    validate_only: bool                   = bool_()


class ResponseEntryData(Message):
    error_code:    int              = int16()
    error_message: str | None       = string(nullable="0+")
    entity:        list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Response, answers=AlterClientQuotasRequest):
    throttle_time_ms: int                     = int32()
    entries:          list[ResponseEntryData] = array(ResponseEntryData)
