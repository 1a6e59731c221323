"""A delegation token is made (KIP-48).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
  v3  owner and requester (KIP-373)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bytes_, int16, int32, int64, string


class CreatableRenewers(Message):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request, key=38, versions="0-3", flexible="2+"):
    owner_principal_type: str | None              = string("3+", nullable="3+", default="")
    owner_principal_name: str | None              = string("3+", nullable="3+", default="")
    renewers:             list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms:      int                     = int64()


class CreateDelegationTokenResponse(Response, answers=CreateDelegationTokenRequest):
    error_code:                     int   = int16()
    principal_type:                 str   = string()
    principal_name:                 str   = string()
    token_requester_principal_type: str   = string("3+", default="")
    token_requester_principal_name: str   = string("3+", default="")
    issue_timestamp_ms:             int   = int64()
    expiry_timestamp_ms:            int   = int64()
    max_timestamp_ms:               int   = int64()
    token_id:                       str   = string()
    hmac:                           bytes = bytes_()
    throttle_time_ms:               int   = int32()
