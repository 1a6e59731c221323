"""Loads of transactional producers and of consumers of committed records, for `make bench`.

Rules: as in `benchmarks.workloads`. Every commit is waited for, as a client has to.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.wire import connect
from benchmarks.workloads import Target, quantile
from protocol.errors import ErrorCode
from protocol.header import decode_response, encode_request
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.record import Record, encode_batch
from protocol.schema import Request, Response
from protocol.transaction_version import END_SINCE, EPOCH_BUMPS, ONE_EPOCH, PRODUCE_SINCE

R = TypeVar("R", bound=Response)

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


def raw_commits(target: Target, *, transactions: int, records: int, version: int = ONE_EPOCH) -> dict[str, float]:
    """Transactions without a client library: what AddPartitionsToTxn, Produce, EndTxn take, without the waits of a client.
    With EPOCH_BUMPS the leader adds the partition, and the epoch grows with each.

    A refusal because the transaction before is not complete (CONCURRENT_TRANSACTIONS) is repeated immediately.
    """
    bumps_epoch = version == EPOCH_BUMPS
    epoch = sequence = 0
    topic = target.topic()
    stream, producer_id = _begin_raw(target, topic)
    commit_ms: list[float] = []
    whole_ms: list[float] = []
    with stream:
        for number in range(WARM_UP_TRANSACTIONS + transactions):
            begun = time.perf_counter()
            if not bumps_epoch:
                _until_accepted(stream, _add_request(topic, producer_id), AddPartitionsToTxnResponse, 3, _added)
            write = _produce_request(topic, producer_id, epoch, sequence, records)
            _until_accepted(stream, write, ProduceResponse, PRODUCE_SINCE if bumps_epoch else 9, _produced)
            ending = time.perf_counter()
            end = EndTxnRequest(transactional_id=topic, producer_id=producer_id, producer_epoch=epoch, committed=True)
            ended = _until_accepted(stream, end, EndTxnResponse, END_SINCE if bumps_epoch else 3, _ended)
            if bumps_epoch:
                producer_id, epoch, sequence = ended.producer_id, ended.producer_epoch, 0
            else:
                sequence += records
            now = time.perf_counter()
            if number >= WARM_UP_TRANSACTIONS:
                commit_ms.append((now - ending) * 1000)
                whole_ms.append((now - begun) * 1000)
    commit_ms.sort()
    whole_ms.sort()
    return {
        "commits per second": len(whole_ms) / sum(whole_ms) * 1000,
        "EndTxn p50 ms": quantile(commit_ms, 0.5),
        "EndTxn p99 ms": quantile(commit_ms, 0.99),
        "whole p50 ms": quantile(whole_ms, 0.5),
        "whole p99 ms": quantile(whole_ms, 0.99),
    }


def _begin_raw(target: Target, topic: str) -> tuple[socket.socket, int]:
    """A connection to the broker with a producer initialised; it coordinates and leads everything."""
    stream = connect(target.address)
    init = InitProducerIdRequest(transactional_id=topic, transaction_timeout_ms=60_000)
    found = FindCoordinatorRequest(key_type=1, coordinator_keys=[topic])
    deadline = time.monotonic() + 30
    while True:
        _ask(stream, found, FindCoordinatorResponse, 4)  # makes the topic of the transactions
        response = _ask(stream, init, InitProducerIdResponse, 4)
        if response.error_code == ErrorCode.NONE:
            return stream, response.producer_id
        assert time.monotonic() < deadline, response
        time.sleep(0.1)


def _ask(stream: socket.socket, request: Request, response_type: type[R], version: int) -> R:
    stream.sendall(b"".join(encode_request(request, version, 1, "bench")))
    size = int.from_bytes(stream.recv(4, socket.MSG_WAITALL), "big")
    _, response = decode_response(stream.recv(size, socket.MSG_WAITALL), response_type, version)
    return response


def _until_accepted(
    stream: socket.socket, request: Request, response_type: type[R], version: int, error_of: Callable[[R], int]
) -> R:
    while True:
        response = _ask(stream, request, response_type, version)
        error = error_of(response)
        if error == ErrorCode.NONE:
            return response
        assert error == ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode(error).name


def _add_request(topic: str, producer_id: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=topic,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )


def _added(response: AddPartitionsToTxnResponse) -> int:
    return response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def _produced(response: ProduceResponse) -> int:
    return response.responses[0].partition_responses[0].error_code


def _ended(response: EndTxnResponse) -> int:
    return response.error_code


def _produce_request(topic: str, producer_id: int, epoch: int, sequence: int, records: int) -> ProduceRequest:
    batch = encode_batch(
        [Record(offset, int(time.time() * 1000), None, VALUE, []) for offset in range(records)],
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True,
    )  # fmt: skip
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    return ProduceRequest(transactional_id=topic, acks=-1, timeout_ms=30_000, topic_data=data)
