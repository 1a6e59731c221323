"""The loads of `make bench`. Each takes a broker's address and returns one figure; larger is better unless said otherwise.

Rules: the same client, settings and bytes for both brokers; topics are made anew for each run.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.raw_consumer import RawConsumer
from benchmarks.wire import fetch_frame, many_connections_rate, pipelined_rate, polls, produce_frame, sends

MANY_PARTITIONS = 20
"""Of a load with many connections: as many for each of two or four brokers, and for each of five."""

# Names differ between runs and between the processes of one run, so that a broker may be measured twice.
_topic_numbers = count()


@dataclass(frozen=True, slots=True)
class Target:
    """A running broker, or a cluster of them. `topics` are those made by this process, to be deleted when its load is
    over; each has `replicas`. `tls_servers` is where it listens with TLS, for clients that trust the file `authority`."""

    bootstrap_servers: str
    replicas: int = 1
    topics: list[str] = field(default_factory=list)
    tls_servers: str = ""
    authority: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of every client."""
    processes: int = 1
    """Brokers of ours, each a process, that share a load: it has a partition for each, whoever serves it."""

    def over_tls(self) -> Target:
        """The same broker, whose clients use TLS."""
        assert self.tls_servers, "the broker has no listener with TLS"
        client = {"security.protocol": "ssl", "ssl.ca.location": self.authority}
        return replace(self, bootstrap_servers=self.tls_servers, client=client)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.bootstrap_servers.split(",")[0].rsplit(":", 1)
        return host, int(port)

    def topic(self, partitions: int = 1) -> str:
        """A new topic, ready to be written."""
        name = f"bench-{time.time_ns()}-{os.getpid()}-{next(_topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **self.client})
        topic = NewTopic(name, partitions, self.replicas, config={"file.delete.delay.ms": "0"})
        admin.create_topics([topic])[name].result(30)
        self.topics.append(name)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            metadata = admin.list_topics(name, 10).topics[name]
            if len(metadata.partitions) == partitions and all(p.leader >= 0 for p in metadata.partitions.values()):
                return name
        raise TimeoutError(name)

    def leaders(self, topic: str) -> list[tuple[str, int]]:
        """The addresses of the leaders of its partitions."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **self.client})
        metadata = admin.list_topics(topic, 10)
        found = metadata.topics[topic].partitions
        brokers = [metadata.brokers[found[index].leader] for index in sorted(found)]
        return [(broker.host, broker.port) for broker in brokers]

    def delete_topics(self) -> None:
        """A whole run writes some 50 GB to each broker: more than a disk may have."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **self.client})
        for deleted in admin.delete_topics(self.topics).values():
            deleted.result(30)
        self.topics.clear()


def produce(
    target: Target, *, value_bytes: int, codec: str, megabytes: int, acks: str = "1", idempotent: bool = False
) -> float:
    """Records a second through librdkafka in full batches."""
    topic = target.topic(target.processes)
    records = megabytes * 1_000_000 // value_bytes
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            **target.client,
            "acks": "all" if idempotent else acks,
            "enable.idempotence": idempotent,
            "compression.type": codec,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )
    value = (b"The quick brown fox jumps over the lazy dog. " * (value_bytes // 40 + 1))[:value_bytes]
    chunk = [{"value": value}] * 10_000
    producer.produce(topic, value)  # connections, metadata and the producer id take up to half a second
    assert producer.flush(30) == 0
    started = time.perf_counter()
    left = records
    while left > 0:
        while len(producer) > 500_000:
            producer.poll(0.005)
        producer.produce_batch(topic, chunk[: min(left, len(chunk))])
        left -= len(chunk)
        producer.poll(0)
    assert producer.flush(120) == 0
    return records / (time.perf_counter() - started)


def fill(target: Target, *, value_bytes: int, megabytes: int, partitions: int = 1) -> str:
    """Make a topic with that much in it."""
    topic = target.topic(partitions)
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            **target.client,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = b"x" * value_bytes
    for _ in range(megabytes * 1_000_000 // value_bytes // 1000):
        while len(producer) > 200_000:
            producer.poll(0.005)
        producer.produce_batch(topic, [{"value": value}] * 1000)
    assert producer.flush(120) == 0
    return topic


def consume(target: Target) -> float:
    """Records a second through librdkafka, from the start of the target's topic."""
    topic = target.topics[0]
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            **target.client,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 262144,
        }
    )
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, started = 0, time.perf_counter()
    while seen < end:
        messages = consumer.consume(100_000, 1.0)
        seen += len(messages)
    rate = seen / (time.perf_counter() - started)
    consumer.close()
    return rate


def consume_raw(target: Target, *, passes: int) -> float:
    """Records a second through a consumer that looks at batches alone, from the start of the target's topic, `passes` times."""
    topic = target.topics[0]
    bootstrap = Consumer({"bootstrap.servers": target.bootstrap_servers, **target.client, "group.id": "bench"})
    end: int = bootstrap.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
    bootstrap.close()
    started = time.perf_counter()
    for _ in range(passes):
        consumer = RawConsumer(target.address, topic)
        consumer.read_to(end)
        consumer.close()
    return passes * end / (time.perf_counter() - started)


def one_record_requests(target: Target, *, seconds: float = 3.0) -> float:
    """Requests of one 100 B record a second, over one pipelining connection."""
    return pipelined_rate(target.address, produce_frame(target.topic(), 0, 100), seconds)


def many_connections(target: Target, *, connections: int = 1000, seconds: float = 3.0) -> float:
    """Requests of one 100 B record a second, over many connections with one request on its way each."""
    topic = target.topic(MANY_PARTITIONS)
    leaders = target.leaders(topic)
    each = [sends(leader, produce_frame(topic, partition, 100)) for partition, leader in enumerate(leaders)]
    return many_connections_rate([each[number % MANY_PARTITIONS] for number in range(connections)], seconds)


def idle_consumers(target: Target, *, consumers: int = 1000, seconds: float = 10.0) -> float:
    """Long polls a second of consumers that wait 500 ms on topics without records (its cost is the figure). They have no
    sessions, as librdkafka's."""
    topic = target.topic(MANY_PARTITIONS)
    each = [
        sends(leader, fetch_frame(topic, partition, offset=0, max_wait_ms=500))
        for partition, leader in enumerate(target.leaders(topic))
    ]
    return many_connections_rate([each[number % MANY_PARTITIONS] for number in range(consumers)], seconds)


def idle_sessions(target: Target, *, consumers: int = 1000, seconds: float = 10.0) -> float:
    """As `idle_consumers`, with fetch sessions, as the Java client's: requests and responses name nothing."""
    topic = target.topic(MANY_PARTITIONS)
    each = [polls(leader, topic, partition, 500) for partition, leader in enumerate(target.leaders(topic))]
    return many_connections_rate([each[number % MANY_PARTITIONS] for number in range(consumers)], seconds)


def latency(
    target: Target, *, per_second: int = 1000, seconds: float = 5.0, value_bytes: int = 100, acks: str = "all"
) -> list[float]:
    """End-to-end milliseconds, produce call to consumer, of each record at a steady rate. Smaller is better."""
    topic = target.topic()
    servers = {"bootstrap.servers": target.bootstrap_servers, **target.client}
    consumer = Consumer({**servers, "group.id": "bench", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({**servers, "acks": acks, "linger.ms": 0})
    warm, total = per_second, int(per_second * (seconds + 1))
    samples: list[float] = []

    def consume_all() -> None:
        seen = 0
        while seen < total:
            message = consumer.poll(1.0)
            if message is not None:
                seen += 1
                if seen > warm:
                    samples.append((time.perf_counter_ns() - int(message.value()[:20])) / 1e6)

    reader = threading.Thread(target=consume_all)
    reader.start()
    padding = b" " * (value_bytes - 20)
    started = time.perf_counter()
    for number in range(total):
        wait = started + number / per_second - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        producer.produce(topic, b"%20d" % time.perf_counter_ns() + padding)
        producer.poll(0)
    producer.flush(30)
    reader.join(60)
    consumer.close()
    assert len(samples) == total - warm, f"{len(samples)} of {total - warm} records came"
    return sorted(samples)


def handshakes(target: Target, *, threads: int = 4, seconds: float = 3.0) -> float:
    """Connections a second that do a handshake, with a new session each, and one request."""
    context = ssl.create_default_context(cafile=target.authority)
    request = fetch_frame(target.topic(), 0, offset=0, max_wait_ms=0)
    host, port = target.address
    counts: list[int] = []

    def connect_again(until: float) -> None:
        connections = 0
        while time.perf_counter() < until:
            with (
                socket.create_connection((host, port)) as plain,
                context.wrap_socket(plain, server_hostname=host) as tls,
            ):
                tls.sendall(request)
                assert tls.recv(4)
            connections += 1
        counts.append(connections)

    started = time.perf_counter()
    workers = [threading.Thread(target=connect_again, args=(started + seconds,)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - started)


def quantile(samples: list[float], share: float) -> float:
    return samples[min(int(len(samples) * share), len(samples) - 1)]
