"""The access rules that match filters are removed (KIP-140).

  v1  pattern type (KIP-290)
  v2  flexible (KIP-482)
  v3  resource type USER (KIP-373)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class DeleteAclsFilter(Message):
    resource_type_filter: int        = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter:  int        = int8("1+", default=3)
    principal_filter:     str | None = string(nullable="0+")
    host_filter:          str | None = string(nullable="0+")
    operation:            int        = int8()
    permission_type:      int        = int8()


class DeleteAclsRequest(Request, key=31, versions="0-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Message):
    error_code:      int        = int16()
    error_message:   str | None = string(nullable="0+")
    resource_type:   int        = int8()
    resource_name:   str        = string()
    pattern_type:    int        = int8("1+", default=3)
    principal:       str        = string()
    host:            str        = string()
    operation:       int        = int8()
    permission_type: int        = int8()


class DeleteAclsFilterResult(Message):
    error_code:    int                         = int16()
    error_message: str | None                  = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Response, answers=DeleteAclsRequest):
    throttle_time_ms: int                          = int32()
    filter_results:   list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
