"""The first writes of transactions, on a broker that verifies them with their coordinator (KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.differential.batches import MARCH, batch
from tests.differential.cases.transactions_coordinator import UNKNOWN_PRODUCER_ID, Coordinated
from tests.differential.play import VERIFIED, Run, case

TRANSACTIONAL = 0x10


@dataclass
class Writer(Coordinated):
    """And the records of its transactions."""

    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def records(self, topic: str, partition: int = 0, *, sequence: int | None = None) -> bytes:
        """One record; its sequence number is the next one of the partition unless given."""
        key = topic, partition
        if sequence is None:
            sequence = self.sequences.get(key, 0)
            self.sequences[key] = sequence + 1
        return batch(
            b"a", base_timestamp=MARCH, attributes=TRANSACTIONAL, producer_id=self.producer_id,
            producer_epoch=self.epoch, base_sequence=sequence,
        )  # fmt: skip

    def sending(self, topic: str, *rows: tuple[int, bytes]) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=records) for index, records in rows]
        return ProduceRequest(
            transactional_id=self.name, acks=-1, timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )  # fmt: skip

    def next(self, topic: str, *partitions: int) -> ProduceRequest:
        """One record to each partition."""
        return self.sending(topic, *((index, self.records(topic, index)) for index in partitions or (0,)))


@case(ProduceRequest, "normal", "3+", stage=VERIFIED)
def verified_transactions(run: Run) -> None:
    topic, producer = run.topic(partitions=2), Writer(run)
    producer.init()
    for commit in (True, False):
        producer.add(topic, 0, 1)
        run.ask(producer.next(topic))
        run.ask(producer.next(topic, 0, 1))
        producer.end(commit=commit)


@case(ProduceRequest, "wrong", "3+", stage=VERIFIED)
def partition_outside_of_the_transaction(run: Run) -> None:
    topic, producer = run.topic(partitions=3), Writer(run)
    producer.init()
    run.ask(producer.sending(topic, (0, producer.records(topic, 0, sequence=0))))
    producer.add(topic, 1)
    run.ask(producer.next(topic, 0, 1, 2))
    run.ask(producer.next(topic, 1))


@case(ProduceRequest, "wrong", "3+", stage=VERIFIED)
def behind_the_end_of_the_transaction(run: Run) -> None:
    topic, producer = run.topic(), Writer(run)
    producer.init()
    producer.add(topic)
    sent = producer.next(topic)
    run.ask(sent)
    producer.end()
    run.ask(producer.next(topic))
    run.ask(sent)


@case(ProduceRequest, "wrong", "3+", stage=VERIFIED)
def by_a_producer_that_was_fenced(run: Run) -> None:
    topic, old = run.topic(partitions=2), Writer(run)
    old.init()
    new = Writer(run)
    new.init()
    new.add(topic, 0)
    run.ask(old.next(topic, 0))
    run.ask(new.next(topic, 0))
    run.ask(old.sending(topic, (0, old.records(topic, 0, sequence=1)), (1, old.records(topic, 1))))


@case(ProduceRequest, "wrong", "3+", stage=VERIFIED)
def of_a_producer_that_the_coordinator_does_not_know(run: Run) -> None:
    topic, producer = run.topic(), Writer(run)
    producer.producer_id, producer.epoch = UNKNOWN_PRODUCER_ID, 0
    run.ask(producer.next(topic))
    producer.init()
    producer.add(topic)
    producer.producer_id = UNKNOWN_PRODUCER_ID
    run.ask(producer.next(topic))


@case(ProduceRequest, "wrong", "3+", stage=VERIFIED)
def while_the_transaction_ends(run: Run) -> None:
    topic, producer = run.topic(partitions=2), Writer(run)
    producer.init()
    producer.stick(topic)
    run.ask(producer.next(topic, 1))


@case(ProduceRequest, "edge", "3+", stage=VERIFIED)
def first_batch_behind_one_that_was_refused(run: Run) -> None:
    topic, producer = run.topic(), Writer(run)
    producer.init()
    run.ask(producer.sending(topic, (0, producer.records(topic, sequence=4))))
    producer.add(topic)
    run.ask(producer.sending(topic, (0, producer.records(topic, sequence=5))))
    run.ask(producer.sending(topic, (0, producer.records(topic, sequence=4))))
    run.ask(producer.sending(topic, (0, producer.records(topic, sequence=5))))
