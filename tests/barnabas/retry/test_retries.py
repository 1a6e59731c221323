"""The client's side of retries on a broker of ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.embedded import EmbeddedBroker
from barnabas.retry import ReceivedMessage, Retries, UnsettledMessageError
from protocol.crc32c import crc32c
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.record import Record, encode_batch
from tests.differential.wire import Wire

NAMES = count()
Found = list[tuple[bytes | None, dict[str, bytes | None]]]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"auto.create.topics.enable": False}) as running:
        yield running


class Topics:
    """A source, a retry topic, dead letters and outputs of one test, and its group."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.servers = broker.bootstrap_servers
        name = f"t{next(NAMES)}"
        self.source, self.retry, self.dead, self.out = (f"{name}-{kind}" for kind in ("in", "retry", "dead", "out"))
        self.group = f"{name}-group"
        admin = AdminClient({"bootstrap.servers": self.servers})
        wanted = [NewTopic(each, 1, 1) for each in (self.source, self.retry, self.dead, self.out)]
        for made in admin.create_topics(wanted).values():
            made.result(30)

    def put(self, *values: str, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(self.source, value.encode(), b"key", headers=list(headers))
        assert producer.flush(30) == 0

    def retries(self, **more: Any) -> Retries:
        return Retries({"bootstrap.servers": self.servers, "group.id": self.group}, more.pop("topics", self.source),
                       more.pop("retry_topic", self.retry), **more)  # fmt: skip

    def content(self, topic: str) -> Found:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reads", "enable.partition.eof": True})
        found: Found = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF"
                    return found
                found.append((message.value(), dict(message.headers() or ())))
        finally:
            consumer.close()

    def committed(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": self.group})
        try:
            [found] = consumer.committed([TopicPartition(self.source, 0)], timeout=30)
            return int(found.offset)
        finally:
            consumer.close()


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker)


def process(message: ReceivedMessage, out: str) -> None:
    value = message.value()
    assert value is not None
    message.send(out, value.upper(), message.key())
    if value.startswith(b"bad"):
        raise LookupError(f"no {value.decode()}")
    if value.startswith(b"wrong"):
        raise ZeroDivisionError


def run(retries: Retries, out: str, limit: int) -> list[bytes | None]:
    seen = []
    with retries as messages:
        for message in messages:
            seen.append(message.value())
            with message:
                process(message, out)
            if len(seen) == limit:
                messages.stop()
    return seen


@pytest.mark.parametrize("transactional", [False, True], ids=["at least once", "exactly once"])
def test_what_fails_goes_to_the_retry_topic_and_what_cannot_be_mended_to_the_dead_letters(
    topics: Topics, transactional: bool, caplog: pytest.LogCaptureFixture
) -> None:
    topics.put("a", "bad", "wrong", headers=[("trace", b"1")])
    topics.put(
        "bad again", headers=[("barnabas-attempt", b"1"), ("barnabas-retries", b"2"), ("barnabas-source-topic", b"x")]
    )
    more = {"transactional_id": topics.group} if transactional else {}
    retries = topics.retries(dead_letters=topics.dead, never_retried=(ZeroDivisionError,), **more)
    assert len(run(retries, topics.out, 4)) == 4
    assert topics.committed() == 4
    assert [value for value, _ in topics.content(topics.out)] == [b"A"], (
        "what a failed message would have sent is dropped"
    )
    first, again = topics.content(topics.retry)
    timestamp = first[1].pop("barnabas-source-timestamp")
    assert timestamp is not None and timestamp.isdigit()
    assert first == (b"bad", {
        "trace": b"1", "barnabas-reason": b"LookupError: no bad", "barnabas-source-topic": topics.source.encode(),
        "barnabas-source-partition": b"0", "barnabas-source-offset": b"1", "barnabas-attempt": b"1",
    })  # fmt: skip
    assert (again[1]["barnabas-attempt"], again[1]["barnabas-retries"]) == (b"3", b"2")
    [(value, headers)] = topics.content(topics.dead)
    assert (value, headers["barnabas-reason"]) == (b"wrong", b"ZeroDivisionError: ")
    assert sum("message failed" in record.message for record in caplog.records) == 3


def interrupted(retries: Retries, out: str) -> None:
    with retries as messages:
        for message in messages:
            with message:
                message.send(out, message.value())
                if message.offset() == 1:
                    raise KeyboardInterrupt


@pytest.mark.parametrize("transactional", [False, True])
def test_what_was_not_settled_comes_again(topics: Topics, transactional: bool) -> None:
    topics.put("a", "b", "c")
    more = {"transactional_id": topics.group} if transactional else {}
    with pytest.raises(KeyboardInterrupt):
        interrupted(topics.retries(**more), topics.out)
    assert topics.committed() == 1
    assert [value for value, _ in topics.content(topics.out)] == [b"a"]
    assert run(topics.retries(**more), topics.out, 2) == [b"b", b"c"]
    assert topics.content(topics.retry) == []


def test_a_message_is_settled_once_before_the_next_one(topics: Topics) -> None:
    topics.put("a", "b")
    with topics.retries() as messages, pytest.raises(UnsettledMessageError, match="neither handled nor failed"):
        list(messages)
    assert topics.committed() < 0
    with topics.retries() as messages:
        for message in messages:
            message.failed("not now")
            with pytest.raises(UnsettledMessageError, match="settled before"):
                message.handled()
            with pytest.raises(ValueError, match="no dead_letters"):
                raise_dead(messages)
            break
    assert [headers["barnabas-reason"] for _, headers in topics.content(topics.retry)] == [b"not now"]


def raise_dead(messages: Retries) -> None:
    for message in messages:
        message.dead("never")


@pytest.mark.parametrize("transactional", [False, True])
def test_nothing_is_committed_while_a_failed_message_has_no_place(
    topics: Topics, transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.retry.retries.ABORTS_MAX", 1)
    topics.put("bad")
    more = {"transactional_id": topics.group} if transactional else {}
    settings = {"message.timeout.ms": 1_000, **({"transaction.timeout.ms": 1_000} if transactional else {})}
    retries = topics.retries(retry_topic="no-such-topic", commit_interval_s=0.1, producer_settings=settings, **more)
    with pytest.raises(KafkaException):
        run(retries, topics.out, 100)
    assert topics.committed() < 0


def test_headers_that_the_library_cannot_read_are_lost_and_the_reason_says_so(topics: Topics) -> None:
    topics.put(*["a"] * 100, headers=[("trace", b"1")])  # Python has its short way to call by then, which checks less
    record = Record(0, 1_700_000_000_000, b"k", b"bad", [("badX", b"1")])
    batch = bytearray(encode_batch([record]).replace(b"badX", b"\xff\xfe\x1bX"))
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    data = TopicProduceData(name=topics.source, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    host, _, port = topics.servers.partition(":")
    with closing(Wire(host, int(port))) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 7)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert run(topics.retries(), topics.out, 101)[-1] == b"bad"
    [(value, headers)] = topics.content(topics.retry)
    assert value == b"bad"
    assert headers["barnabas-reason"] == b"LookupError: no bad (its headers are lost: the name of one is no UTF-8)"


def test_two_members_share_the_messages_and_each_output_is_there_once(topics: Topics) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": topics.servers})
    for grown in admin.create_partitions([NewPartitions(topics.source, 4)]).values():
        grown.result(30)
    seen: dict[str, set[bytes]] = {"a": set(), "b": set()}
    members: list[Retries] = []
    changed = threading.Condition()

    def work(name: str) -> None:
        with topics.retries(transactional_id=topics.group + name, commit_interval_s=0.05) as messages:
            members.append(messages)
            for message in messages:
                with message:
                    message.send(topics.out, message.value())
                with changed:
                    seen[name].add(message.value() or b"")
                    changed.notify_all()

    threads = [threading.Thread(target=work, args=(name,)) for name in seen]
    producer = Producer({"bootstrap.servers": topics.servers})
    wanted: set[bytes] = set()
    for thread, names in zip(threads, ("a", "ab"), strict=True):
        thread.start()  # the second takes partitions from the first, which is at work
        with changed:
            while not all(seen[name] for name in names):
                more = {str(len(wanted) + number).encode() for number in range(20)}
                for value in more:
                    producer.produce(topics.source, value, partition=int(value) % 4)
                assert producer.flush(30) == 0
                wanted |= more
                changed.wait(0.1)
    with changed:
        assert changed.wait_for(lambda: seen["a"] | seen["b"] == wanted, 60)
    for member in members:
        member.stop()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(value or b"" for value, _ in topics.content(topics.out)) == sorted(wanted)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="needs dead_letters"):
        Retries({"group.id": "a"}, ["a"], "b", never_retried=(ValueError,))
