"""A client chooses the SASL mechanism.

  v0  bare tokens follow, outside the protocol
  v1  SaslAuthenticate follows (KIP-152)
"""

from __future__ import annotations

from protocol.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Response, answers=SaslHandshakeRequest):
    error_code: int       = int16()
    mechanisms: list[str] = array(string)
