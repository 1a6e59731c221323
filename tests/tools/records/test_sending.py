"""Records that nobody takes are not waited for once a command has been interrupted."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from runtime.command_line.interrupts import INTERRUPTS
from tools.client_log import CLIENT_LOG
from tools.records.callbacks import called
from tools.records.sending import give_up


def test_what_waits_for_a_broker_is_given_up_and_told() -> None:
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    for _ in range(3):
        producer.produce("orders", b"value", on_delivery=lambda error, _message: errors.append(error))
    give_up(producer)
    assert [error.name() for error in errors] == ["_PURGE_QUEUE"] * 3
    assert len(producer) == 0


class Interrupted:
    """A client whose first flush is interrupted, or ends it."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error
        self.purged = 0

    def flush(self, _timeout_s: float) -> int:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return 0

    def purge(self) -> None:
        self.purged += 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KafkaException(KafkaError(KafkaError._FATAL))])
def test_a_second_interrupt_does_not_keep_the_records(error: BaseException) -> None:
    producer = Interrupted(error)
    give_up(producer)  # type: ignore[arg-type]
    assert producer.purged == 1


@pytest.mark.parametrize(
    ("cause", "has_come", "raised"),
    [
        (KeyboardInterrupt(), False, KeyboardInterrupt),
        (KafkaException(KafkaError(KafkaError._FATAL)), False, KafkaException),
        (ValueError(), True, SystemError),
        (None, True, KeyboardInterrupt),
        (None, False, KafkaException),
    ],
)
def test_what_was_raised_while_the_library_called_back_is_raised(
    cause: BaseException | None, has_come: bool, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library makes a SystemError of it, or loses it."""
    monkeypatch.setattr(INTERRUPTS, "has_come", has_come)
    CLIENT_LOG.critical("FATAL [producer]: Fatal error: it may not number records")

    def call(_timeout_s: float) -> None:
        if cause is None:
            raise SystemError("<method> returned NULL without setting an exception")
        raise SystemError("<method> returned a result with an exception set") from cause

    with pytest.raises(raised) as caught:
        called(call, 0.1)
    if (cause, has_come) == (None, False):
        assert caught.value.args[0].str() == "it may not number records"
