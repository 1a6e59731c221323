"""Requests and responses of one connection: order, correlation ids, versions, and what a response says of the next request."""

from __future__ import annotations

import pytest

from client.exchange import Exchange
from client.throttling import SINCE
from protocol.errors import ErrorCode
from protocol.header import decode_request_header, encode_response
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest
from protocol.primitives import DecodeError
from protocol.schema import Response

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def frame(response: Response, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_response(response, version, correlation_id))[4:]


def id_of(chunks: list[bytes]) -> int:
    return decode_request_header(b"".join(chunks)[4:])[0].correlation_id


def test_responses_come_in_order_with_their_waiters() -> None:
    exchange = Exchange[str]("me")
    assert [id_of(exchange.request(BEAT, 4, name)) for name in "ab"] == [0, 1]  # type: ignore[arg-type]
    assert id_of(exchange.unanswered(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9)) == 2  # type: ignore[arg-type]
    exchange.request(BEAT, 4, "c")
    found = [
        exchange.response(frame(HeartbeatResponse(error_code=code), 4, number)) for code, number in ((7, 0), (8, 1))
    ]
    assert [(waiter, response.error_code) for waiter, response, _ in found] == [("a", 7), ("b", 8)]  # type: ignore[attr-defined]
    assert len(exchange) == 1
    assert list(exchange.abandoned()) == ["c"]
    assert len(exchange) == 0


def test_a_broken_stream() -> None:
    exchange = Exchange[str]("me")
    with pytest.raises(DecodeError, match="no request waits for"):
        exchange.response(frame(HeartbeatResponse(error_code=0), 4, 0))
    exchange.request(BEAT, 4, "a")
    for bad in (frame(HeartbeatResponse(error_code=0), 4, 5), b"\0\0\0\0\0", b""):
        with pytest.raises(DecodeError):
            exchange.response(bad)
    assert list(exchange.abandoned()) == ["a"]


def test_a_broker_that_does_not_know_the_version_of_api_versions_answers_in_the_oldest() -> None:
    exchange = Exchange[str]("me")
    exchange.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, "a")
    answer = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]
    )
    response = exchange.response(frame(answer, 0, 0))[1]
    assert isinstance(response, ApiVersionsResponse)
    assert response.api_keys[0].max_version == 2


@pytest.mark.parametrize(("version", "throttle_ms"), [(1, 0), (2, 900), (4, 900)])
def test_only_newer_versions_ask_for_quiet(version: int, throttle_ms: int) -> None:
    exchange = Exchange[str]("me")
    exchange.request(BEAT, version, "a")
    answer = HeartbeatResponse(error_code=0, throttle_time_ms=900)
    assert exchange.response(frame(answer, version, 0))[2] == throttle_ms
    assert SINCE[HeartbeatRequest.api_key] == 2
