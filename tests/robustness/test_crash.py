"""kill -9 and SIGTERM under load: what was acknowledged is there, in order, once; the next start works and is quick."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.fetch import FetchResponse
from tests.robustness.process import BrokerProcess
from tests.robustness.wire import (
    FETCH_V,
    METADATA_V,
    PRODUCE_V,
    Wire,
    answers_within_ms,
    batch_of,
    create_topic,
    end_offset,
    fetch_of,
    metadata_of,
    produce,
    produce_of,
    topics_of,
)

TOPIC = "orders"
PARTITIONS = 3
# On a machine that is busy with something else: on a free one about 0.3 s each.
STOP_S = 15.0
READY_S = 10.0
SECONDS_OF_LOAD = 0.7


class Load:
    """An idempotent producer that never stops, a group that commits, and topics that come and go."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._stop = threading.Event()
        # Partition: (offset, number). The client does not know the offset when the answer was lost and what came later, or
        # was refused as out of order, has told it that the record is there.
        self.acknowledged: dict[int, list[tuple[int | None, int]]] = defaultdict(list)
        self.committed: dict[int, int] = {}
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._produce, self._consume, self._change_topics)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._broker.address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        number = 0
        while not self._stop.is_set():
            for _ in range(50):
                producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._on_delivery)
                number += 1
            producer.poll(0.005)
        assert producer.flush(60) == 0

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(f"produce: {error}")
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and value is not None
        self.acknowledged[partition].append((offset, int(value)))

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.address,
                "group.id": "readers",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        seen: dict[int, int] = {}
        while not self._stop.is_set():
            for message in consumer.consume(200, 0.05):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    seen[partition] = offset + 1
            if seen:
                self._commit(consumer, seen)
        consumer.close()

    def _commit(self, consumer: Consumer, seen: dict[int, int]) -> None:
        try:
            done = consumer.commit(
                offsets=[TopicPartition(TOPIC, partition, offset) for partition, offset in seen.items()],
                asynchronous=False,
            )
        except KafkaException:
            return  # not acknowledged: nothing is promised
        for place in done or ():
            if place.error is None:
                self.committed[place.partition] = max(place.offset, self.committed.get(place.partition, 0))

    def _change_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.address, "log_level": 0})
        number = 0
        while not self._stop.is_set():
            number += 1
            for change in (
                lambda name: admin.create_topics([NewTopic(name, 2, 1)], operation_timeout=2, request_timeout=2),
                lambda name: admin.delete_topics([name], operation_timeout=2, request_timeout=2),
            ):
                for future in change(f"passing-{number}").values():
                    with contextlib.suppress(KafkaException, TimeoutError):  # the broker was away
                        future.result(5)
            self._stop.wait(0.02)

    def wait_for_acknowledgements(self, count: int) -> None:
        """Until so many more records are acknowledged than now."""
        wanted = count + sum(map(len, self.acknowledged.values()))
        deadline = time.monotonic() + 60
        while sum(map(len, self.acknowledged.values())) < wanted:
            assert time.monotonic() < deadline, "producers do not get on"
            time.sleep(0.01)


def check(broker: BrokerProcess, load: Load) -> None:
    """Everything acknowledged is at its offset, in order, once; committed offsets are no older than acknowledged."""
    assert not load.errors
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "log_level": 0})
    places = consumer.committed([TopicPartition(TOPIC, partition) for partition in load.committed], timeout=60)
    for place in places:
        assert place.offset >= load.committed[place.partition], f"committed offset of {place} went back"
    for partition in range(PARTITIONS):
        end = end_offset(broker, TOPIC, partition)
        stored: dict[int, int] = {}
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        while len(stored) < end:
            for message in consumer.consume(min(10_000, end - len(stored)), 1.0):
                offset, value = message.offset(), message.value()
                assert message.error() is None and offset is not None and value is not None
                stored[offset] = int(value)
        assert sorted(stored) == list(range(end))
        numbers = [stored[offset] for offset in range(end)]
        assert numbers == sorted(set(numbers)), "records are out of order or there twice"
        offsets = {number: offset for offset, number in stored.items()}
        for offset, number in load.acknowledged[partition]:
            assert number in offsets, f"acknowledged record {number} is lost"
            assert offset in (None, offsets[number]), f"record {number} was acknowledged at {offset}, and is elsewhere"
    consumer.close()


def kill_and_restart(folder: Path, kills: int) -> None:
    with BrokerProcess(folder, {"log.segment.bytes": 200_000}) as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        with Load(broker) as load:
            for _ in range(kills):
                load.wait_for_acknowledgements(1)
                time.sleep(SECONDS_OF_LOAD)
                broker.kill()
                broker.start()
                assert broker.started_in_s < READY_S
            load.wait_for_acknowledgements(100)
        check(broker, load)


def test_kill_under_load(tmp_path: Path) -> None:
    kill_and_restart(tmp_path, kills=3)


@pytest.mark.slow
def test_kill_under_load_again_and_again(tmp_path: Path) -> None:
    kill_and_restart(tmp_path, kills=40)


def test_kill_during_recovery(tmp_path: Path) -> None:
    """Starts that are killed at many moments leave the data whole."""
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, TOPIC)
        for number in range(20):
            produce(broker, TOPIC, b"%d" % number)
        broker.kill()
        for pause_ms in range(40, 320, 40):
            ready = broker.launch()
            time.sleep(pause_ms / 1000)
            broker.kill()
            os.close(ready)
        broker.start()
        assert end_offset(broker, TOPIC) == 20


def test_kill_right_after_topic_creation(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        for number in range(4):
            create_topic(broker, f"new-{number}", 2)
            before = topics_of(broker)
            broker.kill()
            broker.start()
            assert topics_of(broker) == before
            assert produce(broker, f"new-{number}", b"x", partition=1) == 0


def test_sigterm_under_load(tmp_path: Path) -> None:
    """Exit code 0, soon; clients go on with the next broker and never see an error; the next start finds it clean."""
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        with Load(broker) as load:
            for stops in range(1, 3):
                load.wait_for_acknowledgements(1)
                time.sleep(SECONDS_OF_LOAD)
                began = time.monotonic()
                assert broker.stop() == 0
                assert time.monotonic() - began < STOP_S
                broker.start()
                loaded = [line for line in broker.log.splitlines() if "logs loaded:" in line]
                assert sum("clean_shutdown=True" in line for line in loaded) == stops
            assert "connections closed before" not in broker.log
            load.wait_for_acknowledgements(100)
        check(broker, load)


def test_a_stop_answers_what_has_begun(tmp_path: Path) -> None:
    """A fetch that waits for records is answered; a connection without requests is just closed."""
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, TOPIC)
        produce(broker, TOPIC, b"x")
        with Wire(broker) as waiting, Wire(broker) as idle:
            idle.ask(metadata_of(TOPIC), METADATA_V)
            waiting.send(fetch_of(TOPIC, 1, wait_ms=30_000), FETCH_V)
            waiting.send(fetch_of(TOPIC, 1, wait_ms=30_000), FETCH_V)
            answers_within_ms(broker)
            began = time.monotonic()
            broker.signal(signal.SIGTERM)
            for _ in range(2):
                answer = waiting.receive(FetchResponse, FETCH_V)
                assert answer.responses[0].partitions[0].error_code == 0
            assert waiting.is_closed()
            assert idle.is_closed()
            assert broker.wait() == 0
            assert time.monotonic() - began < STOP_S, "the fetches were not waited out"
        assert "connections closed before" not in broker.log


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """The first one waits for a client that does not take its answers."""
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, TOPIC)
        with Wire(broker) as wire:
            for _ in range(12):
                wire.ask(produce_of(TOPIC, batch_of(bytes(1_000_000))), PRODUCE_V)
        with Wire(broker, receive_buffer_bytes=4096) as slow:
            slow.send(fetch_of(TOPIC), FETCH_V)
            answers_within_ms(broker)
            broker.signal(signal.SIGTERM)
            while "broker stops" not in broker.log:
                time.sleep(0.005)
            broker.signal(signal.SIGINT)
            assert broker.wait() == 128 + signal.SIGINT
        assert "connections closed before" not in broker.log, "nobody was waited for any more"


def test_a_frozen_broker_goes_on(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        with Load(broker) as load:
            load.wait_for_acknowledgements(100)
            broker.signal(signal.SIGSTOP)
            time.sleep(1.5)
            broker.signal(signal.SIGCONT)
            load.wait_for_acknowledgements(100)
        check(broker, load)
        assert broker.stop() == 0


def test_no_process_is_left(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    process = broker.process
    assert isinstance(process, subprocess.Popen)
    assert broker.stop() == 0
    assert process.poll() == 0
