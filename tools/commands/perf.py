"""`barnabas perf`: how fast a cluster takes records, gives them, and passes them on.

Rules: figures are those of this client on this machine, whose cost is a part of them. A record counts when it is acknowledged.
Source: kafka-producer-perf-test.sh, kafka-consumer-perf-test.sh, kafka-e2e-latency.sh.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer

from runtime.command_line import parsing
from runtime.command_line.failure import Failure, Interrupted
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from runtime.command_line.progress import Progress
from runtime.texts import count_text
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import told
from tools.histogram import Histogram
from tools.names_given import one_name
from tools.records.callbacks import called
from tools.records.reading import SETTINGS, Reading, ReadPlan
from tools.records.sending import DELIVERY_TIMEOUT_MS, finish, give_up, missing_text, send

MB = 1_000_000
_PAYLOADS = 64
"""So many different values are made, and written again and again."""
_PAYLOAD_BYTES = 64_000_000
"""So much of them is kept at most, unless one alone is larger."""
_LARGEST_RECORD = 1_000_000_000
"""What librdkafka can be told to send: message.max.bytes."""
_UNTIL_THEN = "interrupted: the figures are those of what was"


command = Commands("perf", help="How fast a cluster is.")


@command.command("produce")
@one_name("topic")
@click.option("--num-records", type=click.IntRange(1), default=100_000, metavar="N", help="[100000]")
@click.option("--record-size", type=click.IntRange(0, _LARGEST_RECORD), default=100, metavar="BYTES", help="[100]")
@click.option(
    "--payload-file", metavar="FILE", help="values are the lines of this file, by chance, instead of random bytes"
)
@click.option("--throughput", type=click.IntRange(-1), metavar="N", help="limit of records a second; -1 means no limit")
@click.option("--acks", type=click.Choice(["0", "1", "-1", "all"]), default="all", help="[all]")
@click.option("--compression-type", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none",
              help="how batches are compressed [none]")  # fmt: skip
@click.option(
    "--producer-property",
    "--producer-props",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="a setting of librdkafka",
)
@cluster_command
def produce(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    num_records: int,
    record_size: int,
    payload_file: str | None,
    throughput: int | None,
    acks: str,
    compression_type: str,
    properties: tuple[str, ...],
) -> None:
    """Write random records to TOPIC: records a second, and the time until each was acknowledged."""
    partition_keys(cluster, topic, None)  # says that the topic is missing
    payloads = _payloads(payload_file, record_size)
    settings = {
        "acks": acks,
        "compression.type": compression_type,
        "linger.ms": 5,
        "message.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    producer = cluster.producer(settings | parsing.settings(properties, "--producer-property"))
    times = Histogram()
    errors: list[str] = []
    ended: list[str] = []
    size = 0

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal size
        if error is not None:
            errors.append(cluster.waits.told(error))
        else:
            times.add(message.latency() * 1000)
            size += len(message)
            cluster.waits.moved()

    progress, is_interrupted = Progress("records written", num_records, cluster.clock), False
    started_s = time.perf_counter()
    try:
        with cluster.waits.writing(topic, lambda: len(producer), needs_all=acks in ("all", "-1")):
            for number in range(num_records):
                if throughput is not None and throughput > 0:
                    ahead_s = number / throughput - (time.perf_counter() - started_s)
                    if ahead_s > 0:
                        called(producer.poll, ahead_s)
                send(producer, topic, payloads[number % len(payloads)], on_delivery=on_delivery)
                progress.show(times.count)
            finish(producer)
    except KeyboardInterrupt:
        is_interrupted = True
        give_up(producer)
    except KafkaException as error:  # the client has ended; the records say only that it did
        ended.append(told(error.args[0]))
    finish(producer)
    elapsed_s = time.perf_counter() - started_s
    progress.close()
    _report(output, times.count, size, elapsed_s, times)
    if is_interrupted:
        raise Interrupted(f"{_UNTIL_THEN} written until then")
    if errors:
        raise Failure(f"{missing_text(len(errors), 'written')}: {(ended or errors)[0]}")


@command.command("consume")
@one_name("topic")
@click.option("--num-records", "--messages", type=click.IntRange(1), metavar="N",
              help="end after this number of records [all that are there]")  # fmt: skip
@click.option("--isolation-level", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_uncommitted",
              help="[read_uncommitted]")  # fmt: skip
@click.option("--consumer-property", "properties", multiple=True, metavar="NAME=VALUE", help="a setting of librdkafka")
@cluster_command
def consume(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    num_records: int | None,
    isolation_level: str,
    properties: tuple[str, ...],
) -> None:
    """Read TOPIC from its beginning to its end: records a second."""
    keys = partition_keys(cluster, topic, None)
    plan = ReadPlan({index: OFFSET_BEGINNING for _, index in keys})
    plan.bound(cluster, topic, is_committed_only=isolation_level == "read_committed")
    settings = {
        **SETTINGS,
        "group.id": "barnabas-perf",
        "isolation.level": isolation_level,
        "queued.min.messages": 1_000_000,
    }
    consumer = cluster.consumer(settings | parsing.settings(properties, "--consumer-property"))
    total = sum(end - plan.starts[index] for index, end in plan.ends.items())
    progress = Progress("records read", min(total, num_records or total), cluster.clock)
    count, size, is_interrupted = 0, 0, False
    started_s = time.perf_counter()
    try:
        reading = Reading(consumer, topic, plan, cluster.waits.moved)
        with cluster.waits.reading(topic, reading.left):
            while not reading.is_finished and (num_records is None or count < num_records):
                for message in reading.poll(10_000):
                    count += 1
                    size += len(message)
                progress.show(count)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        elapsed_s = time.perf_counter() - started_s
        progress.close()
        consumer.close()
    _report(output, count, size, elapsed_s, None)
    if is_interrupted:
        raise Interrupted(f"{_UNTIL_THEN} read until then")


@command.command("latency")
@one_name("topic")
@click.option("--num-records", type=click.IntRange(1), default=1_000, metavar="N", help="[1000]")
@click.option("--record-size", type=click.IntRange(16, _LARGEST_RECORD), default=100, metavar="BYTES", help="[100]")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", help="[all]")
@cluster_command
def latency(cluster: Cluster, output: Output, *, topic: str, num_records: int, record_size: int, acks: str) -> None:
    """Write records to TOPIC one by one, and measure the time until a consumer has each."""
    (_, partition), *_ = partition_keys(cluster, topic, "0", needs_leader=True)
    settings = {**SETTINGS, "group.id": "barnabas-perf", "fetch.wait.max.ms": 500, "enable.partition.eof": True}
    consumer = cluster.consumer(settings)
    producer = cluster.producer({"acks": acks, "linger.ms": 0})
    times, is_interrupted = Histogram(), False
    progress = Progress("records passed on", num_records, cluster.clock)
    started_s = time.perf_counter()
    try:
        Reading(consumer, topic, ReadPlan({partition: OFFSET_END}))
        _await_end(consumer)
        with cluster.waits.reading(topic, lambda: [partition]):
            for number in range(num_records):
                value = os.urandom(record_size)
                sent_s = time.perf_counter()
                _pass_on(producer, consumer, topic, partition, value, number)
                times.add((time.perf_counter() - sent_s) * 1000)
                cluster.waits.moved()
                progress.show(number)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        progress.close()
        consumer.close()
    if times.count or not is_interrupted:
        _report(output, times.count, times.count * record_size, time.perf_counter() - started_s, times)
    if is_interrupted:
        raise Interrupted(f"{_UNTIL_THEN} passed on until then")


def _pass_on(producer: Producer, consumer: Consumer, topic: str, partition: int, value: bytes, number: int) -> None:
    """Write a record, and wait until it comes back. Raises Failure."""
    producer.produce(topic, value, partition=partition)
    finish(producer)
    while True:
        message = called(consumer.poll, 5.0)
        if message is None:
            raise Failure(f"record {number} was not consumed within 5 s")
        if message.error() is None and message.value() == value:
            return


def _payloads(path: str | None, size: int) -> list[bytes]:
    """Return the values that are written: random ones, or the lines of a file in random order. Raises Failure."""
    if path is None:
        return [os.urandom(size) for _ in range(max(1, min(_PAYLOADS, _PAYLOAD_BYTES // max(size, 1))))]
    try:
        with open(path, "rb") as file:
            payloads = [line.rstrip(b"\r\n") for line in file]
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    if not payloads:
        raise Failure(f"{path} has no lines")
    random.shuffle(payloads)
    return payloads


def _await_end(consumer: Any) -> None:
    """Wait until the consumer has come to the end of its partition. Raises KafkaException, Failure."""
    for _ in range(100):
        message = called(consumer.poll, 0.1)
        if message is not None and message.error() is not None:
            if message.error().name() == "_PARTITION_EOF":
                return
            raise KafkaException(message.error())
    raise Failure("the consumer has not come to the end of its partition within 10 s")


def _report(output: Output, count: int, size: int, elapsed_s: float, times: Histogram | None) -> None:
    per_s = count / elapsed_s
    mb_per_s = size / MB / elapsed_s
    row: dict[str, Any] = {
        "records": count,
        "seconds": round(elapsed_s, 3),
        "records_per_second": round(per_s, 1),
        "mb_per_second": round(mb_per_s, 3),
    }
    text = f"{count_text(count, 'record')} in {elapsed_s:.2f} s: {per_s:.0f} records/s, {mb_per_s:.2f} MB/s"
    if times is not None:
        row |= times.row()
        text += f"; {times.text()}"
    output.result(row, text)
