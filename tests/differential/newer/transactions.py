"""Transactions of version 2: the producer's epoch grows with each, and leaders add their partitions themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
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

    def begin(self) -> None:
        """Take over the transactional id; once the coordinator is there."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        answers: list[Any] = []

        finding = FindCoordinatorRequest(coordinator_keys=[self.transactional_id], key_type=1)

        def is_granted() -> bool:
            self.run.do(finding)  # makes the topic of transactions
            answers.append(self.run.do(request))
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

    def write(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """In version 12: the leader adds the partition to the transaction."""
        answer = self.run.do(self.writing(topic, *values, partition=partition), 12)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == 0, ErrorCode(row.error_code).name

    def ending(self, *, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def end(self, *, committed: bool = True) -> Any:
        answer = self.run.do(self.ending(committed=committed), 5)
        assert answer.error_code == 0, ErrorCode(answer.error_code).name
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


@newer_case(EndTxnRequest, "5")
def stored_of_transactions(run: Run) -> None:
    topic = run.topic("t", 2)
    producer = Producer(run)
    producer.begin()
    producer.write(topic, b"a")
    producer.write(topic, b"b", partition=1)
    producer.end()
    producer.write(topic, b"c")
    producer.end(committed=False)
    note_transaction_records(run, producer.transactional_id)


@newer_case(ProduceRequest, "11-12")
def without_adding_the_partition(run: Run) -> None:
    """Up to version 11 the producer has to do that."""
    topic = run.topic()
    producer = Producer(run)
    producer.begin()
    run.ask(producer.writing(topic, b"a"))
