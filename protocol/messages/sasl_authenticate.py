"""One step of the SASL exchange that SaslHandshake began (KIP-152).

  v1  session lifetime, for re-authentication (KIP-368)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Request, Response, bytes_, int16, int64, string


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(Response, answers=SaslAuthenticateRequest):
    error_code:          int        = int16()
    error_message:       str | None = string(nullable="0+")
    auth_bytes:          bytes      = bytes_()
    session_lifetime_ms: int        = int64("1+", default=0, ignorable=True)
