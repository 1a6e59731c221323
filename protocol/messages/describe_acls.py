"""The access rules that match a filter (KIP-140).

  v1  pattern type (KIP-290)
  v2  flexible (KIP-482)
  v3  resource type USER (KIP-373)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class DescribeAclsRequest(Request, key=29, versions="0-3", flexible="2+"):
    resource_type_filter: int        = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter:  int        = int8("1+", default=3)
    principal_filter:     str | None = string(nullable="0+")
    host_filter:          str | None = string(nullable="0+")
    operation:            int        = int8()
    permission_type:      int        = int8()


class AclDescription(Message):
    principal:       str = string()
    host:            str = string()
    operation:       int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Message):
    resource_type: int                  = int8()
    resource_name: str                  = string()
    pattern_type:  int                  = int8("1+", default=3)
    acls:          list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Response, answers=DescribeAclsRequest):
    throttle_time_ms: int                        = int32()
    error_code:       int                        = int16()
    error_message:    str | None                 = string(nullable="0+")
    resources:        list[DescribeAclsResource] = array(DescribeAclsResource)
