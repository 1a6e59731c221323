"""Hands records to the client's producer.

Rules: a Ctrl-C that comes while the client calls back is a Ctrl-C, not the error that the library makes of it. So is an error
that ends the client (it may not number its records, say): behind it, `finish` waits until each record has its own. After a
Ctrl-C, what is under way gets a moment, and what then waits for a leader is given up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from runtime.texts import count_text

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
            _called(producer.poll, _WAIT_S)
        else:
            _called(producer.poll, 0)
            return


def finish(producer: Producer) -> None:
    """Wait until every record is delivered or has failed. Raises KafkaException, KeyboardInterrupt."""
    while _called(producer.flush, _FLUSH_STEP_S):
        pass


def give_up(producer: Producer) -> None:
    """Let records that are under way arrive, and have the others fail: for commands that were interrupted."""
    with contextlib.suppress(KeyboardInterrupt, KafkaException):
        _called(producer.flush, _LAST_MOMENT_S)
    with contextlib.suppress(KeyboardInterrupt, KafkaException):
        producer.purge()
        _called(producer.flush, _FLUSH_STEP_S)


def missing_text(count: int, what: str) -> str:
    """Return that so many records were not written, say."""
    return f"{count_text(count, 'record', 'was', 'were')} not {what}"


def _called(method: Callable[[float], int], timeout_s: float) -> int:
    """Raises KafkaException when the client has ended, KeyboardInterrupt."""
    try:
        return method(timeout_s)
    except SystemError as error:  # a function was called back while an exception was there already
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        if isinstance(error.__cause__, KafkaException):
            raise KafkaException(*error.__cause__.args) from error
        raise
