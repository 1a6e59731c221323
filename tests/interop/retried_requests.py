"""What a client asks, asked until it is answered: a leader or a coordinator that was just elected is not ready at once.

A leader does not say where its log ends before its followers have fetched in its epoch, and a coordinator reads its
partition first. librdkafka tries a few times and raises then; whoever uses it asks again, and so do these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.oracle.process import wait_until

T = TypeVar("T")


def answered(ask: Callable[[], T], timeout_s: float = 60) -> T:
    """What `ask` returns. Raises what it raised last when the time is over."""
    answers: list[T] = []
    errors: list[KafkaException] = []

    def is_answered() -> bool:
        try:
            answers.append(ask())
        except KafkaException as error:
            errors.append(error)
        return bool(answers)

    if not wait_until(is_answered, timeout_s, 0.2):
        raise errors[-1]
    return answers[0]


def bounds(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Where a partition begins and ends, for the consumer's isolation level."""
    return answered(lambda: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30))


def end_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Where a partition ends, with transactions that are not decided."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "measures", "isolation.level": "read_uncommitted"})
    try:
        return bounds(consumer, topic, partition)[1]
    finally:
        consumer.close()


def wait_until_ends_at(bootstrap: str, topic: str, offset: int, timeout_s: float = 60) -> None:
    """Until the markers are there, too: a coordinator answers before they are written."""
    assert wait_until(lambda: end_of(bootstrap, topic) >= offset, timeout_s), (
        f"{topic} ends at {end_of(bootstrap, topic)}, not at {offset}"
    )
