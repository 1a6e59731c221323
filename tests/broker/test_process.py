"""Signals: the first stops in order, one that comes later at once."""

from __future__ import annotations

import os
import signal

import pytest

from broker.process import SAME_WISH_MS, BrokerProcess
from broker.start_options import StartOptions
from config.broker import BrokerSettings
from tests.broker.harness import FakeClock


class Exited(BaseException):
    pass


def test_a_signal_ends_a_stop_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is the same wish once more: make sends on what its whole group was told."""
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Exited

    monkeypatch.setattr(os, "_exit", leave)
    clock = FakeClock()
    process = BrokerProcess(BrokerSettings({}), StartOptions(), 0, clock)
    process._on_signal(signal.SIGTERM)
    clock.now_ms += SAME_WISH_MS - 1
    process._on_signal(signal.SIGTERM)
    assert codes == []
    clock.now_ms += 1
    with pytest.raises(Exited):
        process._on_signal(signal.SIGINT)
    assert codes == [128 + signal.SIGINT]
