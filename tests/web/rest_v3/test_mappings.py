"""What brokers say, as resources: forms that a healthy broker does not show."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from client.errors import NotAuthenticated
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition
from tools.group_lag import PartitionLag
from web.rest_v3.clusters import cluster_data
from web.rest_v3.errors import problem_of
from web.rest_v3.groups import lag_data, state_name, summary_data
from web.rest_v3.links import Links
from web.rest_v3.partitions import partition_data, reassignment_data, replica_data
from web.rest_v3.resources import ClusterData, ConsumerGroupLagSummaryData, PartitionData, ReassignmentData
from web.rest_v3.topics import operations_of

LINKS = Links("https://kafka.example.com", "c-1")
HERE = "https://kafka.example.com/v3/clusters/c-1"


def test_links_are_encoded() -> None:
    assert LINKS.to("consumer-groups", "a/b c?", "lags") == f"{HERE}/consumer-groups/a%2Fb%20c%3F/lags"
    assert LINKS.to("acls", query={"principal": "User:a b"}) == f"{HERE}/acls?principal=User%3Aa+b"
    assert LINKS.name("consumer-group", "a/b") == "crn:///kafka=c-1/consumer-group=a%2Fb"


def test_a_cluster_without_a_controller() -> None:
    data = cluster_data(LINKS, MetadataResponse(brokers=[], controller_id=-1, topics=[]))
    assert TypeAdapter(ClusterData).validate_python(data) and "controller" not in data


def test_a_partition_without_a_leader() -> None:
    partition = MetadataResponsePartition(
        error_code=5, partition_index=3, leader_id=-1, replica_nodes=[1, 2], isr_nodes=[2]
    )
    data = partition_data(LINKS, "t", partition)
    assert TypeAdapter(PartitionData).validate_python(data) and "leader" not in data
    replicas = [replica_data(LINKS, "t", partition, each) for each in (1, 2)]
    assert [(each["is_leader"], each["is_in_sync"]) for each in replicas] == [(False, False), (False, True)]


def test_a_reassignment() -> None:
    moving = OngoingPartitionReassignment(
        partition_index=0, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    data = TypeAdapter(ReassignmentData).validate_python(reassignment_data(LINKS, ("t", 0), moving))
    assert (data["adding_replicas"], data["removing_replicas"]) == ([3], [1])
    assert data["metadata"] == {
        "self": f"{HERE}/topics/t/partitions/0/reassignment",
        "resource_name": "crn:///kafka=c-1/topic=t/partition=0/reassignment",
    }


def test_the_summary_of_lags_nobody_reads() -> None:
    def row(partition: int, current: int | None, end: int | None) -> PartitionLag:
        return PartitionLag("t", partition, current, end, lag=None)

    assert lag_data(LINKS, "g", row(0, None, 9), {}) is None
    assert lag_data(LINKS, "g", row(0, 1, None), {}) is None
    rows = [found for each in (row(0, 1, 9), row(1, 5, 3)) if (found := lag_data(LINKS, "g", each, {})) is not None]
    data = TypeAdapter(ConsumerGroupLagSummaryData).validate_python(summary_data(LINKS, "g", rows))
    assert (data["max_lag"], data["total_lag"], data["max_lag_consumer_id"]) == (8, 8, "")
    assert data["max_lag_consumer"] == {"related": f"{HERE}/consumer-groups/g/consumers"}


@pytest.mark.parametrize(
    ("state", "name"),
    [("PreparingRebalance", "PREPARING_REBALANCE"), ("Empty", "EMPTY"), ("Assigning", "ASSIGNING"), ("", "UNKNOWN")],
)
def test_states_of_groups(state: str, name: str) -> None:
    assert state_name(state) == name


def test_operations() -> None:
    assert operations_of(1 << 3 | 1 << 8) == ["READ", "DESCRIBE"]
    assert operations_of(-(2**31)) == []


@pytest.mark.parametrize(
    ("error", "status", "number"),
    [
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), 400, 40002),
        (KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED), 403, 40301),
        (KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED), 401, 40101),
        (KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED), 429, 42901),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), 500, 50003),
        (KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), 500, 50002),
        (KafkaError(ErrorCode.BROKER_NOT_AVAILABLE), 503, 50302),
        (NotAuthenticated("wrong password"), 401, 40101),
        (OSError("refused"), 503, 50003),
    ],
)
def test_errors(error: Exception, status: int, number: int) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.number) == (status, number) and problem.message
