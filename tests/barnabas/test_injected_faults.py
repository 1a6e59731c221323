"""Real clients meet the faults that a test injects: they go on after those that pass, and give up after those that do not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from barnabas import EmbeddedBroker

PATIENCE_S = 60
# Of a transaction that consumes and produces, each request is refused once.
PASSING = {
    "Metadata": "LEADER_NOT_AVAILABLE",
    "FindCoordinator": "COORDINATOR_NOT_AVAILABLE",
    "InitProducerId": "COORDINATOR_LOAD_IN_PROGRESS",
    "AddPartitionsToTxn": "CONCURRENT_TRANSACTIONS",
    "AddOffsetsToTxn": "CONCURRENT_TRANSACTIONS",
    "TxnOffsetCommit": "COORDINATOR_LOAD_IN_PROGRESS",
    "EndTxn": "COORDINATOR_LOAD_IN_PROGRESS",
    "Produce": "NOT_LEADER_OR_FOLLOWER",
    "JoinGroup": "COORDINATOR_LOAD_IN_PROGRESS",
    "SyncGroup": "REBALANCE_IN_PROGRESS",
    "OffsetFetch": "COORDINATOR_LOAD_IN_PROGRESS",
    "ListOffsets": "LEADER_NOT_AVAILABLE",
    "Fetch": "NOT_LEADER_OR_FOLLOWER",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_faults_are_left(broker: EmbeddedBroker) -> Iterator[None]:
    yield
    broker.restore()


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = uuid.uuid4().hex
    broker.create_topic(name)
    return name


def settings(broker: EmbeddedBroker, **more: object) -> dict[str, object]:
    return {
        **broker.client_settings(),
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def consumer(broker: EmbeddedBroker, group: str, **more: object) -> Consumer:
    return Consumer(settings(broker, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **more))


def next_value(consumer: Consumer) -> bytes | None:
    """Return the value of the next record, None if none comes. A topic whose metadata had an error is told once as unknown."""
    record = consumer.poll(PATIENCE_S)
    if record is not None and record.error() is not None and record.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        record = consumer.poll(PATIENCE_S)
    assert record is None or record.error() is None, record.error()
    return None if record is None else record.value()


def send(broker: EmbeddedBroker, topic: str, value: bytes) -> None:
    producer = Producer(settings(broker))
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0


def test_a_transaction_goes_on_after_every_error_that_passes(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, b"in")
    for api, error in PASSING.items():
        broker.inject(api, error)
    source, target = consumer(broker, topic), f"{topic}-out"
    producer = Producer(settings(broker, transactional_id=topic))
    source.subscribe([topic])
    assert next_value(source) == b"in"
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(target, b"out")
    producer.send_offsets_to_transaction(
        source.position(source.assignment()), source.consumer_group_metadata(), PATIENCE_S
    )
    producer.commit_transaction(PATIENCE_S)
    source.close()
    reader = consumer(broker, f"{topic}-reader", isolation_level="read_committed")
    reader.subscribe([target])
    assert next_value(reader) == b"out"
    reader.close()
    assert not broker.faults_left()


def test_an_idempotent_producer_keeps_its_order(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer(settings(broker, enable_idempotence=True, linger_ms=0))
    sent = [str(number).encode() for number in range(200)]
    broker.inject("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    broker.inject("Produce", disconnect=True)
    for number, value in enumerate(sent):
        producer.produce(topic, value)
        if number == 100:
            broker.inject("Produce", delay_ms=50)
    assert producer.flush(PATIENCE_S) == 0
    reader = consumer(broker, topic)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [next_value(reader) for _ in sent] == sent
    reader.close()


def test_a_member_joins_again_after_a_rebalance_that_is_announced(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, b"first")
    assigned: list[int] = []
    member = consumer(broker, topic, heartbeat_interval_ms=100)
    member.subscribe([topic], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    assert next_value(member) == b"first"
    member.commit(asynchronous=False)
    broker.inject("Heartbeat", "REBALANCE_IN_PROGRESS")
    while len(assigned) < 2:
        assert member.poll(0.1) is None
    send(broker, topic, b"second")
    assert next_value(member) == b"second"
    member.close()


def test_a_fenced_producer_gives_up(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer(settings(broker, transactional_id=topic))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"lost")
    assert producer.flush(PATIENCE_S) == 0
    broker.inject("EndTxn", "PRODUCER_FENCED")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(PATIENCE_S)
    error = fenced.value.args[0]
    assert error.fatal() and error.code() == KafkaError._FENCED


def test_a_late_fetch_holds_back_its_own_consumer_only(broker: EmbeddedBroker, topic: str) -> None:
    broker.inject("Fetch", delay_ms=600_000)
    slow, quick = consumer(broker, "slow"), consumer(broker, "quick")
    slow.assign([TopicPartition(topic, 0, 0)])
    while broker.faults_left():
        assert slow.poll(0.05) is None
    send(broker, topic, b"record")
    quick.assign([TopicPartition(topic, 0, 0)])
    assert next_value(quick) == b"record"
    assert slow.poll(0) is None
    for each in (slow, quick):
        each.close()


def test_names_that_there_are_not(broker: EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match=r"there is no API 'Produc': did you mean Produce\?"):
        broker.inject("Produc", "REQUEST_TIMED_OUT")
    with pytest.raises(ValueError, match=r"there is no error 'NOT_LEADER': did you mean NOT_LEADER_OR_FOLLOWER\?"):
        broker.inject("Produce", "NOT_LEADER")
    with pytest.raises(ValueError, match="there is no broker 7: there is 0"):
        broker.inject("Produce", "REQUEST_TIMED_OUT", broker=7)
