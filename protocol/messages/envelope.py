"""A broker passes a client's request on to the controller, with the client's principal (KIP-590)."""

from __future__ import annotations

from protocol.schema import Request, Response, bytes_, int16


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+"):
    request_data:        bytes        = bytes_()
    request_principal:   bytes | None = bytes_(nullable="0+")
    client_host_address: bytes        = bytes_()


class EnvelopeResponse(Response, answers=EnvelopeRequest):
    response_data: bytes | None = bytes_(nullable="0+", default=None)
    error_code:    int          = int16()
