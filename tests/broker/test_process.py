"""Signals: the first stops in order, the second at once."""

from __future__ import annotations

import os
import signal

import pytest

from broker.process import BrokerProcess
from broker.start_options import StartOptions
from config.broker import BrokerSettings


class Exited(BaseException):
    pass


def test_the_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Exited

    monkeypatch.setattr(os, "_exit", leave)
    process = BrokerProcess(BrokerSettings({}), StartOptions(), 0)
    process._on_signal(signal.SIGTERM)
    assert codes == []
    with pytest.raises(Exited):
        process._on_signal(signal.SIGINT)
    assert codes == [128 + signal.SIGINT]
