"""Reading to an end, with a client that gives what the test says."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tools.records.reading import STUCK_POLLS, Reading, ReadPlan, deleted_text

END = KafkaError._PARTITION_EOF
OUT_OF_RANGE = KafkaError._AUTO_OFFSET_RESET


@dataclass
class Message:
    at_partition: int
    at_offset: int
    code: int | None = None

    def partition(self) -> int:
        return self.at_partition

    def offset(self) -> int:
        return self.at_offset

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


@dataclass
class Client:
    """Gives one list of messages a call. `first` is where logs start."""

    given: deque[list[Message]]
    first: int = 0
    assigned: dict[int, int] = field(default_factory=dict)

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = {each.partition: each.offset for each in places}

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        self.assigned |= {each.partition: each.offset for each in places}

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for each in places:
            del self.assigned[each.partition]

    def consume(self, _most: int, _timeout_s: float) -> list[Message]:
        return self.given.popleft() if self.given else []

    def get_watermark_offsets(self, _place: TopicPartition, _timeout_s: float) -> tuple[int, int]:
        return self.first, self.first + 100

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("t", each.partition, -1001) for each in places]


def reading(client: Client, plan: ReadPlan) -> Reading:
    return Reading(cast(Any, client), "t", plan)


def offsets(messages: list[Any]) -> list[int]:
    return [message.offset() for message in messages]


def test_a_partition_that_is_read_to_its_end_is_not_fetched_any_more() -> None:
    client = Client(deque([[Message(0, 0), Message(1, 0), Message(0, 1), Message(0, 2)], [Message(1, 3, END)]]))
    run = reading(client, ReadPlan({0: 0, 1: 0}, {0: 2, 1: 3}))
    assert offsets(run.poll()) == [0, 0, 1]
    assert client.assigned == {1: 0}
    assert not run.is_finished
    assert run.poll() == []
    assert run.is_finished


def test_records_that_are_deleted_meanwhile_are_counted_and_the_rest_is_read() -> None:
    client = Client(deque([[Message(0, 10, OUT_OF_RANGE)], [Message(0, 50), Message(0, 51)]]), first=50)
    run = reading(client, ReadPlan({0: 10}, {0: 52}))
    assert run.poll() == []
    assert client.assigned == {0: 50}
    assert offsets(run.poll()) == [50, 51]
    assert run.is_finished
    assert run.deleted == {0: 40}
    assert deleted_text("t", run.deleted).endswith("40 of t-0")


def test_when_everything_is_deleted_meanwhile_nothing_is_left_to_read() -> None:
    run = reading(Client(deque([[Message(0, 10, OUT_OF_RANGE)]]), first=90), ReadPlan({0: 10}, {0: 52}))
    run.poll()
    assert run.is_finished
    assert run.deleted == {0: 42}


def test_a_log_that_has_become_shorter_is_an_error() -> None:
    run = reading(Client(deque([[Message(0, 10, OUT_OF_RANGE)]]), first=0), ReadPlan({0: 10}, {0: 52}))
    with pytest.raises(KafkaException):
        run.poll()


def test_a_partition_that_gives_nothing_any_more_is_an_error_that_tells_the_place() -> None:
    run = reading(Client(deque([[Message(1, 7)]])), ReadPlan({0: 3, 1: 7}, {0: 9, 1: 8}))
    assert offsets(run.poll()) == [7]
    for _ in range(STUCK_POLLS):
        run.poll()
    with pytest.raises(KafkaException):
        run.poll()
    assert run.positions() == {0: 3}


def test_without_an_end_nobody_is_stuck() -> None:
    run = reading(Client(deque()), ReadPlan({0: 3}))
    for _ in range(STUCK_POLLS + 1):
        assert run.poll() == []
    assert not run.is_finished
