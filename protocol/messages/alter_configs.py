"""All dynamic settings of a resource are replaced (KIP-133); IncrementalAlterConfigs changes single ones.

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, string


class AlterableConfig(Message):
    name:  str        = string()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Message):
    resource_type: int                   = int8()
    resource_name: str                   = string()
    configs:       list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    resources:     list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool                       = bool_()


class AlterConfigsResourceResponse(Message):
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int        = int8()
    resource_name: str        = string()


class AlterConfigsResponse(Response, answers=AlterConfigsRequest):
    throttle_time_ms: int                                = int32()
    responses:        list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
