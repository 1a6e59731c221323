"""Partitions that a topic gets while it is read: they are asked for beside the reader, which does not wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import ErrorCode, KafkaError
from tests.doubles.clock import ManualClock
from tools.records.new_partitions import ASKED_EVERY_MS, NewPartitions


class Topic:
    """A topic whose answers come when the test lets them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.count = 2
        self.error: Exception | None = None
        self.asked: list[Callable[[], None]] = []
        self.watched = NewPartitions(self.clock, self._answer, 2, self.asked.append)

    def _answer(self) -> int:
        if self.error is not None:
            raise self.error
        return self.count

    def looked_up(self) -> list[int]:
        """Let time pass, and return what is found when the answer has come."""
        self.clock.now_ms += ASKED_EVERY_MS
        assert self.watched.found() == []
        self.asked[-1]()
        return self.watched.found()


def test_a_topic_is_asked_for_every_few_seconds_and_once_at_a_time() -> None:
    topic = Topic()
    assert topic.watched.found() == [] and topic.asked == []
    for _ in range(3):
        topic.clock.now_ms += ASKED_EVERY_MS
        assert topic.watched.found() == []
    assert len(topic.asked) == 1


def test_each_new_partition_is_found_once() -> None:
    topic = Topic()
    found = []
    for topic.count in (3, 3, 6):
        found.append(topic.looked_up())
    assert found == [[2], [], [3, 4, 5]]


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.REQUEST_TIMED_OUT), ConnectionError("lost")])
def test_what_fails_is_asked_again(error: Exception) -> None:
    topic = Topic()
    topic.error, topic.count = error, 3
    assert topic.looked_up() == []
    topic.error = None
    assert topic.looked_up() == [2]
