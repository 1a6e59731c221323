"""What a client asks first: the APIs and versions that this broker speaks. Unknown versions are answered as v0.

  v1  throttle time
  v2  throttling happens after the answer (KIP-219)
  v3  flexible; software name and version (KIP-511), features (KIP-584)
  v4  a feature's lowest version may be 0
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int16, int32, int64, string


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name:    str = string("3+", default="", ignorable=True)
    client_software_version: str = string("3+", default="", ignorable=True)


class ApiVersion(Message):
    api_key:     int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Message):
    name:        str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Message):
    name:              str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Response, answers=ApiVersionsRequest):
    error_code:               int                       = int16()
    api_keys:                 list[ApiVersion]          = array(ApiVersion)
    throttle_time_ms:         int                       = int32("1+", default=0, ignorable=True)
    supported_features:       list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0,
                                                                default=[], ignorable=True)
    finalized_features_epoch: int                       = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features:       list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2,
                                                                default=[], ignorable=True)
    zk_migration_ready:       bool                      = bool_("3+", tag=3, default=False, ignorable=True)
