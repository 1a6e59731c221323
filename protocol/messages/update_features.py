"""Finalized feature levels are changed (KIP-584).

  v1  kind of upgrade, validate_only (KIP-778)
  v2  all updates or none, without results of each (KIP-584)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, string


class FeatureUpdateKey(Message):
    feature:           str  = string()
    max_version_level: int  = int16()
    allow_downgrade:   bool = bool_("0", default=False)
    upgrade_type:      int  = int8("1+", default=1)


class UpdateFeaturesRequest(Request, key=57, versions="0-2", flexible="0+"):
    timeout_ms:      int                    = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only:   bool                   = bool_("1+", default=False)


class UpdatableFeatureResult(Message):
    feature:       str        = string()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+")


class UpdateFeaturesResponse(Response, answers=UpdateFeaturesRequest):
    throttle_time_ms: int                          = int32()
    error_code:       int                          = int16()
    error_message:    str | None                   = string(nullable="0+")
    results:          list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", default=[], ignorable=True)
