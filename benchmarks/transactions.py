"""Loads of transactional producers and of consumers of committed records, for `make bench`.

Rules: as in `benchmarks.workloads`. Every commit is waited for, as a client has to.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.workloads import Target, quantile

VALUE = b"x" * 1_000
WARM_UP_TRANSACTIONS = 20


def _producer(target: Target, topic: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "transactional.id": f"bench-{topic}",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.init_transactions(60)
    return producer


def _write(producer: Producer, topic: str, records: int) -> None:
    while len(producer) > 200_000:
        producer.poll(0.005)
    producer.produce_batch(topic, [{"value": VALUE}] * records)


def commits(target: Target, *, records: int, transactions: int, partitions: int = 1) -> dict[str, float]:
    """Transactions of `records` records one after the other: rates, and how long commit_transaction takes."""
    topic = target.topic(partitions)
    producer = _producer(target, topic)
    took_ms: list[float] = []
    started = 0.0
    for number in range(WARM_UP_TRANSACTIONS + transactions):
        if number == WARM_UP_TRANSACTIONS:
            started = time.perf_counter()
            took_ms.clear()
        producer.begin_transaction()
        _write(producer, topic, records)
        begun = time.perf_counter()
        producer.commit_transaction(60)
        took_ms.append((time.perf_counter() - begun) * 1000)
    elapsed = time.perf_counter() - started
    took_ms.sort()
    return {
        "records per second": records * transactions / elapsed,
        "commits per second": transactions / elapsed,
        "commit p50 ms": quantile(took_ms, 0.5),
        "commit p99 ms": quantile(took_ms, 0.99),
    }


def commit_every(target: Target, *, interval_ms: int, seconds: float) -> dict[str, float]:
    """Records of 1 KB as fast as they go, with a commit every `interval_ms`."""
    topic = target.topic()
    producer = _producer(target, topic)
    written, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        producer.begin_transaction()
        ends = time.perf_counter() + interval_ms / 1000
        while time.perf_counter() < ends:
            _write(producer, topic, 1_000)
            written += 1_000
            producer.poll(0)
        producer.commit_transaction(60)
    return {"per second": written / (time.perf_counter() - started)}


def consume_committed(target: Target, *, megabytes: int, records: int = 1_000) -> float:
    """Records a second of a read_committed consumer, over transactions of `records` records, one in five aborted."""
    topic = target.topic()
    producer = _producer(target, topic)
    committed = 0
    for number in range(megabytes * 1_000_000 // len(VALUE) // records):
        producer.begin_transaction()
        _write(producer, topic, records)
        if number % 5:
            producer.commit_transaction(60)
            committed += records
        else:
            producer.flush(60)
            producer.abort_transaction(60)
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 262144,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, started = 0, time.perf_counter()
    while seen < committed:
        seen += len(consumer.consume(100_000, 1.0))
    rate = seen / (time.perf_counter() - started)
    consumer.close()
    return rate
