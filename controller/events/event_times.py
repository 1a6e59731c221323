"""The current work of the controller, and how long its events take, by kind of work.

Rules: counts, and decides nothing. Clock readings are in whole milliseconds.
Source: Kafka ControllerState, ControllerEventManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

from runtime.distribution import Distribution

if TYPE_CHECKING:
    from runtime.clock import Clock

_NS_PER_MS = 1_000_000


class ControllerState(IntEnum):
    """The kinds of work, with the numbers of Kafka's gauge. IDLE, and work without a kind, is not measured."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


class EventTimes:
    """The measured times. `state` is the current work, `times` are of completed events, by kind of work, `waits` of their
    time in the queue."""

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        self.state = ControllerState.IDLE
        self.times = {state: Distribution() for state in ControllerState}
        self.waits = Distribution()

    def stamp(self) -> int:
        """Return the current time, when an event is queued."""
        return self._now_ms()

    @contextmanager
    def measured(self, state: ControllerState, queued: int | None = None) -> Iterator[None]:
        """Measure the enclosed work, also if it fails. `queued` is the event's stamp, None for work that was not queued."""
        began_ms = self._now_ms()
        if queued is not None:
            self.waits.add((began_ms - queued) * _NS_PER_MS)
        self.state = state
        try:
            yield
        finally:
            self.state = ControllerState.IDLE
            self.times[state].add((self._now_ms() - began_ms) * _NS_PER_MS)
