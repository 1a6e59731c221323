"""Questions to all brokers within a time, and what is looked at again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.doubles.clock import ManualClock
from tools.health.answers import UnreadableAssignment, assigned
from tools.health.asking import ROUND_LIMIT_MS, STALLED_MS, Asking
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.view import BrokerView, ClusterView, GroupView, LagView, PartitionView, ReassignmentView, Stall
from tools.health.watching import MARGIN_MS, SETTLED_MS, STEP_MS, Watching

LIMIT_MS = 9_000
WINDOW_MS = 6_000


class Scripted:
    """Answers by `answer`; a broker in `hung` takes all the time it is given."""

    def __init__(self, clock: ManualClock, answer: Callable[[int, Any], Any]) -> None:
        self._clock = clock
        self._answer = answer
        self.hung: set[int] = set()
        self.asked: list[tuple[int, str]] = []

    def ask(self, asked: Mapping[int, Sequence[Any]], limit_ms: int) -> dict[int, list[Any]]:
        if asked.keys() & self.hung:
            self._clock.now_ms += limit_ms
        self.asked += [(broker, type(request).__name__) for broker, [request] in asked.items()]
        return {
            broker: [Unanswered("no answer in time") if broker in self.hung else self._answer(broker, request)]
            for broker, [request] in asked.items()
        }


def made(answer: Callable[[int, Any], Any]) -> tuple[Asking, Scripted, ManualClock]:
    clock = ManualClock()
    requests = Scripted(clock, answer)

    def pause(duration_s: float) -> None:
        clock.now_ms += round(duration_s * 1000)

    asking = Asking(cast(BrokerRequests, requests), clock, LIMIT_MS, pause)
    asking.answering = {1, 2}
    return asking, requests, clock


def test_a_broker_that_hangs_costs_one_round_and_is_not_asked_again() -> None:
    asking, requests, clock = made(lambda broker, request: SimpleNamespace(error_code=0))
    requests.hung = {2}
    assert list(asking.everybody("groups", object)) == [1]
    assert list(asking.everybody("log directories", object)) == [1]
    assert clock.now_ms == ROUND_LIMIT_MS
    assert asking.unseen == ["groups of broker 2: no answer in time"]
    assert asking.stalls == [Stall(2, "groups", ROUND_LIMIT_MS, "no answer in time")]


def test_who_had_too_little_time_does_not_stall() -> None:
    asking, requests, clock = made(lambda broker, request: SimpleNamespace(error_code=0))
    requests.hung = {2}
    clock.now_ms += LIMIT_MS - STALLED_MS + 1
    assert list(asking.everybody("groups", object)) == [1]
    assert asking.stalls == []


def test_a_refusal_is_told_by_its_name_and_the_broker_is_asked_on() -> None:
    asking, _, _ = made(lambda broker, request: SimpleNamespace(error_code=31 if broker == 2 else 0))
    assert list(asking.everybody("log directories", object)) == [1]
    assert asking.unseen == ["log directories of broker 2: CLUSTER_AUTHORIZATION_FAILED"]
    assert asking.answering == {1, 2}


def test_rows_that_may_not_be_seen_are_counted() -> None:
    rows = [SimpleNamespace(error_code=29), SimpleNamespace(error_code=0), SimpleNamespace(error_code=29)]
    answer = SimpleNamespace(topics=[SimpleNamespace(partitions=rows)])
    asking, _, _ = made(lambda broker, request: answer)
    assert asking.each("producers", {1: object()}) == {1: answer}
    assert asking.unseen == ["producers of broker 1: TOPIC_AUTHORIZATION_FAILED for 2 of them"]


def test_a_broker_that_is_too_old_for_a_request_is_asked_on() -> None:
    def too_old(broker: int, request: Any) -> Unanswered:
        error = Unanswered("the broker is too old for this request")
        error.is_final = False
        return error

    asking, _, _ = made(too_old)
    assert asking.everybody("producers", object) == {}
    assert asking.answering == {1, 2}


# --- what might stand still ---


def group_view(**changes: Any) -> ClusterView:
    lag = LagView("orders", 0, committed=17, end=40, is_assigned=True)
    group = GroupView("billing", changes.pop("state", "Stable"), 1, 1, (lag,))
    partition = PartitionView("orders", 0, 2, (2,), (2,))
    brokers = {broker: BrokerView(broker, "", 1.0) for broker in (1, 2)}
    return ClusterView(brokers=brokers, controller=1, partitions=(partition,), groups=(group,), **changes)


def committing(offsets: Sequence[int]) -> Callable[[int, Any], Any]:
    """The coordinator tells these offsets one after the other; the leader an end of 45 and records without timestamps."""
    left = list(offsets)

    def answer(broker: int, request: Any) -> Any:
        match type(request).__name__:
            case "OffsetFetchRequest":
                row = SimpleNamespace(error_code=0, partition_index=0, committed_offset=left.pop(0))
                group = SimpleNamespace(
                    group_id="billing", error_code=0, topics=[SimpleNamespace(name="orders", partitions=[row])]
                )
                return SimpleNamespace(error_code=0, groups=[group])
            case "ListOffsetsRequest":
                row = SimpleNamespace(error_code=0, partition_index=0, offset=45)
                return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[row])])
            case "FetchRequest":
                return SimpleNamespace(error_code=0, responses=[])
            case name:
                raise AssertionError(name)

    return answer


def test_a_group_that_commits_ends_the_look() -> None:
    asking, _, clock = made(committing([17, 18]))
    view = Watching(asking, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms is None
    assert clock.now_ms == 2 * STEP_MS


def test_a_group_that_commits_nothing_is_stuck_at_the_end_of_the_window() -> None:
    asking, _, clock = made(committing([17] * 10))
    view = Watching(asking, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    [lag] = view.groups[0].lags
    assert (lag.stood_ms, lag.end, lag.grown, lag.oldest_unread_ms) == (WINDOW_MS, 45, 5, None)
    assert clock.now_ms == WINDOW_MS


def test_the_oldest_record_is_looked_for_where_the_log_begins_when_it_begins_behind_the_commit() -> None:
    fetched: list[int] = []
    committed = committing([17] * 10)

    def answer(broker: int, request: Any) -> Any:
        if type(request).__name__ == "FetchRequest":
            fetched.append(request.topics[0].partitions[0].fetch_offset)
        return committed(broker, request)

    asking, _, _ = made(answer)
    view = group_view()
    group = view.groups[0].with_starts({("orders", 0): 30})
    Watching(asking, replace(view, groups=(group,)), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert fetched == [30]


def test_the_time_of_a_look_ends_the_window() -> None:
    asking, _, clock = made(committing([17] * 10))
    clock.now_ms = 3_000  # others have taken so long
    view = Watching(asking, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms == LIMIT_MS - MARGIN_MS - 3_000
    assert clock.now_ms == LIMIT_MS - MARGIN_MS
    assert asking.unseen == []


def test_a_look_that_had_too_little_time_calls_nobody_stuck() -> None:
    asking, _, clock = made(committing([17] * 10))
    clock.now_ms = 5_000
    view = Watching(asking, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms is None
    assert asking.unseen == ["whether 1 group is stuck (billing): there were only 3.4 s left to look"]


def test_a_coordinator_that_stops_to_answer_calls_nobody_stuck() -> None:
    asking, requests, _ = made(committing([17] * 10))
    requests.hung = {1}
    view = Watching(asking, group_view(), {2: {("orders", 0)}}).run(set(), WINDOW_MS)
    assert view.groups[0].lags[0].stood_ms is None
    assert asking.unseen == ["offsets of groups of broker 1: no answer in time"]


def test_nothing_to_look_at_takes_no_time() -> None:
    asking, requests, clock = made(committing([]))
    for changes in ({"committed": 40}, {"committed": 17, "start": 40}):
        lag = LagView("orders", 0, end=40, is_assigned=True, **changes)
        read = replace(group_view(), groups=(GroupView("billing", "Stable", 1, 1, (lag,)),))
        Watching(asking, read, {2: {("orders", 0)}}).run(set(), WINDOW_MS)
        assert (clock.now_ms, requests.asked) == (0, [])


def test_a_move_stands_still_whose_new_replicas_do_not_grow() -> None:
    def sizes(*told: int) -> Callable[[int, Any], Any]:
        left = list(told)

        def answer(broker: int, request: Any) -> Any:
            row = SimpleNamespace(partition_index=0, partition_size=left.pop(0), is_future_key=False)
            directory = SimpleNamespace(
                error_code=0, log_dir="/a", total_bytes=-1, usable_bytes=-1,
                topics=[SimpleNamespace(name="orders", partitions=[row])],
            )  # fmt: skip
            return SimpleNamespace(error_code=0, results=[directory])

        return answer

    moving = ReassignmentView(("orders", 0), (2, 1), adding=(1,), removing=(2,))
    for told, stood_ms in ((sizes(*[10] * 10), WINDOW_MS), (sizes(10, 20, 20, 20), None)):
        asking, _, _ = made(told)
        view = ClusterView(brokers=group_view().brokers, controller=1, partitions=(), reassignments=(moving,))
        seen = Watching(asking, view, {}).run(set(), WINDOW_MS)
        assert seen.reassignments is not None
        assert seen.reassignments[0].stood_ms == stood_ms


def test_a_partition_that_waits_until_its_broker_has_copied_others_does_not_stand_still() -> None:
    sizes = {("orders", 0): 10, ("orders", 1): 10, ("orders", 2): 10}

    def answer(broker: int, request: Any) -> Any:
        if broker == 1:
            sizes["orders", 0] += 1
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
        rows = [
            SimpleNamespace(partition_index=key[1], partition_size=sizes[key], is_future_key=False) for key in asked
        ]
        topic = SimpleNamespace(name="orders", partitions=rows)
        directory = SimpleNamespace(error_code=0, log_dir="/a", total_bytes=-1, usable_bytes=-1, topics=[topic])
        return SimpleNamespace(error_code=0, results=[directory])

    asking, _, _ = made(answer)
    moves = [ReassignmentView(("orders", number), (3, to), adding=(to,), removing=(3,))
             for number, to in enumerate((1, 1, 2))]  # fmt: skip
    view = ClusterView(brokers=group_view().brokers, controller=1, partitions=(), reassignments=tuple(moves))
    seen = Watching(asking, view, {}).run(set(), WINDOW_MS).reassignments
    assert seen is not None
    assert [each.stood_ms for each in seen] == [None, None, WINDOW_MS]


@pytest.mark.parametrize("content", [b"\xff" * 40, b"\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\0"])
def test_an_assignment_that_cannot_be_read_is_its_own_error(content: bytes) -> None:
    group = SimpleNamespace(protocol_type="consumer", members=[SimpleNamespace(member_assignment=content)])
    with pytest.raises(UnreadableAssignment):
        assigned(group)


def opened(*answering: int) -> Callable[[int, Any], Any]:
    """A partition has a transaction open from offset 17 on; these coordinators tell that they have none."""

    def answer(broker: int, request: Any) -> Any:
        match type(request).__name__:
            case "DescribeProducersRequest":
                producer = SimpleNamespace(producer_id=4000, current_txn_start_offset=17, last_timestamp=5)
                row = SimpleNamespace(error_code=0, partition_index=0, active_producers=[producer])
                return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[row])])
            case "ListTransactionsRequest":
                return SimpleNamespace(error_code=0 if broker in answering else 14, transaction_states=[])
            case name:
                raise AssertionError(name)

    return answer


def test_a_transaction_hangs_when_every_coordinator_has_answered_and_it_stays_open() -> None:
    view = replace(group_view(), groups=())
    asking, _, clock = made(opened(1, 2))
    [found] = Watching(asking, view, {2: {("orders", 0)}}).run({("orders", 0)}, WINDOW_MS).transactions
    assert (found.is_known, found.start_offset, found.last_written_ms) == (False, 17, 5)
    assert clock.now_ms == SETTLED_MS
    asking, _, _ = made(opened(1))
    [found] = Watching(asking, view, {2: {("orders", 0)}}).run({("orders", 0)}, WINDOW_MS).transactions
    assert found.is_known is None
    assert asking.unseen == [
        "transactions of broker 2: COORDINATOR_LOAD_IN_PROGRESS",
        "whether the transaction of orders-0 from offset 17 on hangs: not all coordinators answer",
    ]
