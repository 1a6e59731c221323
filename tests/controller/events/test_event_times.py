"""How long the controller's events take, and what it is busy with meanwhile."""

from __future__ import annotations

import pytest

from controller.events.event_times import ControllerState, EventTimes
from tests.doubles.clock import ManualClock


def test_an_event_is_counted_with_its_wait_and_its_time() -> None:
    clock = ManualClock(1_000)
    times = EventTimes(clock)
    queued = times.stamp()
    clock.now_ms += 30
    with times.measured(ControllerState.TOPIC_CHANGE, queued):
        assert times.state is ControllerState.TOPIC_CHANGE
        clock.now_ms += 12
    assert times.state is ControllerState.IDLE
    assert {state for state, each in times.times.items() if each.count} == {ControllerState.TOPIC_CHANGE}
    took = times.times[ControllerState.TOPIC_CHANGE]
    assert (took.count, took.total) == (1, 12_000_000)
    assert (times.waits.count, times.waits.total) == (1, 30_000_000)


def test_an_event_that_fails_counts_as_well() -> None:
    clock = ManualClock(1_000)
    times = EventTimes(clock)

    def lose_the_store() -> None:
        with times.measured(ControllerState.BROKER_CHANGE):
            clock.now_ms += 5
            raise ConnectionError

    with pytest.raises(ConnectionError):
        lose_the_store()
    assert times.state is ControllerState.IDLE
    assert times.times[ControllerState.BROKER_CHANGE].total == 5_000_000
    assert times.waits.count == 0, "it did not stand in the queue"
