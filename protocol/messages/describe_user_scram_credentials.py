"""Which SCRAM credentials users have, never the credentials (KIP-554)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class UserName(Message):
    name: str = string()


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Message):
    mechanism:  int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Message):
    user:             str                  = string()
    error_code:       int                  = int16()
    error_message:    str | None           = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Response, answers=DescribeUserScramCredentialsRequest):
    throttle_time_ms: int                                      = int32()
    error_code:       int                                      = int16()
    error_message:    str | None                               = string(nullable="0+")
    results:          list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
