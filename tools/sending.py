"""Hands records to the client's producer."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

_WAIT_S = 0.1
_FLUSH_STEP_S = 1.0


def send(producer: Producer, topic: str, value: bytes | None, **options: Any) -> None:
    """Hand a record to the client; waits while its queue is full, and calls back for what has been delivered."""
    while True:
        try:
            producer.produce(topic, value, **options)
        except BufferError:
            producer.poll(_WAIT_S)
        else:
            producer.poll(0)
            return


def finish(producer: Producer) -> None:
    """Wait until every record is delivered or has failed."""
    while producer.flush(_FLUSH_STEP_S):
        pass
