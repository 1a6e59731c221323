"""The life of a process: it stops once, in order, and says why."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
from pathlib import Path

import pytest

from runtime.process.process_life import ProcessLife, tell
from tests.doubles.clock import ManualClock


def life(stops: list[str]) -> ProcessLife:
    return ProcessLife(
        ManualClock(),
        on_stop=lambda: stops.append("stop"),
        on_reload=lambda: stops.append("reload"),
        doing=lambda: "serving",
    )


async def test_a_signal_stops_it_once_and_a_failure_gives_its_exit_code(caplog: pytest.LogCaptureFixture) -> None:
    stops: list[str] = []
    caplog.set_level(logging.INFO)
    one = life(stops)
    one._on_stop_signal(signal.SIGTERM)
    one.fail("the disk is gone")
    one.fail("a consequence")
    assert stops == ["stop"]
    assert one.exit_code == 1
    assert [record.getMessage() for record in caplog.records] == [
        "process stops: signal=SIGTERM",
        "process stops, it cannot continue: reason=the disk is gone",
    ]


async def test_a_service_manager_hears_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        one = life([])
        one.begin()
        one.ready()
        one.stop()
        one.end()
        said = [manager.recv(4096).decode().split("\n") for _ in range(3)]
    assert "STATUS=serving" in said[0]
    assert said[1] == ["READY=1"]
    assert set(said[2]) == {"STOPPING=1", "STATUS=stopping"}


def test_what_has_started_it_reads_a_line() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as told:
        tell(writing, {"address": "here:1"})
        assert json.loads(told.read()) == {"address": "here:1"}
