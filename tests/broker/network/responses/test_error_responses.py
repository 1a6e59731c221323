from __future__ import annotations

import pytest

from broker.network.responses.error_responses import TOP_LEVEL
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.list_offsets import ListOffsetsRequest


def test_a_response_with_an_error_code_carries_it_and_is_empty_otherwise() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    response = TOP_LEVEL(request, 4, ErrorCode.NOT_COORDINATOR, "ignored")
    assert isinstance(response, HeartbeatResponse)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert response.encode(4)
    response = TOP_LEVEL(ApiVersionsRequest(), 3, ErrorCode.INVALID_REQUEST, None)
    assert isinstance(response, ApiVersionsResponse)
    assert response.api_keys == []
    assert response.encode(3)


@pytest.mark.parametrize("version", range(10))
def test_it_can_be_encoded_in_every_version(version: int) -> None:
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    response = TOP_LEVEL(request, version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert isinstance(response, JoinGroupResponse)
    assert JoinGroupResponse.decode(response.encode(version), version).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_message_goes_where_there_is_a_place_for_it() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    response = TOP_LEVEL(request, 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    assert isinstance(response, DescribeClusterResponse)
    assert response.error_message == "not you"


def test_others_cannot_tell() -> None:
    assert TOP_LEVEL(ListOffsetsRequest(replica_id=-1, topics=[]), 5, ErrorCode.UNKNOWN_SERVER_ERROR, None) is None
