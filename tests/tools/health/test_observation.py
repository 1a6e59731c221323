"""What is observed again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from protocol.messages.describe_share_group_offsets import (
    DescribedGroup,
    DescribedPartition,
    DescribedTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.tools.health.test_broker_queries import LIMIT_MS, made
from tools.health.observation import MARGIN_MS, SETTLED_MS, STEP_MS, Observation
from tools.health.view import BrokerView, ClusterView, GroupView, Key, LagView, PartitionView, ReassignmentView

WINDOW_MS = 6_000


def group_view(**changes: Any) -> ClusterView:
    lag = LagView("orders", 0, committed=17, end=40, is_assigned=True)
    group = GroupView("billing", changes.pop("state", "Stable"), 1, 1, (lag,))
    partition = PartitionView("orders", 0, 2, (2,), (2,))
    brokers = {broker: BrokerView(broker, "", 1.0) for broker in (1, 2)}
    return ClusterView(brokers=brokers, controller=1, partitions=(partition,), groups=(group,), **changes)


def committing(offsets: Sequence[int]) -> Callable[[int, Any], Any]:
    """The coordinator tells these offsets one after the other; the leader an end of 45 and records without timestamps."""
    left = list(offsets)

    def respond(_broker: int, request: Any) -> Any:
        match request:
            case OffsetFetchRequest():
                row = OffsetFetchResponsePartitions(
                    partition_index=0, committed_offset=left.pop(0), metadata=None, error_code=0
                )
                topics = [OffsetFetchResponseTopics(name="orders", partitions=[row])]
                return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="billing", topics=topics)])
            case ListOffsetsRequest():
                end = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=45)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[end])])
            case FetchRequest():
                return FetchResponse(responses=[])
            case _:
                raise AssertionError(request)

    return respond


def test_a_group_that_commits_ends_the_observation() -> None:
    queries, _, clock = made(committing([17, 18]))
    view = Observation(queries, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms is None
    assert clock.now_ms == 2 * STEP_MS


def test_a_group_that_commits_nothing_is_stuck_at_the_end_of_the_window() -> None:
    queries, _, clock = made(committing([17] * 10))
    view = Observation(queries, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    [lag] = view.groups[0].lags
    assert (lag.stood_ms, lag.end, lag.grown, lag.oldest_unread_ms) == (WINDOW_MS, 45, 5, None)
    assert clock.now_ms == WINDOW_MS


def sharing(rows: Sequence[tuple[int, int, int]]) -> Callable[[int, Any], Any]:
    """The leader tells the end of each row, then the coordinator of a share group its start offset and lag; after the last row
    only the end."""
    left = list(rows)

    def respond(_broker: int, request: Any) -> Any:
        match request:
            case DescribeShareGroupOffsetsRequest():
                _, start_offset, lag = left.pop(0) if len(left) > 1 else left[0]
                row = DescribedPartition(
                    partition_index=0, start_offset=start_offset, leader_epoch=0, lag=lag, error_code=0
                )
                topic = DescribedTopic(topic_name="orders", topic_id=bytes(16), partitions=[row])
                return DescribeShareGroupOffsetsResponse(
                    throttle_time_ms=0, groups=[DescribedGroup(group_id="billing", topics=[topic], error_code=0)]
                )
            case ListOffsetsRequest():
                end = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=left[0][0])
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[end])])
            case FetchRequest():
                return FetchResponse(responses=[])
            case _:
                raise AssertionError(request)

    return respond


@pytest.mark.parametrize(
    ("row", "is_stuck"),
    [
        ((40, 17, 20), True),
        ((45, 17, 25), True),  # only producers have done something
        ((45, 17, 24), False),  # a record behind the start offset is acknowledged
        ((40, 18, 20), False),
        ((40, 17, -1), False),  # not told
    ],
)
def test_a_share_group_is_stuck_while_nothing_is_acknowledged(row: tuple[int, int, int], *, is_stuck: bool) -> None:
    queries, _, clock = made(sharing([row]))
    lag = LagView("orders", 0, committed=17, end=40, is_assigned=True, share_lag=20)
    group = GroupView("billing", "Stable", 1, 1, (lag,), is_share=True)
    view = Observation(queries, replace(group_view(), groups=(group,)), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert (view.groups[0].lags[0].stood_ms is not None) == is_stuck
    assert clock.now_ms == (WINDOW_MS if is_stuck else STEP_MS)


def test_the_oldest_record_is_looked_for_where_the_log_begins_when_it_begins_behind_the_commit() -> None:
    fetched: list[int] = []
    committed = committing([17] * 10)

    def respond(broker: int, request: Any) -> Any:
        if isinstance(request, FetchRequest):
            fetched.append(request.topics[0].partitions[0].fetch_offset)
        return committed(broker, request)

    queries, _, _ = made(respond)
    view = group_view()
    group = view.groups[0].with_starts({("orders", 0): 30})
    Observation(queries, replace(view, groups=(group,)), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert fetched == [30]


def test_the_time_of_a_collection_ends_the_window() -> None:
    queries, _, clock = made(committing([17] * 10))
    clock.now_ms = 3_000  # others have taken so long
    view = Observation(queries, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms == LIMIT_MS - MARGIN_MS - 3_000
    assert clock.now_ms == LIMIT_MS - MARGIN_MS
    assert queries.unseen == []


def test_an_observation_that_had_too_little_time_calls_nobody_stuck() -> None:
    queries, _, clock = made(committing([17] * 10))
    clock.now_ms = 5_000
    view = Observation(queries, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms is None
    assert queries.unseen == ["whether 1 group is stuck (billing): there were only 3.4 s left to look"]


def test_a_coordinator_that_stops_to_answer_calls_nobody_stuck() -> None:
    queries, brokers, _ = made(committing([17] * 10))
    brokers.hung = {1}
    view = Observation(queries, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms is None
    assert queries.unseen == ["offsets of groups of broker 1: no answer in time"]


def test_nothing_to_observe_takes_no_time() -> None:
    queries, brokers, clock = made(committing([]))
    for changes in ({"committed": 40}, {"committed": 17, "start": 40}):
        lag = LagView("orders", 0, end=40, is_assigned=True, **changes)
        read = replace(group_view(), groups=(GroupView("billing", "Stable", 1, 1, (lag,)),))
        Observation(queries, read, {2: {("orders", 0)}}).run(set(), WINDOW_MS)
        assert (clock.now_ms, brokers.asked) == (0, [])


def log_dirs(sizes: dict[Key, int]) -> DescribeLogDirsResponse:
    rows = [
        DescribeLogDirsPartition(partition_index=key[1], partition_size=size, offset_lag=0, is_future_key=False)
        for key, size in sizes.items()
    ]
    topic = DescribeLogDirsTopic(name="orders", partitions=rows)
    result = DescribeLogDirsResult(error_code=0, log_dir="/a", topics=[topic])
    return DescribeLogDirsResponse(throttle_time_ms=0, results=[result])


def test_a_move_stands_still_whose_new_replicas_do_not_grow() -> None:
    moving = ReassignmentView(("orders", 0), (2, 1), adding=(1,), removing=(2,))
    for sizes, stood_ms in (([10] * 10, WINDOW_MS), ([10, 20, 20, 20], None)):
        queries, _, _ = made(lambda broker, request, left=sizes: log_dirs({("orders", 0): left.pop(0)}))
        view = ClusterView(brokers=group_view().brokers, controller=1, partitions=(), reassignments=(moving,))
        seen = Observation(queries, view, {}).run(set(), WINDOW_MS)
        assert seen.reassignments is not None
        assert seen.reassignments[0].stood_ms == stood_ms


def test_a_partition_that_waits_until_its_broker_has_copied_others_does_not_stand_still() -> None:
    sizes = {("orders", 0): 10, ("orders", 1): 10, ("orders", 2): 10}

    def respond(broker: int, request: Any) -> DescribeLogDirsResponse:
        if broker == 1:
            sizes["orders", 0] += 1
        return log_dirs({
            (topic.topic, index): sizes[topic.topic, index] for topic in request.topics for index in topic.partitions
        })  # fmt: skip

    queries, _, _ = made(respond)
    moves = [ReassignmentView(("orders", number), (3, to), adding=(to,), removing=(3,))
             for number, to in enumerate((1, 1, 2))]  # fmt: skip
    view = ClusterView(brokers=group_view().brokers, controller=1, partitions=(), reassignments=tuple(moves))
    seen = Observation(queries, view, {}).run(set(), WINDOW_MS).reassignments
    assert seen is not None
    assert [each.stood_ms for each in seen] == [None, None, WINDOW_MS]


def opened(*responding: int) -> Callable[[int, Any], Any]:
    """A partition has a transaction open from offset 17 on; these coordinators tell that they have none."""

    def respond(broker: int, request: Any) -> Any:
        match request:
            case DescribeProducersRequest():
                producer = ProducerState(
                    producer_id=4000,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    current_txn_start_offset=17,
                    last_timestamp=5,
                )
                row = PartitionResponse(partition_index=0, error_code=0, active_producers=[producer])
                return DescribeProducersResponse(
                    throttle_time_ms=0, topics=[TopicResponse(name="orders", partitions=[row])]
                )
            case ListTransactionsRequest():
                code = ErrorCode.NONE if broker in responding else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return ListTransactionsResponse(
                    throttle_time_ms=0, error_code=code, unknown_state_filters=[], transaction_states=[]
                )
            case _:
                raise AssertionError(request)

    return respond


def test_a_transaction_hangs_when_every_coordinator_has_answered_and_it_stays_open() -> None:
    view = replace(group_view(), groups=())
    queries, _, clock = made(opened(1, 2))
    [found] = Observation(queries, view, {2: {("orders", 0)}}).run({("orders", 0)}, WINDOW_MS).transactions
    assert (found.is_known, found.start_offset, found.last_written_ms) == (False, 17, 5)
    assert clock.now_ms == SETTLED_MS
    queries, _, _ = made(opened(1))
    [found] = Observation(queries, view, {2: {("orders", 0)}}).run({("orders", 0)}, WINDOW_MS).transactions
    assert found.is_known is None
    assert queries.unseen == [
        "transactions of broker 2: COORDINATOR_LOAD_IN_PROGRESS",
        "whether the transaction of orders-0 from offset 17 on hangs: not all coordinators answer",
    ]
