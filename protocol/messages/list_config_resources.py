"""The resources that have settings of their own: up to v0 only client metrics (KIP-1000, KIP-1142).

  v1  kinds of resources
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+", default=[])


class ConfigResource(Message):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, answers=ListConfigResourcesRequest):
    throttle_time_ms: int                  = int32()
    error_code:       int                  = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
