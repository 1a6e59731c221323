"""Transactions of version 2: the producer's epoch grows with each, and leaders add their partitions themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.transaction_version import END_SINCE
from tests.differential.batches import batch
from tests.differential.internal_topics import note_transaction_records
from tests.differential.play import Run, newer_case

TRANSACTIONAL = 0x10


@dataclass
class Producer:
    """One that begins where InitProducerId put it, and goes on with what EndTxn tells."""

    run: Run
    short: str = "tx"
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def transactional_id(self) -> str:
        return self.run.name(self.short)

    def initializing(self, *, is_known: bool = False) -> InitProducerIdRequest:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        if is_known:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        return request

    def begin(self, version: int | None = None) -> None:
        """Take over the transactional id; once the coordinator is there."""
        request = self.initializing()
        answers: list[Any] = []

        finding = FindCoordinatorRequest(coordinator_keys=[self.transactional_id], key_type=1)

        def is_granted() -> bool:
            self.run.do(finding)  # makes the topic of transactions
            answers.append(self.run.do(request, version))
            return bool(answers[-1].error_code == 0)

        self.run.until("there is a coordinator of transactions", is_granted)
        self.move(answers[-1])

    def move(self, answer: Any) -> None:
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    def writing(self, topic: str, *values: bytes, partition: int = 0) -> ProduceRequest:
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + len(values)
        records = batch(
            *values, attributes=TRANSACTIONAL, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=sequence,
        )  # fmt: skip
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
        return ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data])

    def write(self, topic: str, *values: bytes, partition: int = 0, version: int = 12) -> None:
        """From version 12 on the leader adds the partition to the transaction."""
        answer = self.run.do(self.writing(topic, *values, partition=partition), version)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == 0, ErrorCode(row.error_code).name

    def add(self, topic: str, partition: int = 0) -> None:
        """As producers of the first version do."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        (answer,) = self.run.do(request, 3).results_by_topic_v3_and_below
        assert answer.results_by_partition[0].partition_error_code == 0

    def adding(self, topic: str, *partitions: int, verify_only: bool = False) -> AddPartitionsToTxnRequest:
        """As leaders ask the coordinator."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
            verify_only=verify_only, topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )  # fmt: skip
        return AddPartitionsToTxnRequest(transactions=[transaction])

    def committing(self, topic: str) -> TxnOffsetCommitRequest:
        row = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata=""
        )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, group_id=self.run.name("g"), producer_id=self.producer_id,
            producer_epoch=self.epoch, topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )  # fmt: skip

    def marking(self, topic: str, epoch: int, version: int) -> WriteTxnMarkersRequest:
        marker = WritableTxnMarker(
            producer_id=self.producer_id, producer_epoch=epoch, transaction_result=True, coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])], transaction_version=version,
        )  # fmt: skip
        return WriteTxnMarkersRequest(markers=[marker])

    def ending(self, *, committed: bool, bumped: int = 0) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch + bumped,
            committed=committed,
        )

    def end(self, *, committed: bool = True, version: int = 5) -> Any:
        answer = self.run.do(self.ending(committed=committed), version)
        assert answer.error_code == 0, ErrorCode(answer.error_code).name
        if version >= END_SINCE:
            self.move(answer)
        self.until_complete()
        return answer

    def until_complete(self) -> None:
        """Until the markers are written, and the coordinator knows it."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

        def is_complete() -> bool:
            (row,) = self.run.do(request).transaction_states
            return row.transaction_state in ("CompleteCommit", "CompleteAbort", "Empty")

        self.run.until("the transaction is complete", is_complete)


def describe(run: Run, producer: Producer) -> str:
    (row,) = run.do(DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])).transaction_states
    return f"{row.transaction_state}, epoch {row.producer_epoch}, {sum(len(each.partitions) for each in row.topics)} partitions"


def coordinator_of(group_id: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])


@newer_case(EndTxnRequest, "5")
def the_epoch_grows_with_each_end(run: Run) -> None:
    topic = run.topic()
    producer = Producer(run)
    producer.begin()
    for committed in (True, False):
        producer.write(topic, b"a", b"b")
        answer = run.ask(producer.ending(committed=committed))
        producer.until_complete()
        run.ask(producer.ending(committed=committed))  # sent again
        producer.move(answer)
    run.ask(producer.ending(committed=True))  # nothing was written


@newer_case(EndTxnRequest, "4-5")
def stored_of_transactions(run: Run) -> None:
    """Also of producers of the first version."""
    topics, version = [run.topic("t"), run.topic("u")], run.version
    producer = Producer(run)
    producer.begin()
    for committed in (True, False):
        for topic in topics:
            if version < END_SINCE:
                producer.add(topic)
            producer.write(topic, b"a", version=12 if version >= END_SINCE else 11)
        producer.end(committed=committed, version=version)
    note_transaction_records(run, producer.transactional_id)


@newer_case(EndTxnRequest, "5")
def in_every_state(run: Run) -> None:
    topic, producer = run.topic(), Producer(run)
    producer.begin()
    run.ask(producer.ending(committed=True))
    for _ in range(2):
        producer.move(run.ask(producer.ending(committed=False)))
        producer.until_complete()
    for bumped in (-2, -1, 0, 1):
        run.ask(producer.ending(committed=True, bumped=bumped))
    for bumped in (-2, -1, 1):
        run.ask(producer.ending(committed=False, bumped=bumped))
    producer.write(topic, b"a")
    run.ask(producer.ending(committed=True, bumped=-1))
    answer = run.ask(producer.ending(committed=True))
    producer.until_complete()
    run.ask(producer.ending(committed=False))
    producer.move(answer)
    run.note(describe(run, producer))
    producer.producer_id += 77_777
    run.ask(producer.ending(committed=True))


@newer_case(EndTxnRequest, "4-5")
def behind_producers_of_the_other_version(run: Run) -> None:
    topic, producer = run.topic(), Producer(run)
    producer.begin()
    producer.add(topic)
    producer.write(topic, b"a", version=11)
    answer = run.ask(producer.ending(committed=True))
    producer.until_complete()
    if run.version >= END_SINCE:
        producer.move(answer)
    producer.write(topic, b"b", version=12)
    run.ask(producer.ending(committed=False))
    producer.until_complete()
    run.note(describe(run, producer))


@newer_case(InitProducerIdRequest, "4-5")
def over_an_open_transaction(run: Run) -> None:
    """Its producer is fenced."""
    topic, old, new = run.topic("t", 2), Producer(run), Producer(run)
    old.begin()
    old.write(topic, b"a")
    new.begin(run.version)
    run.note(describe(run, new))
    run.ask(new.initializing())
    for committed in (True, False):
        run.ask(old.ending(committed=committed), 5)


@newer_case(InitProducerIdRequest, "4-5")
def by_a_producer_without_the_response_to_its_end(run: Run) -> None:
    topic, producer = run.topic(), Producer(run)
    producer.begin()
    producer.write(topic, b"a")
    run.ask(producer.ending(committed=True), 5)
    producer.until_complete()
    run.ask(producer.initializing(is_known=True))
    run.ask(producer.initializing(is_known=True))


@newer_case(ProduceRequest, "12")
def late_and_out_of_order(run: Run) -> None:
    topic, producer = run.topic("t", 2), Producer(run)
    producer.begin()
    first = producer.writing(topic, b"a")
    producer.writing(topic, b"b")
    run.ask(producer.writing(topic, b"c"))
    run.ask(first)
    run.ask(first)
    producer.end()
    for partition in (0, 1):
        producer.epoch -= 1
        run.ask(producer.writing(topic, b"late", partition=partition))
        producer.epoch += 1
    producer.sequences.clear()
    producer.writing(topic, b"d", partition=1)
    run.ask(producer.writing(topic, b"e", partition=1))
    run.note(describe(run, producer))


@newer_case(ProduceRequest, "12")
def of_a_producer_that_was_fenced(run: Run) -> None:
    topic, old, new = run.topic("t", 2), Producer(run), Producer(run)
    old.begin()
    old.write(topic, b"a")
    new.begin()
    for partition in (0, 1):
        run.ask(old.writing(topic, b"late", partition=partition))


@newer_case(ProduceRequest, "12")
def of_producers_that_the_coordinator_does_not_know(run: Run) -> None:
    topic, producer = run.topic("t", 2), Producer(run)
    producer.begin()
    producer.epoch += 3
    run.ask(producer.writing(topic, b"a"))
    producer.epoch -= 3
    producer.producer_id += 77_777
    run.ask(producer.writing(topic, b"a", partition=1))


@newer_case(TxnOffsetCommitRequest, "3-5")
def without_adding_the_offsets(run: Run) -> None:
    """Up to version 4 the producer has to do that."""
    topic, producer = run.topic(), Producer(run)
    run.until(
        "there is a coordinator of groups",
        lambda: run.do(coordinator_of(run.name("g"))).coordinators[0].error_code == 0,
    )
    producer.begin()
    run.ask(producer.committing(topic))
    run.ask(producer.ending(committed=False), 5)
    producer.until_complete()
    run.ask(producer.committing(topic))


@newer_case(WriteTxnMarkersRequest, "1-2")
def late_markers(run: Run) -> None:
    topic, producer = run.topic(), Producer(run)
    producer.begin()
    producer.write(topic, b"a")
    for epoch, version in ((0, 2), (0, 1), (0, 0), (1, 2), (1, 2), (0, 2), (3, 2), (2, 2), (32_767, 2), (32_767, 2)):
        run.ask(producer.marking(topic, epoch, version))


@newer_case(AddPartitionsToTxnRequest, "4-5")
def by_brokers_for_their_clients(run: Run) -> None:
    topic, producer = run.topic("t", 2), Producer(run)
    producer.begin()
    run.ask(producer.adding(topic, 0, 1))
    run.ask(producer.adding(topic, 1))
    run.ask(producer.adding(topic, 7, 1))
    producer.end()
    run.ask(producer.adding(topic, 0, verify_only=True))
    run.ask(producer.adding(topic, 0))
    run.note(describe(run, producer))


@newer_case(ProduceRequest, "11-12")
def without_adding_the_partition(run: Run) -> None:
    """Up to version 11 the producer has to do that."""
    topic = run.topic()
    producer = Producer(run)
    producer.begin()
    run.ask(producer.writing(topic, b"a"))
