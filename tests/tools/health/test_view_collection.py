"""A view of a cluster whose brokers are scripted: what is asked of whom, and what a broker that stops to respond costs."""

from __future__ import annotations

from typing import Any

from client.admin.configs import ResourceKind
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.doubles.clock import ManualClock
from tests.tools.health.scripted_brokers import ScriptedBrokers
from tools.health.requests import Unanswered
from tools.health.view import TOPIC_SETTINGS, ClusterView
from tools.health.view_collection import STALLED_FOR_MS, TOPICS_PER_REQUEST, collect_view


class Stage:
    """Two brokers; broker 1 is the controller. `waits_for_store`: none responds about settings of topics."""

    def __init__(self, topics: int) -> None:
        self.clock = ManualClock()
        self.brokers = ScriptedBrokers(self.clock, self._respond)
        self._topics = [f"topic-{number:05d}" for number in range(topics)]
        self.waits_for_store = False
        self.asked_topics: list[tuple[int, list[str]]] = []

    def collect(self, previous: ClusterView | None = None) -> ClusterView:
        return collect_view(self.brokers.as_requests, self.clock, 0, previous)

    def _respond(self, broker: int, request: Any) -> Any:
        match request:
            case MetadataRequest():
                return self._metadata()
            case DescribeConfigsRequest(resources=[first, *_]) if first.resource_type == ResourceKind.TOPIC:
                names = [each.resource_name for each in request.resources]
                self.asked_topics.append((broker, names))
                return Unanswered("no answer in time") if self.waits_for_store else _settings(names)
            case DescribeConfigsRequest():
                return DescribeConfigsResponse(throttle_time_ms=0, results=[])
            case ListOffsetsRequest():
                return ListOffsetsResponse(topics=[])
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse(
                    throttle_time_ms=0, error_code=0, error_message=None, topics=[]
                )
            case ListGroupsRequest():
                return ListGroupsResponse(error_code=0, groups=[])
            case DescribeLogDirsRequest():
                return DescribeLogDirsResponse(throttle_time_ms=0, results=[])
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        row = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=number, host="host", port=9092) for number in (1, 2)],
            cluster_id="scripted",
            controller_id=1,
            topics=[MetadataResponseTopic(error_code=0, name=name, partitions=[row]) for name in self._topics],
        )


def _settings(topics: list[str]) -> DescribeConfigsResponse:
    row = DescribeConfigsResourceResult(name="min.insync.replicas", value="2", read_only=False, is_sensitive=False)
    return DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[
            DescribeConfigsResult(
                error_code=0, error_message=None, resource_type=ResourceKind.TOPIC, resource_name=name, configs=[row]
            )
            for name in topics
        ],
    )


def test_settings_of_topics_are_asked_for_in_parts_of_all_brokers_behind_one_that_shows_whether_they_come() -> None:
    stage = Stage(topics=2 * TOPICS_PER_REQUEST + 2)
    view = stage.collect()
    assert [(broker, len(names)) for broker, names in stage.asked_topics] == [
        (1, 1), (1, TOPICS_PER_REQUEST), (2, TOPICS_PER_REQUEST), (1, 1),
    ]  # fmt: skip
    assert len(view.topic_settings) == 2 * TOPICS_PER_REQUEST + 2
    assert (view.stalls, view.unseen) == ((), ())


def test_a_store_that_does_not_respond_costs_one_request_a_minute() -> None:
    stage = Stage(topics=3)
    settled = stage.collect()
    stage.waits_for_store = True
    stage.asked_topics.clear()
    first = stage.collect(settled)
    assert [(each.broker_id, each.what) for each in first.stalls] == [(1, TOPIC_SETTINGS)]
    second = stage.collect(first)
    assert second.stalls == first.stalls
    assert stage.asked_topics == [(1, ["topic-00000"])]
    stage.clock.now_ms += STALLED_FOR_MS
    assert stage.collect(second).stalls
    assert len(stage.asked_topics) == 2
    stage.clock.now_ms += STALLED_FOR_MS
    stage.waits_for_store = False
    assert stage.collect(second).stalls == ()


def test_what_a_silent_broker_would_know_is_not_seen() -> None:
    stage = Stage(topics=1)
    stage.brokers.hung = {2}
    view = stage.collect()
    assert view.brokers[2].round_trip_ms is None
    assert view.unseen == ("groups, disks and offsets of broker 2: it does not answer",)
