from __future__ import annotations

import logging

import pytest

from broker.handlers.brokers.api_versions import api_versions
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import unsupported_api_versions
from metadata.features import NEWEST, NO_LEVELS, FeatureLevels
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from security.access import NOTHING
from tests.broker.harness import Broker


@handles(HeartbeatRequest, NOTHING)
async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=ErrorCode.NONE)


@handles(FetchRequest, NOTHING, versions="4-17")
def fetch(_: FetchRequest, __: RequestContext) -> FetchResponse:
    return FetchResponse(responses=[])


def ask(request: ApiVersionsRequest, version: int, levels: FeatureLevels = NO_LEVELS) -> ApiVersionsResponse:
    broker = Broker([heartbeat, fetch, api_versions])
    broker.levels.publish(levels, 0)
    peer = broker.connect()
    peer.send(request, version)
    (answer,) = peer.answers()
    assert isinstance(answer, ApiVersionsResponse)
    return answer


@pytest.mark.parametrize("version", range(5))
def test_the_rows_are_the_table_of_handlers(version: int) -> None:
    answer = ask(ApiVersionsRequest(client_software_name="test", client_software_version="1.0"), version)
    assert answer.error_code == ErrorCode.NONE
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
        (1, 4, 17),
        (12, 0, 4),
        (18, 0, 4),
    ]
    assert answer.supported_features == answer.finalized_features == []
    assert answer.finalized_features_epoch == (0 if version >= 3 else -1)
    assert not answer.zk_migration_ready


@pytest.mark.parametrize("version", [2, 3, 4])
def test_levels_are_told_and_those_that_begin_at_zero_only_from_v4_on(version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = ask(request, version, FeatureLevels(transaction=1))
    assert [(row.name, row.min_version, row.max_version) for row in answer.supported_features] == (
        [(name, 0, newest) for name, newest in NEWEST.items()] if version >= 4 else []
    )
    assert [(row.name, row.min_version_level, row.max_version_level) for row in answer.finalized_features] == (
        [("transaction.version", 1, 1)] if version >= 3 else []
    )


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1."), ("a\n", "1"), ("ä", "1"), ("a_b", "1")],
)
def test_software_names_are_checked_from_v3_on(name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    answer = ask(request, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.api_keys == []
    assert ask(request, 2).error_code == ErrorCode.NONE


def test_the_software_is_remembered() -> None:
    broker = Broker([api_versions])
    peer = broker.connect()
    peer.send(ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="3.9.1"), 4)
    assert peer.handler.client.software == ("apache-kafka-java", "3.9.1")


def test_the_answer_to_an_unsupported_version_names_the_served_ones() -> None:
    answer = unsupported_api_versions(0, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.encode(0) == b"\x00\x23" + b"\0\0\0\1" + b"\x00\x12\x00\x00\x00\x04"


def test_an_unknown_api_is_not_advertised_and_closes(caplog: pytest.LogCaptureFixture) -> None:
    peer = Broker([api_versions]).connect()
    with caplog.at_level(logging.WARNING):
        peer.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert peer.stream.is_closed
    assert "API key 12 version 4 is not served" in caplog.text
