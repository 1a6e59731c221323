"""Which transaction markers go where: the table of error codes, and histories in which no partition is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cluster.transactions.marker_queues import (
    EXPECTED_RETRIES,
    MarkerEntry,
    MarkerQueues,
    PendingMarkers,
    Verdict,
    request_markers,
    verdict_of,
)
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
from metadata.image import TRANSACTION_STATE_TOPIC, BrokerImage, ClusterImage, PartitionImage, TopicImage
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

BROKERS = (1, 2, 3)


def image_of(leaders: dict[TopicPartition, int], alive: tuple[int, ...] = BROKERS) -> ClusterImage:
    topics: dict[str, dict[int, PartitionImage]] = {TRANSACTION_STATE_TOPIC: {}}
    for (topic, index), leader in leaders.items():
        topics.setdefault(topic, {})[index] = PartitionImage(leader, 0, (leader,), (leader,), (), 0, 1)
    return ClusterImage(
        brokers={each: BrokerImage(each, {}) for each in alive},
        topics={name: TopicImage(name, bytes(16), rows) for name, rows in topics.items()},
    )


def markers(
    *partitions: TopicPartition, name: str = "tx", producer_id: int = 7, epoch: int = 3, coordinator: int = 0
) -> TransactionMarkers:
    return TransactionMarkers(name, coordinator, epoch, producer_id, 1, True, partitions)


A, B, C = ("t", 0), ("t", 1), ("u", 0)
IMAGE = image_of({A: 1, B: 2, C: 1})


class Queues(MarkerQueues):
    """And what came of the transactions."""

    def __init__(self, partitions_per_request: int = 10_000) -> None:
        super().__init__(partitions_per_request)
        self.outcomes: list[tuple[str, MarkerOutcome]] = []

    def start(self, asked: TransactionMarkers, image: ClusterImage = IMAGE) -> None:
        self.add(asked, lambda outcome: self.outcomes.append((asked.transactional_id, outcome)), image)

    def report(self) -> list[tuple[str, MarkerOutcome]]:
        while (ended := self.next_ended()) is not None:
            ended[0].done(ended[1])
        return self.outcomes


def names(entries: list[MarkerEntry]) -> list[tuple[str, tuple[TopicPartition, ...]]]:
    return [(entry.pending.markers.transactional_id, entry.partitions) for entry in entries]


def test_markers_go_to_the_leaders_and_the_transaction_is_complete_with_the_last_one() -> None:
    queues = Queues()
    queues.start(markers(A, B, C))
    assert queues.ready() == [1, 2]
    assert names(queues.take(1)) == [("tx", (A, C))] and names(queues.take(2)) == [("tx", (B,))]
    assert queues.ready() == []
    queues.on_response(1, {7: {A: ErrorCode.NONE, C: ErrorCode.NONE}})
    assert queues.report() == []
    queues.on_response(2, {7: {B: ErrorCode.NONE}})
    assert queues.report() == [("tx", MarkerOutcome.COMPLETE)] and queues.transactions_count == 0


def test_a_transaction_without_partitions_is_complete() -> None:
    queues = Queues()
    queues.start(markers())
    assert queues.report() == [("tx", MarkerOutcome.COMPLETE)]


def test_all_that_is_queued_meanwhile_goes_in_one_request() -> None:
    queues = Queues()
    queues.start(markers(A))
    queues.take(1)
    queues.start(markers(A, name="second", producer_id=8))
    queues.start(markers(C, name="third", producer_id=9))
    assert queues.ready() == []
    queues.on_response(1, {7: {A: ErrorCode.NONE}})
    assert names(queues.take(1)) == [("second", (A,)), ("third", (C,))]


def test_a_request_has_a_bound() -> None:
    queues = Queues(partitions_per_request=2)
    wide = tuple(("w", index) for index in range(5))
    queues.start(markers(*wide), image_of(dict.fromkeys(wide, 1)))
    taken = []
    while entries := queues.take(1):
        taken += [partition for entry in entries for partition in entry.partitions]
        assert sum(len(entry.partitions) for entry in entries) <= 2
        queues.on_response(1, {7: {partition: ErrorCode.NONE for entry in entries for partition in entry.partitions}})
    assert taken == list(wide) and queues.report() == [("tx", MarkerOutcome.COMPLETE)]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ErrorCode.NONE, Verdict.DONE),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, Verdict.DONE),
        (ErrorCode.UNSUPPORTED_VERSION, Verdict.DONE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, Verdict.FENCED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.RETRY),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.RETRY),
        (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.RETRY),
        (ErrorCode.CORRUPT_MESSAGE, Verdict.RETRY),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.RETRY),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Verdict.RETRY),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.RETRY),
    ],
)
def test_every_error_has_a_verdict(error: ErrorCode, verdict: Verdict) -> None:
    queues = Queues()
    queues.start(markers(A))
    queues.take(1)
    summary = queues.on_response(1, {7: {A: error}})
    assert verdict_of(error) is verdict
    assert (error in EXPECTED_RETRIES) <= (verdict is Verdict.RETRY)
    assert queues.has_refused == (verdict is Verdict.RETRY) == bool(summary.retried)
    outcomes = {Verdict.DONE: [("tx", MarkerOutcome.COMPLETE)], Verdict.FENCED: [("tx", MarkerOutcome.FENCED)]}
    assert queues.report() == outcomes.get(verdict, [])


def test_a_refused_partition_goes_to_whoever_leads_then() -> None:
    queues = Queues()
    queues.start(markers(A, C))
    queues.take(1)
    queues.on_response(1, {7: {A: ErrorCode.NOT_LEADER_OR_FOLLOWER, C: ErrorCode.NONE}})
    assert queues.ready() == []
    queues.reroute(image_of({A: 3, B: 2, C: 1}))
    assert queues.ready() == [3] and names(queues.take(3)) == [("tx", (A,))]


def test_a_partition_without_a_row_in_the_response_goes_again() -> None:
    queues = Queues()
    queues.start(markers(A, C))
    queues.take(1)
    queues.on_response(1, {7: {A: ErrorCode.NONE}})
    queues.reroute(IMAGE)
    assert names(queues.take(1)) == [("tx", (C,))]


def test_a_lost_request_goes_again() -> None:
    queues = Queues()
    queues.start(markers(A))
    queues.take(1)
    queues.on_lost(1)
    assert queues.ready() == [] and queues.has_refused
    queues.reroute(IMAGE)
    assert names(queues.take(1)) == [("tx", (A,))]


def test_a_partition_without_a_leader_waits_for_an_image() -> None:
    queues = Queues()
    queues.start(markers(A, B), image_of({A: -1, B: 2}, alive=(1, 3)))
    assert queues.ready() == [] and queues.unknown_count == 1 and not queues.has_refused and queues.has_waiting
    queues.reroute(IMAGE)
    assert queues.ready() == [1, 2] and queues.unknown_count == 0


def test_a_deleted_partition_needs_no_marker() -> None:
    queues = Queues()
    queues.start(markers(A, B))
    queues.take(1)
    queues.on_response(1, {7: {A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}})
    queues.take(2)
    queues.on_response(2, {7: {B: ErrorCode.NONE}})
    assert queues.report() == []
    queues.reroute(image_of({C: 1}))
    assert queues.report() == [("tx", MarkerOutcome.COMPLETE)]


def test_nothing_is_gone_as_long_as_the_image_has_no_topics() -> None:
    """A coordinator that starts resumes its markers before the controller has told it where the partitions are."""
    queues = Queues()
    queues.start(markers(A, B), ClusterImage(brokers=IMAGE.brokers))
    assert queues.report() == [] and queues.unknown_count == 1
    queues.reroute(IMAGE)
    assert queues.report() == [] and queues.ready() == [1, 2]


def test_a_fenced_transaction_sends_nothing_more() -> None:
    queues = Queues()
    queues.start(markers(A, B))
    queues.take(1)
    queues.on_response(1, {7: {A: ErrorCode.TRANSACTION_COORDINATOR_FENCED}})
    assert queues.report() == [("tx", MarkerOutcome.FENCED)]
    assert queues.take(2) == [] and queues.transactions_count == 0


def test_what_is_cancelled_has_no_outcome() -> None:
    queues = Queues()
    queues.start(markers(A))
    queues.start(markers(A, name="other", producer_id=8, coordinator=1))
    queues.start(markers(name="ended"))
    queues.take(1)
    queues.cancel(0)
    queues.on_response(1, {7: {A: ErrorCode.NONE}, 8: {A: ErrorCode.NONE}})
    assert queues.report() == [("other", MarkerOutcome.COMPLETE)]
    assert queues.transactions_count == 0 and not queues.has_waiting


def test_a_newer_request_replaces_the_older_one_behind_what_is_in_flight() -> None:
    queues = Queues()
    queues.start(markers(A, B))
    queues.take(1)
    queues.start(replace(markers(A, B), coordinator_epoch=4))
    assert queues.ready() == [2]
    queues.on_response(1, {7: {A: ErrorCode.TRANSACTION_COORDINATOR_FENCED}})
    assert queues.report() == []
    assert [each.coordinator_epoch for broker in (1, 2) for each in request_markers(queues.take(broker))] == [4, 4]


def test_a_request_names_each_topic_once() -> None:
    pending = PendingMarkers(markers(A, C, B), lambda _: None, set())
    (marker,) = request_markers([MarkerEntry(pending, (A, C, B))])
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0, 1]), ("u", [0])]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (
        7, 1, 3, True,
    )  # fmt: skip


PARTITIONS = [("t", index) for index in range(3)]
ERRORS = [
    ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH,
]  # fmt: skip


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_in_any_history_each_partition_is_in_one_place_and_each_transaction_ends_once(data: st.DataObject) -> None:
    queues = Queues(partitions_per_request=data.draw(st.integers(1, 4)))
    in_flight: dict[int, list[MarkerEntry]] = {}
    started: dict[str, int] = {}
    cancelled: set[str] = set()
    image = image_of(dict.fromkeys(PARTITIONS, 1))

    def draw_image() -> ClusterImage:
        kept = data.draw(st.lists(st.sampled_from(PARTITIONS), unique=True))
        alive = tuple(data.draw(st.lists(st.sampled_from(BROKERS), unique=True)))
        return image_of({each: data.draw(st.sampled_from((-1, *BROKERS))) for each in kept}, alive)

    def answer(broker_id: int, *, kindly: bool = False) -> None:
        entries = in_flight.pop(broker_id)
        rows = {
            entry.pending.markers.producer_id: {
                partition: ErrorCode.NONE if kindly else data.draw(st.sampled_from(ERRORS))
                for partition in entry.partitions
            }
            for entry in entries
        }
        queues.on_response(broker_id, rows)

    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["add", "take", "answer", "lose", "image", "cancel"])):
            case "add":
                name = f"tx{len(started)}"
                started[name] = coordinator = data.draw(st.integers(0, 1))
                chosen = data.draw(st.lists(st.sampled_from(PARTITIONS), unique=True))
                asked = markers(*chosen, name=name, producer_id=len(started), coordinator=coordinator)
                queues.start(asked, image)
            case "take" if queues.ready():
                broker_id = data.draw(st.sampled_from(queues.ready()))
                in_flight[broker_id] = queues.take(broker_id)
            case "answer" if in_flight:
                answer(data.draw(st.sampled_from(sorted(in_flight))))
            case "lose" if in_flight:
                broker_id = data.draw(st.sampled_from(sorted(in_flight)))
                del in_flight[broker_id]
                queues.on_lost(broker_id)
            case "image":
                image = draw_image()
                queues.reroute(image)
            case "cancel":
                coordinator = data.draw(st.integers(0, 1))
                over = {name for name, _ in queues.report()}
                cancelled |= {name for name, at in started.items() if at == coordinator and name not in over}
                queues.cancel(coordinator)
        _check_places(queues, in_flight)
    image = image_of(dict.fromkeys(PARTITIONS, 2))
    for _ in range(50):
        for broker_id in list(in_flight):
            answer(broker_id, kindly=True)
        queues.reroute(image)
        for broker_id in queues.ready():
            in_flight[broker_id] = queues.take(broker_id)
    outcomes = [name for name, _ in queues.report()]
    assert sorted(outcomes) == sorted(started.keys() - cancelled)
    assert queues.transactions_count == 0 and not queues.has_waiting and not in_flight


def _check_places(queues: MarkerQueues, in_flight: dict[int, list[MarkerEntry]]) -> None:
    for pending in queues._by_id.values():
        places = [
            partition
            for waiting in (queues._unknown, queues._refused, *queues._queues.values())
            for partition in waiting.get(pending, {})
        ]
        places += [part for entries in in_flight.values() for each in entries if each.pending is pending
                   for part in each.partitions]  # fmt: skip
        assert sorted(places) == sorted(pending.remaining) and pending.remaining
