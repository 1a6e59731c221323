"""Access rules are added (KIP-140).

  v1  pattern type (KIP-290)
  v2  flexible (KIP-482)
  v3  resource type USER (KIP-373)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class AclCreation(Message):
    resource_type:         int = int8()
    resource_name:         str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal:             str = string()
    host:                  str = string()
    operation:             int = int8()
    permission_type:       int = int8()


class CreateAclsRequest(Request, key=30, versions="0-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Message):
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+")


class CreateAclsResponse(Response, answers=CreateAclsRequest):
    throttle_time_ms: int                     = int32()
    results:          list[AclCreationResult] = array(AclCreationResult)
