"""Single settings are set, deleted, appended to or subtracted from (KIP-339).

  v1  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, string


class AlterableConfig(Message):
    name:             str        = string()
    config_operation: int        = int8()
    value:            str | None = string(nullable="0+")


class AlterConfigsResource(Message):
    resource_type: int                   = int8()
    resource_name: str                   = string()
    configs:       list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, key=44, versions="0-1", flexible="1+"):
    resources:     list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool                       = bool_()


class AlterConfigsResourceResponse(Message):
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int        = int8()
    resource_name: str        = string()


class IncrementalAlterConfigsResponse(Response, answers=IncrementalAlterConfigsRequest):
    throttle_time_ms: int                                = int32()
    responses:        list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
