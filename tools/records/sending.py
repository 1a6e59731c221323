"""Hands records to the client's producer.

Rules: behind an error that ends the client (it may not number its records, say) `finish` waits until each record has its own.
After a Ctrl-C, what is under way gets a moment, and what then waits for a leader is given up.
"""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import KafkaException, Producer

from runtime.texts import count_text
from tools.records.callbacks import called

_WAIT_S = 0.1
_FLUSH_STEP_S = 1.0
_LAST_MOMENT_S = 5.0
DELIVERY_TIMEOUT_MS = 60_000
"""As long as kafka-console-producer.sh waits for a topic: a partition may be without leader for a moment."""


def send(producer: Producer, topic: str, value: bytes | None, **options: Any) -> None:
    """Hand a record to the client; waits while its queue is full, and calls back for what has been delivered. Raises
    KafkaException, KeyboardInterrupt."""
    while True:
        try:
            producer.produce(topic, value, **options)
        except BufferError:
            called(producer.poll, _WAIT_S)
        else:
            called(producer.poll, 0)
            return


def finish(producer: Producer) -> None:
    """Wait until every record is delivered or has failed. Raises KafkaException, KeyboardInterrupt."""
    while called(producer.flush, _FLUSH_STEP_S):
        pass


def outstanding(producer: Producer) -> int:
    """Call back for what has been delivered, and return how many records are not; for another thread than that which sends."""
    with contextlib.suppress(KafkaException):  # the thread that sends gets it, too
        called(producer.poll, 0)
    return len(producer)


def give_up(producer: Producer) -> None:
    """Let records that are under way arrive, and have the others fail: for commands that were interrupted."""
    with contextlib.suppress(KeyboardInterrupt, KafkaException):
        called(producer.flush, _LAST_MOMENT_S)
    with contextlib.suppress(KeyboardInterrupt, KafkaException):
        producer.purge()
        called(producer.flush, _FLUSH_STEP_S)


def missing_text(count: int, what: str) -> str:
    """Return that so many records were not written, say."""
    return f"{count_text(count, 'record', 'was', 'were')} not {what}"
