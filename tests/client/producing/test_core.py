"""The producer's core against a partition that checks sequence numbers as brokers do, with answers that get lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.admin.steps import KeyKind
from client.committing import GroupMembership, OffsetAndMetadata
from client.errors import AbortableError, FatalError
from client.producing.batch import Finished, ProducerBatch
from client.producing.core import ProducerCore, ProducerLimits, size_of
from client.producing.transaction import CoordinatorRequest, State
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.record import Record
from protocol.schema import Response
from protocol.topic_partition import TopicPartition

KEY: TopicPartition = ("t", 0)
E = ErrorCode
OFFSETS = {("in", 0): OffsetAndMetadata(5)}


def core_of(transactional_id: str | None = None, /, **limits: int) -> ProducerCore[int]:
    return ProducerCore(transactional_id, ProducerLimits(**limits), lambda attempts: 100)


def record(number: int = 0) -> Record:
    return Record(0, 0, None, b"%d" % number)


def response_to(ask: CoordinatorRequest, code: ErrorCode = E.NONE, epoch: int = 0) -> Response:
    match ask.request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_id=7, producer_epoch=epoch)
        case AddPartitionsToTxnRequest() as request:
            return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                    for each in topic.partitions
                ])
                for topic in request.v3_and_below_topics
            ])  # fmt: skip
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)
        case TxnOffsetCommitRequest() as request:
            return TxnOffsetCommitResponse(throttle_time_ms=0, topics=[
                TxnOffsetCommitResponseTopic(name=topic.name, partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                    for row in topic.partitions
                ])
                for topic in request.topics
            ])  # fmt: skip
        case _:
            next_id = (7, epoch) if epoch else (-1, -1)
            return EndTxnResponse(
                throttle_time_ms=0, error_code=code, producer_id=next_id[0], producer_epoch=next_id[1]
            )


def append(core: ProducerCore[int], of: Record, waiter: int, now_ms: int, key: TopicPartition = KEY) -> None:
    core.append(key, [(of, size_of(of), waiter)], now_ms)


def answer(core: ProducerCore[int], kind: type, code: ErrorCode = E.NONE, now_ms: int = 0, epoch: int = 0) -> bool:
    """Answer the next request, which is of `kind`; return whether the coordinator is to be looked for."""
    ask = core.next_ask(now_ms)
    assert ask is not None and type(ask.request) is kind
    return core.transaction.answered(ask, response_to(ask, code, epoch), now_ms)


def assert_state(core: ProducerCore[int], state: State) -> None:
    assert core.transaction.state is state


def begun(transactional_id: str = "tx") -> ProducerCore[int]:
    """A producer in a transaction with one partition."""
    core = core_of(transactional_id)
    core.transaction.initialize()
    answer(core, InitProducerIdRequest)
    core.transaction.begin()
    append(core, record(), 0, 0)
    answer(core, AddPartitionsToTxnRequest)
    return core


def idempotent(count: int = 1, **limits: int) -> tuple[ProducerCore[int], list[ProducerBatch[int]]]:
    """A producer with batches in flight, of one record each."""
    core = core_of(batch_size_bytes=1, **limits)
    for number in range(count):
        append(core, record(number), number, 0)
    answer(core, InitProducerIdRequest)
    return core, core.take(0)


# --- batches ---


def test_five_batches_are_in_flight_with_sequence_numbers_in_a_row() -> None:
    core, batches = idempotent(7)
    assert [batch.base_sequence for batch in batches] == [0, 1, 2, 3, 4]
    assert core.take(0) == []
    core.answered(batches[0], E.NONE, None, 9, 0)
    assert [batch.base_sequence for batch in core.take(0)] == [5]


@pytest.mark.parametrize("code", [E.NOT_LEADER_OR_FOLLOWER, E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, None])
def test_what_is_retriable_is_sent_again_the_same_and_the_oldest_first(code: ErrorCode | None) -> None:
    core, batches = idempotent(3)
    for batch in reversed(batches):
        if code is None:
            assert core.unanswered(batch, "lost", 0, was_sent=True) == []
        else:
            assert core.answered(batch, code, None, -1, 0) == []
    assert core.take(99) == [] and core.wakeup_ms(0) == 100
    for batch in batches:
        sequence = batch.base_sequence
        assert core.take(100) == [batch] and batch.base_sequence == sequence
        core.answered(batch, E.DUPLICATE_SEQUENCE_NUMBER, None, -1, 100)
    assert not core.has_batches


def test_a_refused_sequence_number_behind_a_missing_one_is_repeated() -> None:
    core, batches = idempotent(2)
    core.answered(batches[1], E.OUT_OF_ORDER_SEQUENCE_NUMBER, None, -1, 0)
    core.answered(batches[0], E.NONE, None, 0, 0)
    assert core.take(100) == [batches[1]] and batches[1].base_sequence == 1


def test_a_batch_that_is_certainly_missing_is_sent_under_a_raised_epoch() -> None:
    core, batches = idempotent(3)
    for batch in batches:
        assert core.answered(batch, E.OUT_OF_ORDER_SEQUENCE_NUMBER, None, -1, 0) == []
    order = []
    while batch_list := core.take(100):
        [batch] = batch_list
        order.append((batch, batch.identity, batch.base_sequence))
        code = E.NONE if batch.identity.epoch == 1 else E.OUT_OF_ORDER_SEQUENCE_NUMBER
        core.answered(batch, code, None, -1, 0)
    assert [each for each in order if each[1].epoch] == [(batches[n], (7, 1), n) for n in range(3)]


def test_a_batch_that_may_be_there_fails_rather_than_come_twice() -> None:
    core, [batch] = idempotent()
    core.unanswered(batch, "lost", 0, was_sent=True)
    core.take(100)
    [finished] = core.answered(batch, E.OUT_OF_ORDER_SEQUENCE_NUMBER, None, -1, 100)
    assert finished.error is not None and finished.error.code is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(core, record(), 1, 100)
    assert [(each.identity.epoch, each.base_sequence) for each in core.take(100)] == [(1, 0)]


def test_a_raised_epoch_at_its_end_becomes_another_producer_id() -> None:
    core, [batch] = idempotent()
    core.transaction.identity = batch.identity._replace(epoch=32766)
    core._queues[KEY].identity = core.transaction.identity
    core.answered(batch, E.INVALID_RECORD, None, -1, 0)
    append(core, record(), 1, 0)
    assert core.take(0) == []
    answer(core, InitProducerIdRequest)
    assert [each.base_sequence for each in core.take(0)] == [0]


def test_a_batch_that_is_too_large_goes_in_halves_and_a_single_record_fails() -> None:
    core = core_of()
    for number in range(3):
        append(core, record(number), number, 0)
    answer(core, InitProducerIdRequest)
    [whole] = core.take(0)
    core.answered(whole, E.MESSAGE_TOO_LARGE, None, -1, 0)
    [half] = core.take(0)
    assert (half.base_sequence, [waiter for _, waiter in half.entries]) == (0, [0])
    [failed] = core.answered(half, E.MESSAGE_TOO_LARGE, None, -1, 0)
    assert failed.error is not None
    [half] = core.take(0)
    assert (half.base_sequence, [waiter for _, waiter in half.entries]) == (1, [1, 2])


def test_delivery_ends_in_time_and_what_is_in_flight_with_its_answer() -> None:
    core, batches = idempotent(6, delivery_timeout_ms=1_000)
    core.unanswered(batches[0], "lost", 0, was_sent=True)
    late = core.expire(1_000)
    assert [each.batch for each in late] == [batches[0], *(each.batch for each in late[1:])] and len(late) == 2
    assert all(each.error is not None and each.error.code is E.REQUEST_TIMED_OUT for each in late)
    assert core.answered(batches[1], E.NONE, None, 3, 1_001)[0].error is None
    assert core.unanswered(batches[2], "lost", 1_001, was_sent=True)[0].error is not None


def test_records_wait_for_company_until_the_linger_is_over() -> None:
    core = core_of(linger_ms=5)
    append(core, record(), 0, 0)
    answer(core, InitProducerIdRequest)
    assert core.take(4) == [] and core.wakeup_ms(4) == 5
    assert len(core.take(5)) == 1


# --- transactions ---


def test_a_transaction_from_its_start_to_its_commit() -> None:
    core = begun()
    [batch] = core.take(0)
    group = GroupMembership("g", 3, "m", "i")
    pending = core.transaction.add_offsets(group, OFFSETS)
    core.transaction.commit()
    answer(core, AddOffsetsToTxnRequest)
    ask = core.next_ask(0)
    assert (
        ask is not None and isinstance(ask.request, TxnOffsetCommitRequest) and ask.coordinator == (KeyKind.GROUP, "g")
    )
    assert (ask.request.generation_id, ask.request.member_id, ask.request.group_instance_id) == (3, "m", "i")
    core.transaction.answered(ask, response_to(ask), 0)
    assert not core.transaction.has_offsets(pending)
    assert core.next_ask(0) is None  # the batch has no answer yet
    core.answered(batch, E.NONE, None, 0, 0)
    answer(core, EndTxnRequest)
    assert core.transaction.state is State.READY


def test_batches_wait_until_their_partition_is_in_the_transaction() -> None:
    core = core_of("tx")
    core.transaction.initialize()
    answer(core, InitProducerIdRequest)
    core.transaction.begin()
    append(core, record(), 0, 0)
    assert core.take(0) == []
    answer(core, AddPartitionsToTxnRequest, E.CONCURRENT_TRANSACTIONS)
    assert core.next_ask(19) is None
    answer(core, AddPartitionsToTxnRequest, now_ms=20)
    assert len(core.take(0)) == 1


def test_an_empty_transaction_asks_nobody() -> None:
    for is_commit in (True, False):
        core = core_of("tx")
        core.transaction.initialize()
        answer(core, InitProducerIdRequest)
        core.transaction.begin()
        core.transaction.commit() if is_commit else core.abort()
        assert core.next_ask(0) is None and core.transaction.state is State.READY


def test_a_batch_that_fails_has_the_transaction_aborted_and_the_epoch_raised() -> None:
    core = begun()
    [batch] = core.take(0)
    core.transaction.commit()
    core.answered(batch, E.OUT_OF_ORDER_SEQUENCE_NUMBER, None, -1, 0)
    assert_state(core, State.ABORTABLE_ERROR)
    assert core.next_ask(0) is None
    with pytest.raises(AbortableError):
        core.transaction.commit()
    with pytest.raises(AbortableError):
        append(core, record(), 0, 0)
    core.abort()
    answer(core, EndTxnRequest)
    answer(core, InitProducerIdRequest, epoch=1)
    assert_state(core, State.READY)
    assert core.transaction.identity == (7, 1)
    core.transaction.begin()
    append(core, record(), 0, 0)
    answer(core, AddPartitionsToTxnRequest)
    assert [each.base_sequence for each in core.take(0)] == [0]


def test_an_abort_drops_what_waits_and_waits_for_what_is_in_flight() -> None:
    core = begun()
    [batch] = core.take(0)
    append(core, record(1), 1, 0)
    [dropped] = core.abort()
    assert dropped.error is not None and core.next_ask(0) is None
    [failed] = core.unanswered(batch, "lost", 0, was_sent=True)
    assert failed.error is not None
    answer(core, EndTxnRequest)
    answer(core, InitProducerIdRequest, epoch=1)


def test_an_abort_of_what_perhaps_never_began() -> None:
    core = core_of("tx")
    core.transaction.initialize()
    answer(core, InitProducerIdRequest)
    core.transaction.begin()
    append(core, record(), 0, 0)
    ask = core.next_ask(0)
    assert ask is not None
    core.transaction.unanswered(ask, 0)
    core.abort()
    answer(core, EndTxnRequest, E.INVALID_TXN_STATE, now_ms=100)
    assert core.transaction.state is State.READY


def test_offsets_that_may_still_come_raise_the_epoch() -> None:
    core = begun()
    core.answered(core.take(0)[0], E.NONE, None, 0, 0)
    core.transaction.add_offsets(GroupMembership("g"), OFFSETS)
    answer(core, AddOffsetsToTxnRequest)
    ask = core.next_ask(0)
    assert ask is not None
    core.transaction.unanswered(ask, 0)
    core.abort()
    answer(core, EndTxnRequest, now_ms=100)
    answer(core, InitProducerIdRequest, epoch=1, now_ms=100)


def test_a_commit_without_an_answer_stays_a_commit() -> None:
    core = begun()
    core.answered(core.take(0)[0], E.NONE, None, 0, 0)
    core.transaction.commit()
    ask = core.next_ask(0)
    assert ask is not None
    core.transaction.unanswered(ask, 0)
    with pytest.raises(RuntimeError):
        core.abort()
    assert answer(core, EndTxnRequest, E.NOT_COORDINATOR, now_ms=100)
    answer(core, EndTxnRequest, now_ms=200)
    assert core.transaction.state is State.READY


@pytest.mark.parametrize("code", [E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE])
def test_what_ends_a_producer(code: ErrorCode) -> None:
    core = begun()
    core.answered(core.take(0)[0], E.NONE, None, 0, 0)
    core.transaction.commit()
    answer(core, EndTxnRequest, code)
    assert core.transaction.state is State.FATAL_ERROR
    for call in (core.transaction.begin, core.transaction.commit, core.abort, core.transaction.initialize):
        with pytest.raises(FatalError):
            call()


@pytest.mark.parametrize(
    ("code", "is_lookup", "state"),
    [
        (E.NOT_COORDINATOR, True, State.IN_TRANSACTION),
        (E.REQUEST_TIMED_OUT, True, State.IN_TRANSACTION),
        (E.COORDINATOR_LOAD_IN_PROGRESS, False, State.IN_TRANSACTION),
        (E.UNKNOWN_MEMBER_ID, False, State.ABORTABLE_ERROR),
        (E.ILLEGAL_GENERATION, False, State.ABORTABLE_ERROR),
        (E.FENCED_INSTANCE_ID, False, State.ABORTABLE_ERROR),
        (E.GROUP_AUTHORIZATION_FAILED, False, State.ABORTABLE_ERROR),
        (E.PRODUCER_FENCED, False, State.FATAL_ERROR),
    ],
)
def test_answers_to_offsets(code: ErrorCode, is_lookup: bool, state: State) -> None:
    core = begun()
    core.transaction.add_offsets(GroupMembership("g"), OFFSETS)
    answer(core, AddOffsetsToTxnRequest)
    assert answer(core, TxnOffsetCommitRequest, code) is is_lookup
    assert core.transaction.state is state


@pytest.mark.parametrize(
    ("code", "state", "must_bump"),
    [
        (E.TOPIC_AUTHORIZATION_FAILED, State.ABORTABLE_ERROR, False),
        (E.UNKNOWN_PRODUCER_ID, State.ABORTABLE_ERROR, True),
        (E.INVALID_PRODUCER_ID_MAPPING, State.ABORTABLE_ERROR, True),
        (E.TRANSACTION_ABORTABLE, State.ABORTABLE_ERROR, False),
        (E.UNKNOWN_TOPIC_OR_PARTITION, State.IN_TRANSACTION, False),
        (E.INVALID_TXN_STATE, State.FATAL_ERROR, False),
    ],
)
def test_answers_to_partitions(code: ErrorCode, state: State, must_bump: bool) -> None:
    core = begun()
    append(core, record(), 1, 0, ("t", 1))
    answer(core, AddPartitionsToTxnRequest, code)
    assert (core.transaction.state, core.transaction.must_bump) == (state, must_bump)


# --- a model of a partition ---


@dataclass
class Partition:
    """What a leader keeps of a producer: its epoch, and the sequence numbers of the last five batches."""

    log: list[int] = field(default_factory=list)
    epoch: int = -1
    last: list[tuple[int, int]] = field(default_factory=list)

    def produce(self, batch: ProducerBatch[int]) -> ErrorCode:
        first, end = batch.base_sequence, batch.base_sequence + len(batch.entries)
        if batch.identity.epoch < self.epoch:
            return E.INVALID_PRODUCER_EPOCH
        if batch.identity.epoch > self.epoch:
            if first != 0:
                return E.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.epoch, self.last = batch.identity.epoch, []
        if (first, end) in self.last:
            return E.NONE
        if first != (self.last[-1][1] if self.last else 0):
            return E.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.last = [*self.last[-4:], (first, end)]
        self.log += [waiter for _, waiter in batch.entries]
        return E.NONE


Fault = st.sampled_from(["none", "none", "lost before", "lost behind", "refused", "late", "too large", "forgets"])


@given(st.lists(Fault, max_size=40), st.integers(1, 12), st.integers(1, 60))
def test_no_record_comes_twice_or_out_of_order_and_none_that_was_acknowledged_is_missing(
    faults: list[str], count: int, batch_size_bytes: int
) -> None:
    core, partition, finished, script = core_of(batch_size_bytes=batch_size_bytes), Partition(), {}, iter(faults)
    for number in range(count):
        append(core, record(number), number, 0)
    answer(core, InitProducerIdRequest)
    for now_ms in range(0, 119_000, 100):
        for batch in core.take(now_ms):
            for each in _carried_out(core, partition, batch, now_ms, script):
                for _, waiter in each.batch.entries:
                    assert waiter not in finished
                    finished[waiter] = each.error is None
        if not core.has_batches:
            break
    assert sorted(finished) == list(range(count))
    assert len(set(partition.log)) == len(partition.log)
    acknowledged = [number for number in range(count) if finished[number]]
    assert [number for number in partition.log if finished[number]] == acknowledged


def _carried_out(
    core: ProducerCore[int], partition: Partition, batch: ProducerBatch[int], now_ms: int, script: Iterator[str]
) -> list[Finished[int]]:
    fault = next(script, "none")
    if fault == "lost before":
        return core.unanswered(batch, fault, now_ms, was_sent=True)
    if fault == "refused":
        return core.answered(batch, E.NOT_ENOUGH_REPLICAS, None, -1, now_ms)
    if fault == "too large":
        return core.answered(batch, E.MESSAGE_TOO_LARGE, None, -1, now_ms)
    if fault == "forgets":  # a restart: of several batches only the last one is known
        partition.last = partition.last[-1:]
    code = partition.produce(batch)
    if fault == "lost behind":
        return core.unanswered(batch, fault, now_ms, was_sent=True)
    if fault == "late" and code is E.NONE:
        code = E.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return core.answered(batch, code, None, len(partition.log), now_ms)


# --- transactions whose end raises the epoch ---


def raising(transactional_id: str = "tx") -> ProducerCore[int]:
    """A producer in a transaction of such a cluster."""
    core = core_of(transactional_id)
    core.transaction.initialize()
    answer(core, InitProducerIdRequest)
    core.transaction.begin(2)
    return core


def sent(core: ProducerCore[int], number: int = 0) -> ProducerBatch[int]:
    append(core, record(number), number, 0)
    [batch] = core.take(0)
    return batch


def test_nothing_is_added_and_each_transaction_has_its_epoch() -> None:
    core = raising()
    for epoch in (0, 1):
        batch = sent(core)
        assert (batch.identity, batch.base_sequence) == ((7, epoch), 0)
        core.answered(batch, E.NONE, None, 0, 0)
        assert core.next_ask(0) is None
        core.transaction.add_offsets(GroupMembership("g"), OFFSETS)
        ask = core.next_ask(0)
        assert ask is not None and isinstance(ask.request, TxnOffsetCommitRequest) and ask.max_version == 5
        core.transaction.answered(ask, response_to(ask), 0)
        core.transaction.commit()
        ask = core.next_ask(0)
        assert ask is not None and isinstance(ask.request, EndTxnRequest) and ask.max_version == 5
        core.transaction.answered(ask, response_to(ask, epoch=epoch + 1), 0)
        assert_state(core, State.READY)
        core.transaction.begin(2)


def test_a_transaction_without_anything_has_no_end() -> None:
    core = raising()
    core.transaction.commit()
    assert core.next_ask(0) is None
    assert_state(core, State.READY)


def test_an_abort_raises_the_epoch_by_itself() -> None:
    core = raising()
    batch = sent(core)
    core.unanswered(batch, "lost", 0, was_sent=True)
    core.abort()
    answer(core, EndTxnRequest, epoch=1)
    assert_state(core, State.READY)
    core.transaction.begin(2)
    assert sent(core).identity == (7, 1)


def test_a_partition_that_cannot_be_added_yet_gets_the_batch_again_soon() -> None:
    core = raising()
    batch = sent(core)
    core.answered(batch, E.CONCURRENT_TRANSACTIONS, None, -1, 0)
    assert core.take(19) == [] and core.take(20) == [batch]
    assert not batch.may_be_appended


def test_the_version_is_that_of_the_cluster_at_the_begin() -> None:
    core = raising()
    core.transaction.commit()
    core.next_ask(0)
    core.transaction.begin(0)
    append(core, record(), 0, 0)
    answer(core, AddPartitionsToTxnRequest)
    [batch] = core.take(0)
    core.answered(batch, E.NONE, None, 0, 0)
    core.transaction.commit()
    ask = core.next_ask(0)
    assert ask is not None and ask.max_version is None
    core.transaction.answered(ask, response_to(ask), 0)
    assert core.transaction.identity == (7, 0)
