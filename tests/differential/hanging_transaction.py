"""A transaction that hangs: a broker takes it whose `transaction.partition.verification.enable` is false."""

from __future__ import annotations

from typing import Any

from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.differential.batches import batch
from tests.differential.wire import Wire
from tests.oracle.process import wait_until

TIMEOUT_S = 30


def hang(bootstrap: str, topic: str) -> int:
    """Write one record of a transaction that no coordinator knows; the id of its producer."""
    host, port = bootstrap.split(":")
    wire = Wire(host, int(port))
    try:
        answers: list[Any] = []

        def has_an_id() -> bool:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answers.append(wire.ask(request, 4, TIMEOUT_S))
            return bool(answers[-1].error_code == 0)

        assert wait_until(has_an_id, TIMEOUT_S), "a broker gets its first ids from the controller"
        answer = answers[-1]
        records = batch(b"hangs", attributes=0x10, producer_id=answer.producer_id, producer_epoch=0, base_sequence=0)
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(transactional_id="unknown", acks=-1, timeout_ms=10_000, topic_data=[data])
        written: Any = wire.ask(request, 9, TIMEOUT_S)
        assert written.responses[0].partition_responses[0].error_code == 0, written
        return int(answer.producer_id)
    finally:
        wire.close()
