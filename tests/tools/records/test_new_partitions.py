"""Partitions that a topic gets while it is read: found by looks that nobody waits for."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.clocks import ManualClock
from tools.records.new_partitions import LOOK_EVERY_MS, NewPartitions


class Asked:
    """A cluster whose answers come when the test gives them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answers: list[Future[Any]] = []
        self.admin = self

    def describe_topics(self, _topics: Any) -> dict[str, Future[Any]]:
        self.answers.append(Future())
        return {"orders": self.answers[-1]}

    def answer(self, partitions: int) -> None:
        self.answers[-1].set_result(SimpleNamespace(partitions=[None] * partitions))


@pytest.fixture
def cluster() -> Asked:
    return Asked()


@pytest.fixture
def watched(cluster: Asked) -> NewPartitions:
    return NewPartitions(cluster, "orders", 2)  # type: ignore[arg-type]


def test_a_look_comes_every_few_seconds_and_only_one_at_a_time(cluster: Asked, watched: NewPartitions) -> None:
    assert watched.found() == [] and cluster.answers == []
    cluster.clock.now_ms += LOOK_EVERY_MS
    for _ in range(3):
        assert watched.found() == []
    assert len(cluster.answers) == 1
    cluster.answer(2)
    assert watched.found() == [] and len(cluster.answers) == 1


def test_each_new_partition_is_told_once(cluster: Asked, watched: NewPartitions) -> None:
    for there, added in ((3, [2]), (3, []), (6, [3, 4, 5])):
        cluster.clock.now_ms += LOOK_EVERY_MS
        assert watched.found() == []
        cluster.answer(there)
        assert watched.found() == added


def test_a_look_that_fails_is_repeated(cluster: Asked, watched: NewPartitions) -> None:
    cluster.clock.now_ms += LOOK_EVERY_MS
    watched.found()
    cluster.answers[-1].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert watched.found() == []
    cluster.clock.now_ms += LOOK_EVERY_MS
    watched.found()
    cluster.answer(3)
    assert watched.found() == [2]
