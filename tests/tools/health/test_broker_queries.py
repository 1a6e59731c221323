"""Queries to all brokers within a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.describe_producers import DescribeProducersResponse, PartitionResponse, TopicResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.doubles.clock import ManualClock
from tests.tools.health.scripted_brokers import ScriptedBrokers
from tools.health.broker_queries import ROUND_LIMIT_MS, STALLED_MS, BrokerQueries
from tools.health.requests import Unanswered
from tools.health.view import Stall

LIMIT_MS = 9_000
REQUEST = ListGroupsRequest()


def made(respond: Callable[[int, Any], Any]) -> tuple[BrokerQueries, ScriptedBrokers, ManualClock]:
    """Queries to brokers 1 and 2."""
    clock = ManualClock()
    brokers = ScriptedBrokers(clock, respond)

    def pause(duration_s: float) -> None:
        clock.now_ms += round(duration_s * 1000)

    queries = BrokerQueries(brokers.as_requests, clock, LIMIT_MS, pause)
    queries.responding = {1, 2}
    return queries, brokers, clock


def groups(_broker: int, _request: Any) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=0, groups=[])


def test_a_broker_that_hangs_costs_one_round_and_is_not_asked_again() -> None:
    queries, brokers, clock = made(groups)
    brokers.hung = {2}
    assert list(queries.ask_all("groups", REQUEST)) == [1]
    assert list(queries.ask_all("log directories", DescribeLogDirsRequest(topics=None))) == [1]
    assert clock.now_ms == ROUND_LIMIT_MS
    assert queries.unseen == ["groups of broker 2: no answer in time"]
    assert queries.stalls == [Stall(2, "groups", ROUND_LIMIT_MS, "no answer in time")]


def test_who_had_too_little_time_does_not_stall() -> None:
    queries, brokers, clock = made(groups)
    brokers.hung = {2}
    clock.now_ms += LIMIT_MS - STALLED_MS + 1
    assert list(queries.ask_all("groups", REQUEST)) == [1]
    assert queries.stalls == []


def test_a_refusal_is_named_and_the_broker_is_asked_on() -> None:
    def respond(broker: int, _request: Any) -> DescribeLogDirsResponse:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if broker == 2 else ErrorCode.NONE
        return DescribeLogDirsResponse(throttle_time_ms=0, error_code=code, results=[])

    queries, _, _ = made(respond)
    assert list(queries.ask_all("log directories", DescribeLogDirsRequest(topics=None))) == [1]
    assert queries.unseen == ["log directories of broker 2: CLUSTER_AUTHORIZATION_FAILED"]
    assert queries.responding == {1, 2}


def test_rows_that_may_not_be_seen_are_counted() -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [
        PartitionResponse(partition_index=number, error_code=code, active_producers=[])
        for number, code in enumerate((denied, ErrorCode.NONE, denied))
    ]
    response = DescribeProducersResponse(throttle_time_ms=0, topics=[TopicResponse(name="orders", partitions=rows)])
    queries, _, _ = made(lambda broker, request: response)
    assert queries.ask_each("producers", {1: REQUEST}) == {1: response}
    assert queries.unseen == ["producers of broker 1: TOPIC_AUTHORIZATION_FAILED for 2 of them"]


def test_a_broker_that_is_too_old_for_a_request_is_asked_on() -> None:
    queries, _, _ = made(lambda broker, request: Unanswered("the broker is too old for this request", is_final=False))
    assert queries.ask_all("producers", REQUEST) == {}
    assert queries.responding == {1, 2}
