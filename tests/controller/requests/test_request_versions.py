"""Control requests in every version: they encode, say what the version can say, and their answers read the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from config.inter_broker_version import InterBrokerVersion
from controller.requests import request_versions
from controller.requests.network_channel import NetworkChannel
from controller.requests.request_batch import ControlRequest
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Request, Response

R = TypeVar("R", bound=Response)
TOPIC_ID = b"\7" * 16

LEADER_AND_ISR = LeaderAndIsrRequest(
    controller_id=1,
    controller_epoch=4,
    broker_epoch=99,
    topic_states=[
        LeaderAndIsrTopicState(
            topic_name=name,
            topic_id=topic_id,
            partition_states=[
                LeaderAndIsrPartitionState(
                    partition_index=index,
                    controller_epoch=4,
                    leader=1,
                    leader_epoch=7,
                    isr=[1],
                    partition_epoch=3,
                    replicas=[1, 2, 3],
                    adding_replicas=[3],
                    removing_replicas=[2],
                    is_new=True,
                    leader_recovery_state=1,
                )
                for index in (0, 1)
            ],
        )
        for name, topic_id in (("a", TOPIC_ID), ("b", ZERO_UUID))
    ],
    live_leaders=[LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=9)],
)
UPDATE_METADATA = UpdateMetadataRequest(
    controller_id=1,
    controller_epoch=4,
    broker_epoch=99,
    topic_states=[
        UpdateMetadataTopicState(
            topic_name="a",
            topic_id=TOPIC_ID,
            partition_states=[
                UpdateMetadataPartitionState(
                    partition_index=2,
                    controller_epoch=4,
                    leader=1,
                    leader_epoch=7,
                    isr=[1],
                    zk_version=3,
                    replicas=[1, 2],
                    offline_replicas=[2],
                )
            ],
        )
    ],
    live_brokers=[
        UpdateMetadataBroker(
            id=1,
            endpoints=[
                UpdateMetadataEndpoint(port=1, host="s", listener="TLS", security_protocol=1),
                UpdateMetadataEndpoint(port=2, host="p", listener="IN", security_protocol=0),
            ],
            rack="r",
        ),
        UpdateMetadataBroker(
            id=2, endpoints=[UpdateMetadataEndpoint(port=1, host="s", listener="TLS", security_protocol=1)]
        ),
    ],
)
STOP_REPLICA = StopReplicaRequest(
    controller_id=1,
    controller_epoch=4,
    broker_epoch=99,
    topic_states=[
        StopReplicaTopicState(
            topic_name="a",
            partition_states=[
                StopReplicaPartitionState(partition_index=0, leader_epoch=5, delete_partition=True),
                StopReplicaPartitionState(partition_index=1, leader_epoch=5, delete_partition=False),
            ],
        )
    ],
)


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr(version: int) -> None:
    sent = request_versions.leader_and_isr(LEADER_AND_ISR, version)
    read = LeaderAndIsrRequest.decode(sent.encode(version), version)
    if version >= 2:
        names = [topic.topic_name for topic in read.topic_states for _ in topic.partition_states]
        states = [state for topic in read.topic_states for state in topic.partition_states]
    else:
        names = [state.topic_name for state in read.ungrouped_partition_states]
        states = read.ungrouped_partition_states
    assert names == ["a", "a", "b", "b"]
    assert [state.partition_index for state in states] == [0, 1, 0, 1]
    assert all(state.leader_epoch == 7 and state.replicas == [1, 2, 3] for state in states)
    assert all(state.is_new is (version >= 1) for state in states)
    assert all(state.adding_replicas == ([3] if version >= 3 else []) for state in states)
    assert all(state.leader_recovery_state == (1 if version >= 6 else 0) for state in states)
    assert read.broker_epoch == (99 if version >= 2 else -1)
    assert (read.controller_id, read.controller_epoch) == (1, 4)
    assert [leader.host_name for leader in read.live_leaders] == ["h"]
    if version >= 5:
        assert [topic.topic_id for topic in read.topic_states] == [TOPIC_ID, ZERO_UUID]


def test_leader_and_isr_answers_by_name_are_read_by_id() -> None:
    rows = [
        LeaderAndIsrPartitionError(topic_name="a", partition_index=1, error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        LeaderAndIsrPartitionError(topic_name="b", partition_index=0, error_code=ErrorCode.NONE),
    ]
    old = LeaderAndIsrResponse(error_code=0, partition_errors=rows)
    new = request_versions.newest_leader_and_isr_response(LEADER_AND_ISR, old, 4)
    assert [(topic.topic_id, [row.partition_index for row in topic.partition_errors]) for topic in new.topics] == [
        (TOPIC_ID, [1])
    ]
    assert [row.topic_name for row in new.partition_errors] == ["b"], "a topic without an id stays by name"
    assert request_versions.newest_leader_and_isr_response(LEADER_AND_ISR, old, 7) is old


@pytest.mark.parametrize("version", range(9))
def test_update_metadata(version: int) -> None:
    sent = request_versions.update_metadata(UPDATE_METADATA, version)
    read = UpdateMetadataRequest.decode(sent.encode(version), version)
    if version >= 5:
        [topic] = read.topic_states
        name, [state] = topic.topic_name, topic.partition_states
    else:
        [state] = read.ungrouped_partition_states
        name = state.topic_name
    assert (name, state.partition_index, state.leader, state.zk_version) == ("a", 2, 1, 3)
    assert state.offline_replicas == ([2] if version >= 4 else [])
    first, second = read.live_brokers
    if version == 0:
        assert (first.v0_host, first.v0_port, second.v0_host) == ("p", 2, "")
    else:
        assert [endpoint.port for endpoint in first.endpoints] == [1, 2]
        assert [endpoint.listener for endpoint in first.endpoints] == (["TLS", "IN"] if version >= 3 else ["", ""])
    assert read.broker_epoch == (99 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(5))
def test_stop_replica(version: int) -> None:
    sent = request_versions.stop_replica(STOP_REPLICA, version)
    read = [StopReplicaRequest.decode(each.encode(version), version) for each in sent]
    if version >= 3:
        [request] = read
        states = request.topic_states[0].partition_states
        assert [(state.partition_index, state.delete_partition) for state in states] == [(0, True), (1, False)]
        return
    assert [request.delete_partitions for request in read] == [True, False]
    if version == 0:
        named = [[(row.topic_name, row.partition_index) for row in each.ungrouped_partitions] for each in read]
        assert named == [[("a", 0)], [("a", 1)]]
    else:
        assert [[(row.name, row.partition_indexes) for row in each.topics] for each in read] == [
            [("a", [0])],
            [("a", [1])],
        ]


class FakeClient:
    """Answers what `answer` says, after the request went through the codec."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.sent: list[tuple[str, int]] = []
        self.is_closed = False
        self._answer = answer

    async def send(self, request: Request, version: int, response_type: type[R]) -> R:
        self.sent.append((request.api_name, version))
        response = self._answer(type(request).decode(request.encode(version), version))
        assert isinstance(response, response_type)
        return response_type.decode(response.encode(version), version)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("release", ["0.9.0", "1.0", "2.3", "2.7", "3.3", "3.9"])
async def test_a_channel_speaks_the_version_of_the_setting(release: str) -> None:
    version = InterBrokerVersion.parse(release)

    def answer(request: Request) -> Response:
        match request:
            case LeaderAndIsrRequest():
                return LeaderAndIsrResponse(error_code=0)
            case StopReplicaRequest():
                failed = ErrorCode.KAFKA_STORAGE_ERROR if request.delete_partitions else ErrorCode.NONE
                row = StopReplicaPartitionError(topic_name="a", partition_index=0, error_code=failed)
                return StopReplicaResponse(error_code=0, partition_errors=[row])
            case _:
                return UpdateMetadataResponse(error_code=0)

    client = FakeClient(answer)
    channel = NetworkChannel(client, version)  # type: ignore[arg-type]
    requests: list[ControlRequest] = [LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA]
    responses = [await channel.send(request) for request in requests]
    assert [type(each) for each in responses] == [LeaderAndIsrResponse, UpdateMetadataResponse, StopReplicaResponse]
    stops = [("StopReplica", version.stop_replica)] * (2 if version.stop_replica < 3 else 1)
    assert client.sent == [
        ("LeaderAndIsr", version.leader_and_isr),
        ("UpdateMetadata", version.update_metadata),
        *stops,
    ]
    stopped = responses[2]
    assert isinstance(stopped, StopReplicaResponse)
    assert len(stopped.partition_errors) == len(stops)
    channel.close()
    assert client.is_closed
