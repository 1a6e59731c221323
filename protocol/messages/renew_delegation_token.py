"""A delegation token is prolonged (KIP-48).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Request, Response, bytes_, int16, int32, int64


class RenewDelegationTokenRequest(Request, key=39, versions="0-2", flexible="2+"):
    hmac:            bytes = bytes_()
    renew_period_ms: int   = int64()


class RenewDelegationTokenResponse(Response, answers=RenewDelegationTokenRequest):
    error_code:          int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms:    int = int32()
