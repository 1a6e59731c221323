"""Settings of topics and brokers, with where each value comes from (KIP-133).

  v1  sources and synonyms (KIP-226)
  v2  throttling happens after the answer (KIP-219)
  v3  types and documentation (KIP-569)
  v4  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.primitives import Encoded
from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, string


class DescribeConfigsResource(Message):
    resource_type:      int              = int8()
    resource_name:      str              = string()
    configuration_keys: list[str] | None = array(string, nullable="0+")


class DescribeConfigsRequest(Request, key=32, versions="0-4", flexible="4+"):
    resources:             list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms:      bool                          = bool_("1+", default=False)
    include_documentation: bool                          = bool_("3+", default=False)


class DescribeConfigsSynonym(Message):
    name:   str        = string("1+")
    value:  str | None = string("1+", nullable="0+")
    source: int        = int8("1+")


class DescribeConfigsResourceResult(Message):
    name:          str                          = string()
    value:         str | None                   = string(nullable="0+")
    read_only:     bool                         = bool_()
    is_default:    bool                         = bool_("0", default=False)
    config_source: int                          = int8("1+", default=-1, ignorable=True)
    is_sensitive:  bool                         = bool_()
    synonyms:      list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", default=[], ignorable=True)
    config_type:   int                          = int8("3+", default=0, ignorable=True)
    documentation: str | None                   = string("3+", nullable="0+", default="", ignorable=True)


class DescribeConfigsResult(Message):
    error_code:    int                                           = int16()
    error_message: str | None                                    = string(nullable="0+")
    resource_type: int                                           = int8()
    resource_name: str                                           = string()
    configs:       list[DescribeConfigsResourceResult] | Encoded = array(DescribeConfigsResourceResult,
                                                                         may_be_encoded=True)


class DescribeConfigsResponse(Response, answers=DescribeConfigsRequest):
    throttle_time_ms: int                         = int32()
    results:          list[DescribeConfigsResult] = array(DescribeConfigsResult)
