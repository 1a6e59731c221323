"""Request and response headers, and whole frames."""

from __future__ import annotations

import random
import struct

import pytest

from protocol.header import (
    _FLEXIBLE_FROM,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.primitives import Buffer, DecodeError
from protocol.schema import Request
from tests.protocol.instances import instance, message_classes

REQUESTS = [cls for cls in message_classes() if issubclass(cls, Request)]


def test_the_table_of_flexible_versions_is_that_of_the_classes() -> None:
    assert {cls.api_key: cls.flexible_from for cls in REQUESTS} == _FLEXIBLE_FROM
    assert all(cls.response_type.flexible_from == cls.flexible_from for cls in REQUESTS)


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("client_id", [None, "", "client-ä"])
def test_request_round_trip(cls: type[Request], client_id: str | None) -> None:
    for version in range(cls.min_version, cls.max_version + 1):
        request = instance(cls, version, random.Random(version))
        assert isinstance(request, Request)
        frame = b"".join(encode_request(request, version, 77, client_id))
        assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
        header, position = decode_request_header(memoryview(frame)[4:])
        has_client_id = request_header_version(cls.api_key, version) > 0
        assert header == RequestHeader(cls.api_key, version, 77, client_id if has_client_id else None)
        assert cls.decode(memoryview(frame)[4:], version, position) == request


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
def test_response_round_trip(cls: type[Request]) -> None:
    kind = cls.response_type
    for version in range(kind.min_version, kind.max_version + 1):
        response = instance(kind, version, random.Random(version))
        frame = b"".join(encode_response(response, version, -5))
        assert struct.unpack_from(">ii", frame) == (len(frame) - 4, -5)
        assert decode_response(memoryview(frame)[4:], kind, version) == (-5, response)


def test_header_versions() -> None:
    assert request_header_version(7, 0) == 0  # ControlledShutdown
    assert request_header_version(7, 1) == 1
    assert request_header_version(12, 3) == 1 and request_header_version(12, 4) == 2
    assert response_header_version(12, 3) == 0 and response_header_version(12, 4) == 1
    assert response_header_version(18, 3) == 0  # ApiVersions
    with pytest.raises(DecodeError, match="unknown API key"):
        request_header_version(52, 0)


def spaced(chunks: list[Buffer]) -> str:
    return b"".join(chunks).hex(" ", -4)


def test_known_bytes() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert spaced(encode_request(request, 4, 7, "c")) == "00000016 000c0004 00000007 00016300 02670000 0001026d 0000"
    response = HeartbeatResponse(error_code=27)
    assert spaced(encode_response(response, 4, 7)) == "0000000c 00000007 00000000 00001b00"
    assert spaced(encode_response(response, 0, 7)) == "00000006 00000007 001b"
    versions = ApiVersionsResponse(error_code=0, api_keys=[])
    assert spaced(encode_response(versions, 3, 1)) == "0000000c 00000001 00000100 00000000"
    shutdown = ControlledShutdownRequest(broker_id=3)
    assert spaced(encode_request(shutdown, 0, 2, "ignored")) == "0000000c 00070000 00000002 00000003"


def test_unknown_tags_of_headers_are_skipped() -> None:
    start = struct.pack(">hhih", 18, 3, 9, -1)
    body = ApiVersionsRequest(client_software_name="n", client_software_version="1").encode(3)
    header, position = decode_request_header(start + b"\x01\x63\x02zz" + body)
    assert header == RequestHeader(18, 3, 9, None) and position == len(start) + 5
    response = struct.pack(">i", 4) + b"\x01\x00\x01x" + HeartbeatResponse(error_code=0).encode(4)
    assert decode_response(response, HeartbeatResponse, 4) == (4, HeartbeatResponse(error_code=0))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x12",
        struct.pack(">hhi", 18, 0, 1),
        struct.pack(">hhi", 7, 1, 1),
        struct.pack(">hhih", 99, 0, 1, -1),
        struct.pack(">hhih", 18, 0, 1, 5) + b"ab",
        struct.pack(">hhih", 18, 3, 1, -1),
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x01\x00\x09",
    ],
)
def test_malformed_request_headers(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(data)


def test_a_client_id_that_is_no_utf8() -> None:
    header, position = decode_request_header(struct.pack(">hhih", 18, 0, 1, 3) + b"m\xfcn")
    assert header.client_id == "m\N{REPLACEMENT CHARACTER}n" and position == 13


def test_malformed_responses() -> None:
    for data in (b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x01\x00\x7fx"):
        with pytest.raises(DecodeError):
            decode_response(data, HeartbeatResponse, 4)


def test_records_of_a_framed_response_are_not_copied() -> None:
    batch = bytes(5000)
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=batch)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    assert any(chunk is batch for chunk in encode_response(response, 12, 1))
