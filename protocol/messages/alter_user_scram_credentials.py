"""SCRAM credentials are set or deleted (KIP-554)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bytes_, int8, int16, int32, string


class ScramCredentialDeletion(Message):
    name:      str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Message):
    name:            str   = string()
    mechanism:       int   = int8()
    iterations:      int   = int32()
    salt:            bytes = bytes_()
    salted_password: bytes = bytes_()


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    deletions:  list[ScramCredentialDeletion]  = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Message):
    user:          str        = string()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Response, answers=AlterUserScramCredentialsRequest):
    throttle_time_ms: int                                   = int32()
    results:          list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
