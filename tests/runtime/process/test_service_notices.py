"""What the service manager is told, and when."""

from __future__ import annotations

import errno
import logging
import os

import pytest

from runtime.process.service_notices import BEAT_S, START_EXTENSION_US, ServiceNotices
from tests.doubles.clock import ManualClock, Turns

EXTENSION = f"EXTEND_TIMEOUT_USEC={START_EXTENSION_US}"


class World:
    def __init__(self, watchdog_s: float | None = None) -> None:
        self.told: list[list[str]] = []
        self.doing = "loading logs"
        self.failure: OSError | None = None
        self.turns = Turns(ManualClock())
        self.notices = ServiceNotices(self._send, lambda: self.doing, self.turns.call_later, watchdog_s)
        self.notices.start()

    def _send(self, notice: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.told.append(notice.decode().split("\n"))

    def beat(self, beats: float = 1) -> None:
        self.turns.advance(round(beats * BEAT_S * 1000))

    def last(self) -> list[str]:
        (found,) = self.told
        self.told.clear()
        return found


def test_a_start_says_what_it_does_and_asks_for_time_until_it_is_ready() -> None:
    world = World()
    assert world.last() == [EXTENSION, "STATUS=loading logs"]
    world.beat()
    assert world.last() == [EXTENSION]
    world.doing = "registering"
    world.beat()
    assert world.last() == [EXTENSION, "STATUS=registering"]
    world.doing = "serving"
    world.notices.ready()
    assert world.last() == ["READY=1", "STATUS=serving"]
    world.beat(5)
    assert world.told == []


def test_a_stop_is_told_when_it_begins() -> None:
    world = World()
    world.notices.ready()
    world.told.clear()
    world.doing = "stopping"
    world.notices.stopping()
    assert world.last() == ["STOPPING=1", "STATUS=stopping"]
    world.beat()
    assert world.told == []


def test_the_watchdog_hears_the_loop_twice_as_often_as_it_needs_to() -> None:
    world = World(watchdog_s=0.5)
    world.notices.ready()
    world.told.clear()
    world.turns.advance(1000)
    assert world.told == [["WATCHDOG=1"]] * 4


def test_nothing_is_said_after_the_end() -> None:
    world = World(watchdog_s=1)
    world.notices.close()
    world.told.clear()
    world.beat(3)
    assert world.told == []


def test_what_could_not_be_sent_is_sent_later_and_the_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.told.clear()
    world.failure = OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    with caplog.at_level(logging.WARNING):
        world.notices.ready()
        world.beat(2)
    assert [record.getMessage() for record in caplog.records] == [
        "service manager not told, it is tried again: error=Connection refused"
    ]
    world.failure = None
    world.beat()
    assert world.last() == ["READY=1"]
    world.beat()
    assert world.told == []
