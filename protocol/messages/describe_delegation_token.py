"""The delegation tokens of owners (KIP-48).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
  v3  requester (KIP-373)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bytes_, int16, int32, int64, string


class DescribeDelegationTokenOwner(Message):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request, key=41, versions="0-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Message):
    principal_type:                 str                                   = string()
    principal_name:                 str                                   = string()
    token_requester_principal_type: str                                   = string("3+", default="")
    token_requester_principal_name: str                                   = string("3+", default="")
    issue_timestamp:                int                                   = int64()
    expiry_timestamp:               int                                   = int64()
    max_timestamp:                  int                                   = int64()
    token_id:                       str                                   = string()
    hmac:                           bytes                                 = bytes_()
    renewers:                       list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response, answers=DescribeDelegationTokenRequest):
    error_code:       int                            = int16()
    tokens:           list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int                            = int32()
