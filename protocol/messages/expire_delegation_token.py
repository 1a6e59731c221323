"""A delegation token ends sooner, or at once (KIP-48).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Request, Response, bytes_, int16, int32, int64


class ExpireDelegationTokenRequest(Request, key=40, versions="0-2", flexible="2+"):
    hmac:                  bytes = bytes_()
    expiry_time_period_ms: int   = int64()


class ExpireDelegationTokenResponse(Response, answers=ExpireDelegationTokenRequest):
    error_code:          int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms:    int = int32()
