"""Records reach the leaders of their partitions once, in order, over retries; transactions are ended over errors that pass."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from barnabas._private.protocol.errors import ErrorCode, KafkaError
from barnabas._private.protocol.messages import add_partitions_to_txn, end_txn, init_producer_id, produce

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.writing.exactly_once import OpenTransaction, TransactionGone
from barnabas.spark.writing.producing import Producer
from barnabas.spark.writing.rows import RowFormat
from barnabas.spark.writing.transaction_calls import ProducerIdentity, TransactionCalls
from barnabas.spark.writing.write_options import WriteOptions
from protocol.records.batch import iter_headers
from protocol.records.record import iter_records
from tests.spark.cluster import Cluster

FORM = RowFormat(("key", "value", "partition"), "orders")


class Log:
    """What leaders stored: batches whose sequence follows, as brokers check it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.values: dict[int, list[bytes | None]] = defaultdict(list)
        self.sequences: dict[int, int] = defaultdict(int)
        self.codes: list[int] = []
        """Answers in place of storing, one a partition's batch."""
        self.stores_and_fails: list[int] = []
        """Answers after storing: the acknowledgement is lost."""
        self.requests: list[Any] = []
        cluster.handlers["Produce"] = self.produce

    def produce(self, broker: int, request: Any) -> Any:
        self.requests.append(request)
        responses = []
        for topic in request.topic_data:
            parts = [self._store(broker, topic.name, each) for each in topic.partition_data]
            responses.append(produce.TopicProduceResponse(name=topic.name, partition_responses=parts))
        return produce.ProduceResponse(responses=responses)

    def _store(self, broker: int, topic: str, data: Any) -> Any:
        code = self.codes.pop(0) if self.codes else self.cluster._leads(broker, (topic, data.index))
        if not code:
            for position, header in iter_headers(data.records):
                if header.base_sequence < self.sequences[data.index]:
                    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
                    break
                assert header.base_sequence == self.sequences[data.index]
                found = list(iter_records(data.records, position, header, 1 << 20))
                self.sequences[data.index] += len(found)
                self.values[data.index] += [record.value for record in found]
            if self.stores_and_fails and not code:
                code = self.stores_and_fails.pop(0)
        return produce.PartitionProduceResponse(index=data.index, error_code=code, base_offset=0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster({("orders", n): n for n in range(3)})


@pytest.fixture
def log(cluster: Cluster) -> Log:
    return Log(cluster)


def producer(cluster: Cluster, **options: Any) -> Producer:
    client = cluster.client()
    return Producer(client, WriteOptions(cluster.settings(), **options), ProducerIdentity(None, 9, 0))


def add(one: Producer, count: int, partition: int | None = None, first: int = 0) -> None:
    values = ((b"k%d" % n, b"%d" % n, partition) for n in range(first, first + count))
    for row in FORM.outgoing(values, lambda: 5):
        one.add(row)


def test_all_rows_are_written_in_order(cluster: Cluster, log: Log) -> None:
    one = producer(cluster, batch_bytes=500, max_request_bytes=1000)
    add(one, 300)
    add(one, 100, partition=1, first=300)
    one.flush()
    assert one.rows == 400
    assert sorted(int(value or 0) for values in log.values.values() for value in values) == list(range(400))
    for values in log.values.values():
        assert [int(value or 0) for value in values] == sorted(int(value or 0) for value in values)
    assert log.values[1][-100:] == [b"%d" % n for n in range(300, 400)]
    assert len(log.requests) > 10


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
def test_what_failed_for_a_while_is_written_once(cluster: Cluster, log: Log, code: ErrorCode) -> None:
    log.codes = [code] * 3
    log.stores_and_fails = [code] * 2
    one = producer(cluster)
    add(one, 50)
    one.flush()
    add(one, 50, first=50)
    one.flush()
    assert sorted(int(value or 0) for values in log.values.values() for value in values) == list(range(100))


def test_a_leader_that_moves_and_one_that_dies(cluster: Cluster, log: Log) -> None:
    one = producer(cluster)
    add(one, 30)
    one.flush()
    cluster.leaders[("orders", 0)] = 1
    cluster.down.add(2)
    cluster.clock.at_pause = [lambda: None, lambda: cluster.leaders.update({("orders", 2): 0})]
    add(one, 30, first=30)
    one.flush()
    assert sorted(int(value or 0) for values in log.values.values() for value in values) == list(range(60))


def test_what_stays_is_raised(cluster: Cluster, log: Log) -> None:
    log.codes = [ErrorCode.MESSAGE_TOO_LARGE]
    one = producer(cluster)
    add(one, 1)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE: orders-"):
        one.flush()
    with pytest.raises(SourceOptionError, match="Topic orders has partitions 0 to 2, not 7"):
        add(one, 1, partition=7)
    with pytest.raises(SourceOptionError, match="Topic gone does not exist"):
        one.add(next(iter(RowFormat(("value",), "gone").outgoing([(b"v",)], lambda: 0))))


def test_a_topic_that_one_broker_does_not_know_yet_is_waited_for(cluster: Cluster, log: Log) -> None:
    leaders = dict(cluster.leaders)
    cluster.leaders.clear()
    cluster.clock.at_pause += [lambda: None, lambda: cluster.leaders.update(leaders)]
    one = producer(cluster)
    add(one, 3)
    one.flush()
    assert one.rows == 3


def test_rows_without_keys_go_to_all_partitions(cluster: Cluster, log: Log) -> None:
    one = producer(cluster, batch_bytes=200)
    for row in RowFormat(("value",), "orders").outgoing(((b"%d" % n,) for n in range(100)), lambda: 0):
        one.add(row)
    one.flush()
    assert set(log.values) == {0, 1, 2}


# Transactions


def test_partitions_are_added_before_they_are_written_to(cluster: Cluster, log: Log) -> None:
    added: list[tuple[str, int]] = []
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE, ErrorCode.NONE]

    def add_partitions(broker: int, request: Any) -> Any:
        code = codes.pop(0)
        assert broker == 1, "the coordinator"
        keys = [(topic.name, n) for topic in request.v3_and_below_topics for n in topic.partitions]
        if not code:
            added.extend(keys)
        results = [
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name="orders",
                results_by_partition=[
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=n, partition_error_code=code
                    )
                    for _, n in keys
                ],
            )
        ]
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            throttle_time_ms=0, results_by_topic_v3_and_below=results
        )

    cluster.handlers["AddPartitionsToTxn"] = add_partitions
    client = cluster.client()
    calls = TransactionCalls(client, 1000)
    one = Producer(client, WriteOptions(cluster.settings()), ProducerIdentity("q-0-0", 9, 3), calls)
    add(one, 10, partition=2)
    one.flush()
    add(one, 10, partition=2, first=10)
    add(one, 10, partition=0, first=20)
    one.flush()
    assert added == [("orders", 2), ("orders", 0)]
    (header,) = [header for _, header in iter_headers(log.requests[0].topic_data[0].partition_data[0].records)]
    assert (header.is_transactional, header.producer_id, header.producer_epoch) == (True, 9, 3)
    assert log.requests[0].transactional_id == "q-0-0"


def test_a_producer_begins_at_its_coordinator(cluster: Cluster) -> None:
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]

    def begin(broker: int, request: Any) -> Any:
        assert (broker, request.transactional_id, request.transaction_timeout_ms) == (1, "q-0-0", 1000)
        return init_producer_id.InitProducerIdResponse(
            throttle_time_ms=0, error_code=codes.pop(0), producer_id=4, producer_epoch=2
        )

    cluster.handlers["InitProducerId"] = begin
    assert TransactionCalls(cluster.client(), 1000).begin("q-0-0") == ProducerIdentity("q-0-0", 4, 2)
    assert codes == []


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        ([ErrorCode.NONE], None),
        ([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE], None),
        ([None, ErrorCode.NONE], None),  # the connection is lost
        ([ErrorCode.PRODUCER_FENCED], TransactionGone),
        ([ErrorCode.INVALID_PRODUCER_EPOCH], TransactionGone),
        ([ErrorCode.INVALID_TXN_STATE], TransactionGone),
        ([ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED], KafkaError),
    ],
)
def test_the_end_of_a_transaction(cluster: Cluster, codes: list[int | None], error: type[Exception] | None) -> None:
    def end(broker: int, request: Any) -> Any:
        assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("q-0-0", 4, 2)
        assert request.committed
        code = codes.pop(0)
        return None if code is None else end_txn.EndTxnResponse(throttle_time_ms=0, error_code=code)

    cluster.handlers["EndTxn"] = end
    calls = TransactionCalls(cluster.client(), 1000)
    if error is None:
        calls.end(OpenTransaction("q-0-0", 4, 2), commits=True)
    else:
        with pytest.raises(error):
            calls.end(OpenTransaction("q-0-0", 4, 2), commits=True)
    assert codes == []
