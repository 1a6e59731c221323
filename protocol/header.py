"""Encodes and decodes the headers of requests and responses, and complete frames of header and message.

No IO. Request headers: v0 (ControlledShutdown v0 only), v1 (client id), v2 (tagged fields, for flexible versions; the client id
stays a classic string). Response headers: v0 and, for flexible versions, v1; the response to ApiVersions always has v0, because
a client sends it before it knows the broker's versions (KIP-511). Source: the RequestHeader and ResponseHeader definitions;
ApiKeys.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeVar

from protocol.java_text import AS_JAVA
from protocol.primitives import Buffer, DecodeError, encode_nullable_string
from protocol.schema import MAX_ELEMENTS, Request, Response
from protocol.varint import decode_uvarint

_API_VERSIONS: Final = 18
_CONTROLLED_SHUTDOWN: Final = 7
_NEVER: Final = 32767

# The first flexible version of each API by key: needed before the message's class is known. A test keeps it equal to
# the classes.
_FLEXIBLE_FROM: Final[dict[int, int]] = {
    0: 9, 1: 12, 2: 6, 3: 9, 4: 4, 5: 2, 6: 6, 7: 3, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5,
    16: 3, 17: _NEVER, 18: 3, 19: 5, 20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2,
    32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: _NEVER,
    48: 1, 49: 1, 50: 0, 51: 0, 56: 0, 57: 0, 58: 0, 60: 0, 61: 0, 65: 0, 66: 0, 67: 0, 68: 0, 69: 0, 71: 0, 72: 0,
    74: 0, 76: 0, 77: 0, 78: 0, 79: 0, 83: 0, 84: 0, 85: 0, 86: 0, 87: 0, 90: 0, 91: 0, 92: 0,
}  # fmt: skip

_REQUEST_START = struct.Struct(">hhi")
_REQUEST_START_AND_LENGTH = struct.Struct(">hhih")
_FRAMED_REQUEST_START = struct.Struct(">ihhi")
_RESPONSE_V0 = struct.Struct(">ii")
_RESPONSE_V1 = struct.Struct(">iix")
_CORRELATION_ID = struct.Struct(">i")

R = TypeVar("R", bound=Response)


@dataclass(slots=True)
class RequestHeader:
    """A request header. `client_id` is None when the client sent null, or none at all (header v0)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, version: int) -> int:
    """Return the version of the request header. Raises DecodeError for an API key that a broker in ZooKeeper mode lacks."""
    flexible_from = _FLEXIBLE_FROM.get(api_key)
    if flexible_from is None:
        raise DecodeError(f"unknown API key {api_key}")
    if version >= flexible_from:
        return 2
    return 0 if api_key == _CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(api_key: int, version: int) -> int:
    if api_key == _API_VERSIONS:
        return 0
    return 1 if version >= _FLEXIBLE_FROM[api_key] else 0


def decode_request_header(view: Buffer) -> tuple[RequestHeader, int]:
    """Decode the header at the start of a frame (after its length); return it and the message's position. Raises
    DecodeError."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START_AND_LENGTH.unpack_from(view)
    except struct.error:
        return _decode_header_v0(view)
    header_version = request_header_version(api_key, api_version)
    if header_version == 0:
        return _decode_header_v0(view)
    position = _REQUEST_START_AND_LENGTH.size
    client_id = None
    if length >= 0:
        end = position + length
        if end > len(view):
            raise DecodeError("the request ends inside its client id")
        client_id = str(view[position:end], "utf-8", AS_JAVA)
        position = end
    if header_version == 2:
        position = _skip_tags(view, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def _decode_header_v0(view: Buffer) -> tuple[RequestHeader, int]:
    try:
        api_key, api_version, correlation_id = _REQUEST_START.unpack_from(view)
    except struct.error:
        raise DecodeError("the request ends inside its header") from None
    if request_header_version(api_key, api_version) != 0:
        raise DecodeError("the request ends inside its header")
    return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST_START.size


def _skip_tags(view: Buffer, position: int) -> int:
    """Return the position after a section of tagged fields, all of which are unknown."""
    count, position = decode_uvarint(view, position)
    for _ in range(count):
        _tag, position = decode_uvarint(view, position)
        size, position = decode_uvarint(view, position)
        position += size
        if position > len(view):
            raise DecodeError("a tagged field of the header is longer than the input")
    return position


def encode_response(response: Response, version: int, correlation_id: int) -> list[Buffer]:
    """Encode a complete frame: length, header, message. Raises EncodeError."""
    chunks = response.encode_chunks(version)
    size = sum(map(len, chunks))
    if response_header_version(response.api_key, version):
        head = _RESPONSE_V1.pack(size + 5, correlation_id)
    else:
        head = _RESPONSE_V0.pack(size + 4, correlation_id)
    return _with_head(head, chunks)


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Encode a complete frame: length, header, message. Raises EncodeError."""
    chunks = request.encode_chunks(version)
    rest = b""
    header_version = request_header_version(request.api_key, version)
    if header_version >= 1:
        rest = encode_nullable_string(client_id)
    if header_version >= 2:
        rest += b"\x00"
    size = _REQUEST_START.size + len(rest) + sum(map(len, chunks))
    return _with_head(_FRAMED_REQUEST_START.pack(size, request.api_key, version, correlation_id) + rest, chunks)


def _with_head(head: bytes, chunks: list[Buffer]) -> list[Buffer]:
    # The first chunk is never a `records` value: other fields precede those in every message.
    chunks[0] = head + chunks[0]
    return chunks


def decode_response(
    data: Buffer, response_type: type[R], version: int, *, max_elements: int = MAX_ELEMENTS
) -> tuple[int, R]:
    """Decode the correlation id and the message of a frame (after its length). Raises DecodeError."""
    if len(data) < _CORRELATION_ID.size:
        raise DecodeError("the response ends inside its header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(data)
    position = _CORRELATION_ID.size
    if response_header_version(response_type.api_key, version):
        position = _skip_tags(data, position)
    return correlation_id, response_type.decode(data, version, position, max_elements=max_elements)
