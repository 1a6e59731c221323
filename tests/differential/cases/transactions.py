"""The partitions' side of transactions: the case is the producer, and the coordinator that writes the markers."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.differential.batches import MARCH, batch
from tests.differential.cases.fetch import fetching, wanted
from tests.differential.cases.init_producer_id import new_producer
from tests.differential.cases.log import EARLIEST, LATEST, MAX_TIMESTAMP, listing
from tests.differential.play import TRANSACTIONS, Run, case

TRANSACTIONAL = 0x10
COMMITTED = 1


@dataclass
class Producer:
    """One that writes in transactions, without a coordinator's leave."""

    run: Run
    topic: str
    producer_id: int = -1
    epoch: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.producer_id < 0:
            self.producer_id, self.epoch = new_producer(self.run)

    def batch(self, *values: bytes, partition: int = 0, attributes: int = TRANSACTIONAL, at: int = MARCH) -> bytes:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(values)
        return batch(
            *values, base_timestamp=at, attributes=attributes, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=sequence,
        )  # fmt: skip

    def sending(self, records: bytes, partition: int = 0) -> ProduceRequest:
        data = [PartitionProduceData(index=partition, records=records)]
        return ProduceRequest(
            transactional_id=self.run.name("tx"),
            acks=-1,
            timeout_ms=10000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
        )

    def write(self, *values: bytes, partition: int = 0, at: int = MARCH) -> None:
        answer = self.run.do(self.sending(self.batch(*values, partition=partition, at=at), partition))
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == 0, row

    def marker(self, *partitions: int, committed: bool, coordinator_epoch: int = 0) -> WritableTxnMarker:
        topics = [WritableTxnMarkerTopic(name=self.topic, partition_indexes=list(partitions or (0,)))]
        return WritableTxnMarker(
            producer_id=self.producer_id, producer_epoch=self.epoch, transaction_result=committed, topics=topics,
            coordinator_epoch=coordinator_epoch,
        )  # fmt: skip

    def end(self, *, committed: bool, partition: int = 0) -> None:
        answer = self.run.do(WriteTxnMarkersRequest(markers=[self.marker(partition, committed=committed)]))
        assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer


def producers(topic: str, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(partitions or (0,)))])


def read_all(run: Run, topic: str, offset: int = 0) -> None:
    """What readers of committed and of all records get, in one version of Fetch."""
    for isolation in (0, 1):
        run.ask(by_name(run, topic, offset, isolation_level=isolation), 12)


def by_name(run: Run, topic: str, offset: int, **fields: int) -> FetchRequest:
    request = fetching(wanted(run, topic, offset), **fields)
    for each in request.topics:
        each.topic = topic
    return request


# --- WriteTxnMarkers ---


@case(WriteTxnMarkersRequest, "normal", stage=TRANSACTIONS)
def commit_and_abort(run: Run) -> None:
    topic = run.topic()
    one, two = Producer(run, topic), Producer(run, topic)
    one.write(b"a", b"b")
    two.write(b"c")
    one.write(b"d")
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=False)]))
    read_all(run, topic)
    run.ask(WriteTxnMarkersRequest(markers=[two.marker(committed=True)]))
    read_all(run, topic)
    run.ask(producers(topic), 0)


@case(WriteTxnMarkersRequest, "normal", stage=TRANSACTIONS)
def several_partitions_and_producers(run: Run) -> None:
    topic = run.topic("t", 3)
    one, two = Producer(run, topic), Producer(run, topic)
    for partition in range(3):
        one.write(b"a%d" % partition, partition=partition)
        two.write(b"b%d" % partition, partition=partition)
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(0, 1, 2, committed=True), two.marker(0, 2, committed=False)]))
    run.ask(producers(topic, 0, 1, 2), 0)


@case(WriteTxnMarkersRequest, "edge", stage=TRANSACTIONS)
def no_markers_and_no_partitions(run: Run) -> None:
    run.ask(WriteTxnMarkersRequest(markers=[]))
    nowhere = Producer(run, run.topic()).marker(committed=True)
    nowhere.topics = []
    run.ask(WriteTxnMarkersRequest(markers=[nowhere]))


@case(WriteTxnMarkersRequest, "edge", stage=TRANSACTIONS)
def markers_of_nothing_and_again(run: Run) -> None:
    topic = run.topic()
    one = Producer(run, topic)
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=False)]))
    one.write(b"a")
    for committed in (False, False, True):
        run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=committed)]))
    read_all(run, topic)
    run.ask(producers(topic), 0)


@case(WriteTxnMarkersRequest, "edge", stage=TRANSACTIONS)
def a_producer_twice(run: Run) -> None:
    topic = run.topic("t", 2)
    one = Producer(run, topic)
    one.write(b"a")
    one.write(b"b", partition=1)
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(0, committed=True), one.marker(1, committed=True)]))
    run.ask(producers(topic, 0, 1), 0)


@case(WriteTxnMarkersRequest, "wrong", stage=TRANSACTIONS)
def old_epochs(run: Run) -> None:
    topic = run.topic()
    one = Producer(run, topic)
    one.epoch = 3
    one.write(b"a")
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=True, coordinator_epoch=5)]))
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=True, coordinator_epoch=4)]))
    one.epoch = 2
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=True, coordinator_epoch=5)]))
    one.epoch = 4
    run.ask(WriteTxnMarkersRequest(markers=[one.marker(committed=False, coordinator_epoch=5)]))
    run.ask(producers(topic), 0)


@case(WriteTxnMarkersRequest, "wrong", stage=TRANSACTIONS)
def unknown_places(run: Run) -> None:
    topic = run.topic()
    one = Producer(run, topic)
    marker = one.marker(0, 7, committed=True)
    marker.topics.append(WritableTxnMarkerTopic(name=run.name("none"), partition_indexes=[0]))
    run.ask(WriteTxnMarkersRequest(markers=[marker]))


@case(WriteTxnMarkersRequest, "wrong", stage=TRANSACTIONS)
def markers_without_a_producer(run: Run) -> None:
    one = Producer(run, run.topic())
    for producer_id, epoch in ((-1, 0), (one.producer_id, -1)):
        marker = one.marker(committed=True)
        marker.producer_id, marker.producer_epoch = producer_id, epoch
        run.ask(WriteTxnMarkersRequest(markers=[marker]))


# --- DescribeProducers ---


@case(DescribeProducersRequest, "normal", stage=TRANSACTIONS)
def an_open_transaction_and_an_ended_one(run: Run) -> None:
    topic = run.topic()
    one, two, plain = (Producer(run, topic) for _ in range(3))
    one.write(b"a", b"b")
    one.end(committed=True)
    two.write(b"c")
    two.write(b"d", b"e")
    run.do(plain.sending(plain.batch(b"f", attributes=0)))
    run.ask(producers(topic))


@case(DescribeProducersRequest, "edge", stage=TRANSACTIONS)
def nothing_to_describe(run: Run) -> None:
    run.ask(DescribeProducersRequest(topics=[]))
    topic = run.topic()
    run.ask(producers(topic))
    run.produce(topic, batch(b"a"))
    run.ask(producers(topic, 0, 0))


@case(DescribeProducersRequest, "wrong", stage=TRANSACTIONS)
def unknown_topics_and_partitions(run: Run) -> None:
    topic = run.topic()
    run.ask(producers(topic, 0, 3))
    for name in (run.name("none"), "", "not/a topic"):
        run.ask(producers(name))


# --- Fetch, ListOffsets, Produce ---


@case(FetchRequest, "normal", "4+", stage=TRANSACTIONS)
def committed_records_up_to_an_open_transaction(run: Run) -> None:
    topic = run.topic()
    one, two = Producer(run, topic), Producer(run, topic)
    one.write(b"a", b"b")
    one.end(committed=True)
    two.write(b"c")
    run.produce(topic, batch(b"d"))
    for offset in (0, 3, 4):
        run.ask(fetching(wanted(run, topic, offset), isolation_level=COMMITTED))
    two.end(committed=True)
    run.ask(fetching(wanted(run, topic, 0), isolation_level=COMMITTED))


@case(FetchRequest, "normal", "4+", stage=TRANSACTIONS)
def aborted_transactions(run: Run) -> None:
    topic = run.topic()
    one, two, three = (Producer(run, topic) for _ in range(3))
    one.write(b"a", b"b")
    two.write(b"c")
    one.write(b"d")
    two.end(committed=False)
    three.write(b"e")
    one.end(committed=False)
    three.end(committed=True)
    two.write(b"f")
    two.end(committed=False)
    for offset in range(10):
        run.ask(fetching(wanted(run, topic, offset), isolation_level=COMMITTED))
    run.ask(fetching(wanted(run, topic, 0)))
    run.ask(fetching(wanted(run, topic, 0, max_bytes=100), isolation_level=COMMITTED))


@case(FetchRequest, "edge", "4+", stage=TRANSACTIONS)
def aborted_transactions_over_segments(run: Run) -> None:
    topic = run.topic("t", segment_bytes="600", index_interval_bytes="100")
    long, short = Producer(run, topic), Producer(run, topic)
    long.write(b"l" * 50)
    for number in range(12):
        short.write(b"%d" % number * 60)
        short.end(committed=number % 3 == 0)
    long.end(committed=False)
    for offset in range(0, 26, 3):
        run.ask(fetching(wanted(run, topic, offset, max_bytes=300), isolation_level=COMMITTED))


@case(ListOffsetsRequest, "normal", "2+", stage=TRANSACTIONS)
def before_an_open_transaction(run: Run) -> None:
    topic = run.topic()
    one = Producer(run, topic)
    run.produce(topic, batch(b"a", b"b"))
    one.write(b"c", b"d", at=MARCH + 1000)
    run.produce(topic, batch(b"e", base_timestamp=MARCH + 500))
    times = (EARLIEST, LATEST, MARCH, MARCH + 400, MARCH + 1001)
    for timestamp in (*times, MAX_TIMESTAMP) if run.version >= 7 else times:
        for isolation in (0, 1):
            run.ask(listing(topic, timestamp, isolation=isolation))
    one.end(committed=False)
    run.ask(listing(topic, LATEST, isolation=1))
    run.ask(listing(topic, MARCH + 1000, isolation=1))


@case(ProduceRequest, "normal", "3+", stage=TRANSACTIONS)
def in_a_transaction(run: Run) -> None:
    topic = run.topic()
    one = Producer(run, topic)
    first = one.sending(one.batch(b"a", b"b"))
    run.ask(first)
    run.ask(one.sending(one.batch(b"c")))
    run.ask(first)
    read_all(run, topic)


@case(ProduceRequest, "wrong", "3+", stage=TRANSACTIONS)
def against_the_rules_of_a_transaction(run: Run) -> None:
    topic = run.topic()
    one = Producer(run, topic)
    one.write(b"a")
    run.ask(one.sending(one.batch(b"b", attributes=0)))
    one.epoch += 1
    one.end(committed=False)
    one.epoch -= 1
    run.ask(one.sending(one.batch(b"c")))
    one.epoch += 1
    run.ask(one.sending(one.batch(b"d")))
    nameless = one.sending(batch(b"e", attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0))
    nameless.transactional_id = None
    run.ask(nameless)
