"""Signals: the first stops in order, one that comes later at once."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import nullcontext

import pytest

from broker.process import BrokerProcess
from broker.start_options import StartOptions
from config.broker import BrokerSettings
from runtime.process.stop_signals import REPEATED_SIGNAL_MS
from tests.doubles.clock import ManualClock


class Exited(BaseException):
    pass


@pytest.mark.parametrize(
    ("first", "second", "later_ms", "ends"),
    [
        (signal.SIGTERM, signal.SIGTERM, REPEATED_SIGNAL_MS - 1, False),  # make sends on what its whole group was told
        (signal.SIGTERM, signal.SIGTERM, REPEATED_SIGNAL_MS, True),
        (signal.SIGTERM, signal.SIGINT, 0, True),
        (signal.SIGTERM, signal.SIGHUP, 10 * REPEATED_SIGNAL_MS, False),  # a session that ends tells both
        (signal.SIGHUP, signal.SIGTERM, REPEATED_SIGNAL_MS - 1, False),
        (signal.SIGHUP, signal.SIGTERM, REPEATED_SIGNAL_MS, True),
    ],
)
def test_another_signal_ends_a_stop_that_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, first: signal.Signals, second: signal.Signals, later_ms: int, ends: bool
) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Exited

    monkeypatch.setattr(os, "_exit", leave)
    clock = ManualClock(1_000)
    process = BrokerProcess(BrokerSettings({}), StartOptions(), 0, clock)
    process._signals._hangs_up = True
    process._signals.on_signal(first)
    clock.now_ms += later_ms
    with pytest.raises(Exited) if ends else nullcontext():
        process._signals.on_signal(second)
    assert codes == ([128 + second] if ends else [])


def test_a_signal_of_log_rotation_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    process = BrokerProcess(BrokerSettings({}), StartOptions(), 0, ManualClock(1_000))
    with caplog.at_level(logging.INFO):
        process._signals.on_signal(signal.SIGHUP)
    assert not process._stop.is_set()
    assert caplog.messages == ["signal ignored, there is no log file to open anew: signal=SIGHUP"]
