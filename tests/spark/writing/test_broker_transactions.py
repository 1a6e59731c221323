"""The exactly-once write against a broker process: decisions are found, open transactions ended, nothing is visible twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from barnabas._private.client.blocking.cluster_client import ClusterClient

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas import EmbeddedBroker
from barnabas.spark.writing import exactly_once
from barnabas.spark.writing.broker_transactions import BrokerTransactions
from barnabas.spark.writing.exactly_once import (
    DecisionExpired,
    Fenced,
    OpenTransaction,
    QueryState,
    Registration,
    TaskResult,
    transactional_id,
)
from barnabas.spark.writing.producing import Producer
from barnabas.spark.writing.rows import RowFormat
from barnabas.spark.writing.transaction_calls import TransactionCalls
from barnabas.spark.writing.write_options import parse_write
from protocol.messages.list_offsets import EARLIEST, LATEST
from tests.oracle import java
from tests.oracle.kafka import ApacheKafka

PARTITIONS = 3
FORM = RowFormat(("value",), "out")


@pytest.fixture(scope="module", params=["barnabas", pytest.param("kafka", marks=pytest.mark.oracle)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Our broker, and Apache Kafka."""
    if request.param == "barnabas":
        with EmbeddedBroker({"out": PARTITIONS}) as broker:
            yield broker.bootstrap_servers
        return
    missing = java.missing()
    if missing is not None:
        (pytest.fail if java.required() else pytest.skip)(missing)
    settings = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    with ApacheKafka(settings) as kafka:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{kafka.port}"})
        for future in admin.create_topics([NewTopic("out", PARTITIONS, 1)]).values():
            future.result(60)
        yield f"127.0.0.1:{kafka.port}"


@pytest.fixture
def client(servers: str) -> Iterator[ClusterClient]:
    with ClusterClient(parse_write({"kafka.bootstrap.servers": servers}).client.connection) as client:
        yield client


class Query:
    """A query's tasks and driver, with a client of their own."""

    def __init__(self, name: str, servers: str, client: ClusterClient) -> None:
        self.name = name
        self.options = parse_write({"kafka.bootstrap.servers": servers, "kafka.batch.size": "500"})
        self.client = client
        self.calls = TransactionCalls(client, 60_000)
        self.transactions = BrokerTransactions(client, self.options)

    def task(self, batch: int, partition: int, values: list[bytes], attempt: int = 0, run: str = "r1") -> TaskResult:
        def write() -> tuple[OpenTransaction, int]:
            identity = self.calls.begin(transactional_id(self.name, run, partition, attempt))
            producer = Producer(self.client, self.options, identity, self.calls)
            for row in FORM.outgoing(((value,) for value in values), self.client.now_ms):
                producer.add(row)
            producer.flush()
            assert identity.transactional_id is not None
            return OpenTransaction(
                identity.transactional_id, identity.producer_id, identity.producer_epoch
            ), producer.rows

        return exactly_once.write_task(self.transactions, self.name, run, batch, write)

    def decide(self, batch: int, *transactions: OpenTransaction) -> None:
        self.transactions.decide(self.name, self.transactions.state(self.name).decide(batch, transactions))

    def commit(self, batch: int, results: list[TaskResult]) -> None:
        exactly_once.commit(self.transactions, self.name, batch, results)


def committed(servers: str, prefix: bytes) -> Counter[bytes]:
    """How often each value is there for a reader of committed records."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "none",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition("out", n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    found: Counter[bytes] = Counter()
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "the end of a partition is not reached: a transaction is open"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended += 1
        elif message.value().startswith(prefix):
            found[message.value()] += 1
    consumer.close()
    return found


def test_batches_are_written_once_and_other_attempts_aborted(servers: str, client: ClusterClient) -> None:
    query = Query("once", servers, client)
    expected: Counter[bytes] = Counter()
    for batch in range(3):
        values = [b"once-%d-%d" % (batch, n) for n in range(60)]
        expected.update(values)
        query.task(batch, 0, values, attempt=1)  # which does not count
        query.task(batch, 5, values)  # nor does this: the driver died, and the batch is divided differently now
        query.commit(batch, [query.task(batch, part, values[part::2]) for part in range(2)])
        assert query.transactions.open_ids("barnabas-once-") == []
        again = [query.task(batch, part, values[part::3]) for part in range(3)]
        assert [each.was_decided for each in again] == [True] * 3
        query.commit(batch, again)
    assert committed(servers, b"once-") == expected


def test_what_was_written_is_read(servers: str, client: ClusterClient) -> None:
    """With our own reader: committed records alone, from every partition, by offset and by time."""
    pytest.importorskip("pyarrow", reason="columns are Arrow's; make interop has it")
    from barnabas.spark.client.ranges import OffsetRange
    from barnabas.spark.reading.fetching import RangeReader

    query = Query("read", servers, client)
    before_ms = client.now_ms()
    results = [query.task(0, part, [b"read-%d-%d" % (part, n) for n in range(50)]) for part in range(3)]
    query.task(0, 0, [b"read-aborted"], attempt=1)
    query.commit(0, results)
    keys = [("out", n) for n in range(PARTITIONS)]
    ends = client.offsets(dict.fromkeys(keys, LATEST))
    firsts = client.offsets(dict.fromkeys(keys, EARLIEST))
    late = client.offsets(dict.fromkeys(keys, before_ms))
    settings = parse_write({"kafka.bootstrap.servers": servers}).client
    found: list[bytes] = []
    for key in keys:
        assert firsts[key] == 0 <= late[key] < ends[key]
        whole = OffsetRange(*key, late[key], ends[key])
        for rows in RangeReader(client, settings, whole, pytest.fail, include_headers=True).rows():
            found += rows.column("value").to_pylist()
    mine = sorted(value for value in found if value.startswith(b"read-"))
    assert mine == sorted(b"read-%d-%d" % (part, n) for part in range(3) for n in range(50))


def test_a_decision_is_finished_by_the_repeated_batch(servers: str, client: ClusterClient) -> None:
    query = Query("finished", servers, client)
    results = [query.task(0, part, [b"finished-%d" % part]) for part in range(2)]
    decided = tuple(each.transaction for each in results if each.transaction is not None)
    query.decide(0, *decided)
    query.transactions.end(decided[0], commits=True)  # and then the driver dies
    query.commit(0, [query.task(0, 0, [b"finished-0", b"finished-1"], run="r2")])
    assert committed(servers, b"finished-") == {b"finished-0": 1, b"finished-1": 1}


def test_a_decided_transaction_that_was_aborted_is_an_error(servers: str, client: ClusterClient) -> None:
    query = Query("expired", servers, client)
    result = query.task(0, 0, [b"expired"])
    assert result.transaction is not None
    query.decide(0, result.transaction)
    query.transactions.fence(result.transaction.transactional_id)
    with pytest.raises(DecisionExpired, match="batch 0 of query expired was decided"):
        query.commit(0, [query.task(0, 0, [])])
    assert committed(servers, b"expired") == {}


def test_an_abort_leaves_nothing_open(servers: str, client: ClusterClient) -> None:
    query = Query("aborted", servers, client)
    done = query.task(0, 0, [b"aborted"])
    exactly_once.abort(query.transactions, "aborted", 0, [done, None])
    exactly_once.abort(query.transactions, "aborted", 0, [done, None])
    assert query.transactions.open_ids("barnabas-aborted-") == []
    assert committed(servers, b"aborted") == {}


def test_a_decision_of_a_run_that_is_over_is_refused(servers: str, client: ClusterClient) -> None:
    """It is on its way while the next run begins: the batch of that counts, and the late decision changes nothing."""
    query = Query("late", servers, client)
    old = query.task(0, 0, [b"late"])
    assert old.transaction is not None
    on_its_way = query.transactions.state("late").decide(0, (old.transaction,))
    new = query.task(0, 0, [b"late"], run="r2")
    with pytest.raises(Fenced):
        query.transactions.decide("late", on_its_way)
    query.commit(0, [new])
    for _ in range(2):
        with pytest.raises(Fenced):
            query.transactions.decide("late", on_its_way)
    query.commit(0, [query.task(0, 0, [b"late"], run="r3")])
    assert query.transactions.open_ids("barnabas-late-") == []
    assert committed(servers, b"late") == {b"late": 1}


def test_a_first_registration_that_is_late_is_refused(servers: str, client: ClusterClient) -> None:
    """Of runs that know of no earlier one, the newest counts, whichever order their requests arrive in."""
    query = Query("first", servers, client)
    late = query.calls.begin("barnabas-decisions-first")
    query.transactions.register("first", "r2", None)
    state = query.transactions.state("first")
    assert state.registration is not None
    assert (state.registration.run, state.registration.producer_id) == ("r2", late.producer_id)
    assert state.registration.producer_epoch > late.producer_epoch
    on_its_way = Registration("r1", late.producer_id, late.producer_epoch - 1)
    with pytest.raises(Fenced):
        query.transactions.register("first", "r1", on_its_way)
    assert query.transactions.state("first") == state


def test_of_two_registrations_after_the_same_one_the_first_counts(servers: str, client: ClusterClient) -> None:
    query = Query("both", servers, client).transactions
    query.register("both", "r1", None)
    first = query.state("both").registration
    assert first is not None and first.run == "r1"
    query.register("both", "r2", first)
    query.register("both", "r3", first)  # which is a duplicate, as the leader sees it
    then = Registration("r2", first.producer_id, first.producer_epoch + 1)
    assert query.state("both") == QueryState(then)
    query.decide("both", query.state("both").decide(0, ()))
    query.decide("both", query.state("both").decide(1, ()))
    with pytest.raises(Fenced):
        query.register("both", "r1", Registration("r0", first.producer_id, first.producer_epoch - 1))
    state = query.state("both")
    assert state.registration == then
    assert state.decision is not None and (state.decision.batch, state.decision.sequence) == (1, 2)
    query.decide("both", state.decision)  # the acknowledgement was lost
    assert query.state("both") == state
    query.register("both", "r4", then)
    assert query.state("both").decision == state.decision


def test_the_last_decision_of_each_query_is_found(servers: str, client: ClusterClient) -> None:
    query = Query("any", servers, client).transactions
    assert query.state("nobody") == QueryState()

    def decide(name: str, batches: range, *transactions: OpenTransaction) -> None:
        query.register(name, "r1", None)
        for batch in batches:
            query.decide(name, query.state(name).decide(batch, transactions))

    decide("seldom", range(3, 4), OpenTransaction("a", 1, 2))
    decide("often", range(100))
    for number in range(40):  # in every partition of the topic
        decide(f"other-{number}", range(number, number + 1))
    found = {name: query.state(name).decision for name in ("seldom", "often")}
    assert found["seldom"] is not None and found["often"] is not None
    assert (found["seldom"].batch, found["seldom"].transactions) == (3, (OpenTransaction("a", 1, 2),))
    assert (found["often"].batch, found["often"].sequence) == (99, 100)
    assert query.state("nobody") == QueryState()
