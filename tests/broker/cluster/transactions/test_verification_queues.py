"""Which verifications wait for which broker, and what a response says of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cluster.transactions.verification_queues import (
    PendingVerification,
    VerificationErrors,
    VerificationQueues,
    verification_errors,
    verification_request,
)
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from protocol.topic_partition import TopicPartition

A, B, C = ("t", 0), ("t", 1), ("u", 0)


class Waiter:
    def __init__(self) -> None:
        self.results: list[VerificationErrors] = []

    def done(self) -> bool:
        return bool(self.results)

    def set_result(self, result: VerificationErrors) -> None:
        self.results.append(result)


def asked(name: str = "tx", *partitions: TopicPartition, epoch: int = 0) -> PendingVerification:
    return PendingVerification(name, 7, epoch, partitions or (A,), 0, Waiter())


def response(
    results: dict[str, dict[TopicPartition, int]], *, error: int = 0, version: int = 5
) -> AddPartitionsToTxnResponse:
    """As a broker gets it."""
    made = AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=error,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=name,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        ],
                    )
                    for (topic, index), code in rows.items()
                ],
            )
            for name, rows in results.items()
        ],
    )
    return AddPartitionsToTxnResponse.decode(made.encode(version), version)


def test_one_request_at_a_time_with_all_that_waits() -> None:
    queues = VerificationQueues()
    first, second, third = asked("one"), asked("two"), asked("three")
    assert queues.add(1, first) is None
    assert queues.take(1) == [first] and queues.take(1) == []
    assert queues.add(1, second) is None and queues.add(1, third) is None
    assert queues.take(1) == [] and queues.take(2) == []
    queues.finish(1)
    assert queues.take(1) == [second, third]
    queues.finish(1)
    assert queues.take(1) == []


@pytest.mark.parametrize(
    ("earlier", "later", "displaced", "error"),
    [
        (1, 2, "earlier", ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 1, "earlier", ErrorCode.NETWORK_EXCEPTION),
        (2, 1, "later", ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_one_verification_of_a_transactional_id_waits(
    earlier: int, later: int, displaced: str, error: ErrorCode
) -> None:
    queues = VerificationQueues()
    first, second = asked(epoch=earlier), asked(epoch=later)
    assert queues.add(1, first) is None
    gone, stays = (first, second) if displaced == "earlier" else (second, first)
    assert queues.add(1, second) == (gone, error)
    assert queues.take(1) == [stays]


def test_what_is_in_flight_displaces_nothing() -> None:
    queues = VerificationQueues()
    queues.add(1, asked(epoch=5))
    queues.take(1)
    assert queues.add(1, asked(epoch=4)) is None


def test_a_request_has_a_bound_and_one_verification_fits_always() -> None:
    queues = VerificationQueues(partitions_per_request=2)
    wide, narrow, last = asked("wide", A, B, C), asked("narrow", A), asked("last", A, B)
    for each in (wide, narrow, last):
        queues.add(1, each)
    for expected in (wide, narrow, last):
        assert queues.take(1) == [expected]
        queues.finish(1)


def test_the_request_verifies_and_adds_nothing() -> None:
    (one, two) = verification_request([asked("one", A, C, B, epoch=3), asked("two")]).transactions
    assert (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only) == ("one", 7, 3, True)
    assert [(topic.name, topic.partitions) for topic in one.topics] == [("t", [0, 1]), ("u", [0])]
    assert two.verify_only and two.transactional_id == "two"


@pytest.mark.parametrize(
    ("answered", "means"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (4711, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors_of_partitions(answered: int, means: ErrorCode) -> None:
    assert verification_errors([asked("tx", A, B)], response({"tx": {A: answered, B: 0}})) == [{A: means, B: 0}]


@pytest.mark.parametrize(
    ("answered", "means"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
        (4711, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_of_the_request_is_that_of_all_partitions(answered: int, means: ErrorCode) -> None:
    found = verification_errors([asked("one", A, B), asked("two")], response({}, error=answered))
    assert found == [{A: means, B: means}, {A: means}]


def test_what_the_response_does_not_name_is_not_verified() -> None:
    found = verification_errors([asked("one", A, B), asked("two")], response({"one": {A: 0}}))
    assert found == [{A: 0, B: ErrorCode.NETWORK_EXCEPTION}, {A: ErrorCode.NETWORK_EXCEPTION}]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 2), st.sampled_from("xyz"), st.integers(0, 2)),
        st.tuples(st.just("take"), st.integers(1, 2), st.just(""), st.just(0)),
        st.tuples(st.just("finish"), st.integers(1, 2), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_in_any_history_each_verification_leaves_once(steps: list[tuple[str, int, str, int]]) -> None:
    queues = VerificationQueues(partitions_per_request=2)
    made: list[PendingVerification] = []
    left: Counter[int] = Counter()
    in_flight: set[int] = set()

    def take(broker_id: int) -> None:
        taken = queues.take(broker_id)
        assert not (taken and broker_id in in_flight)
        assert len({each.transactional_id for each in taken}) == len(taken)
        left.update(id(each) for each in taken)
        if taken:
            in_flight.add(broker_id)

    for step, broker_id, name, epoch in steps:
        if step == "add":
            made.append(asked(name, epoch=epoch))
            displaced = queues.add(broker_id, made[-1])
            if displaced is not None:
                left[id(displaced[0])] += 1
        elif step == "take":
            take(broker_id)
        elif broker_id in in_flight:
            queues.finish(broker_id)
            in_flight.discard(broker_id)
    for broker_id in (1, 2):
        for _ in range(len(made) + 1):
            if broker_id in in_flight:
                queues.finish(broker_id)
                in_flight.discard(broker_id)
            take(broker_id)
    assert left == Counter(id(each) for each in made)
