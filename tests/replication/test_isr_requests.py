"""Wishes for another ISR on their way to the controller, or into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from replication import isr_requests
from replication.assignment import PartitionAssignment
from replication.isr_requests import IsrRequests, IsrWrites
from replication.leader import IsrChange, IsrResponse
from runtime.tasks import TaskScope
from tests.async_tests import simulated
from tests.doubles.clock import ManualClock
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop

TOPIC_ID = b"t" * 16
BROKER_EPOCH = 42


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_requests, "RETRY_PAUSE_MS", 0)
    monkeypatch.setattr(isr_requests, "ANNOUNCE_CHECK_MS", 0)


class Owner:
    """A partition that wishes."""

    assignment = PartitionAssignment(controller_epoch=6)

    def __init__(self, partition: int = 0, topic: str = "t", topic_id: bytes = TOPIC_ID) -> None:
        self.topic, self.partition, self.topic_id = topic, partition, topic_id
        self.wished: IsrChange | None = None
        self.answers: list[IsrResponse] = []

    def wish(self, *isr: int, partition_epoch: int = 3) -> IsrChange:
        self.wished = IsrChange(isr, 2, partition_epoch, isr[-1])
        return self.wished

    def wants(self, change: IsrChange) -> bool:
        return self.wished is change

    def on_isr_response(self, change: IsrChange, answer: IsrResponse) -> None:
        self.answers.append(answer)
        self.wished = None


Answer = Callable[[AlterPartitionRequest, int], Awaitable[AlterPartitionResponse]]


class Line:
    """The controller, who answers by `script`, and after that fulfils every wish."""

    def __init__(self, *script: AlterPartitionResponse | Exception | Callable[[], None]) -> None:
        self.script = list(script)
        self.sent: list[tuple[AlterPartitionRequest, int]] = []
        self.under_way = 0
        self.errors: dict[int, int] = {}

    async def send(self, request: Request, version: int, response_type: type[Response]) -> Response:  # type: ignore[override]
        assert isinstance(request, AlterPartitionRequest)
        assert response_type is AlterPartitionResponse
        self.under_way += 1
        assert self.under_way == 1, "one request at a time"
        self.sent.append((AlterPartitionRequest.decode(request.encode(version), version), version))
        await asyncio.sleep(0)
        self.under_way -= 1
        step = self.script.pop(0) if self.script else None
        if callable(step):
            step()
        elif isinstance(step, Exception):
            raise step
        elif step is not None:
            return step
        response = fulfilled(request)
        for row in response.topics[0].partitions:
            row.error_code = self.errors.get(row.partition_index, 0)
        return AlterPartitionResponse.decode(response.encode(version), version)


def fulfilled(request: AlterPartitionRequest) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[
                    ResponsePartitionData(
                        partition_index=row.partition_index,
                        error_code=0,
                        leader_id=1,
                        leader_epoch=row.leader_epoch,
                        isr=row.new_isr or [member.broker_id for member in row.new_isr_with_epochs],
                        partition_epoch=row.partition_epoch + 1,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def refused(error: ErrorCode) -> AlterPartitionResponse:
    return AlterPartitionResponse(throttle_time_ms=0, error_code=error, topics=[])


async def settled(tasks: TaskScope) -> None:
    for _ in range(200):
        if not len(tasks):
            return
        await asyncio.sleep(0)
    raise AssertionError("still at work")


def run(line: Line, scenario: Callable[[IsrRequests], Awaitable[None] | None], *, version: int = 3) -> None:
    async def play() -> None:
        async with TaskScope("test") as tasks:
            requests = IsrRequests(1, lambda: BROKER_EPOCH, line, tasks, version=version)
            scenario(requests)
            await settled(tasks)
            assert len(requests) == 0

    asyncio.run(play())


def test_a_wish_goes_out_as_apache_kafkas_and_comes_back_as_an_answer() -> None:
    line, owner = Line(), Owner()
    run(line, lambda requests: requests.submit(owner, owner.wish(1, 2)))
    ((request, version),) = line.sent
    assert (version, request.broker_id, request.broker_epoch) == (3, 1, BROKER_EPOCH)
    (row,) = request.topics[0].partitions
    assert request.topics[0].topic_id == TOPIC_ID
    assert [(member.broker_id, member.broker_epoch) for member in row.new_isr_with_epochs] == [(1, -1), (2, -1)]
    assert (row.leader_epoch, row.partition_epoch) == (2, 3)
    assert owner.answers == [IsrResponse(ErrorCode.NONE, 2, (1, 2), 4)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_versions_name_the_isr_only(version: int) -> None:
    line, owner = Line(), Owner()
    run(line, lambda requests: requests.submit(owner, owner.wish(1, 2)), version=version)
    ((request, sent_version),) = line.sent
    assert sent_version == version
    assert request.topics[0].partitions[0].new_isr == [1, 2]
    assert owner.answers == [IsrResponse(ErrorCode.NONE, 2, (1, 2), 4)]


def test_one_topic_without_an_id_makes_the_request_go_by_name() -> None:
    line, old, new = Line(), Owner(topic="old", topic_id=ZERO_UUID), Owner(topic="new")

    def scenario(requests: IsrRequests) -> None:
        requests.submit(old, old.wish(1, 2))
        requests.submit(new, new.wish(1, 3))

    run(line, scenario)
    ((request, version),) = line.sent
    assert version == 1
    assert [topic.topic_name for topic in request.topics] == ["old", "new"]
    assert [owner.answers[0].isr for owner in (old, new)] == [(1, 2), (1, 3)]


def test_wishes_gather_while_a_request_is_under_way() -> None:
    line, owners = Line(), [Owner(partition) for partition in range(3)]

    def scenario(requests: IsrRequests) -> None:
        line.script.append(lambda: [requests.submit(owner, owner.wish(1)) for owner in owners[1:]] and None)
        requests.submit(owners[0], owners[0].wish(1))

    run(line, scenario)
    assert [[row.partition_index for row in request.topics[0].partitions] for request, _ in line.sent] == [[0], [1, 2]]
    assert all(owner.answers for owner in owners)


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionError("gone"),
        KafkaError(ErrorCode.NOT_CONTROLLER),
        refused(ErrorCode.NOT_CONTROLLER),
        refused(ErrorCode.STALE_BROKER_EPOCH),
        AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=[]),
    ],
    ids=["no answer", "no controller", "not the controller", "stale broker epoch", "no row"],
)
def test_what_was_not_answered_is_asked_again(failure: AlterPartitionResponse | Exception) -> None:
    line, owner = Line(failure, failure), Owner()
    run(line, lambda requests: requests.submit(owner, owner.wish(1, 2)))
    assert len(line.sent) == 3
    assert [answer.isr for answer in owner.answers] == [(1, 2)]


def test_a_wish_that_does_not_hold_any_more_is_dropped() -> None:
    line, owner = Line(), Owner()

    def forget() -> None:
        owner.wished = None
        raise ConnectionError

    line.script.append(forget)
    run(line, lambda requests: requests.submit(owner, owner.wish(1, 2)))
    assert len(line.sent) == 1
    assert owner.answers == []


def test_a_newer_wish_takes_the_place_of_one_that_waits() -> None:
    line, owner = Line(), Owner()

    def scenario(requests: IsrRequests) -> None:
        requests.submit(owner, owner.wish(1, 2))
        requests.submit(owner, owner.wish(1, 3))

    run(line, scenario)
    assert [answer.isr for answer in owner.answers] == [(1, 3)]


def test_an_error_of_one_partition_is_its_own() -> None:
    owners = [Owner(0), Owner(1), Owner(2)]
    line = Line()
    line.errors = {0: ErrorCode.FENCED_LEADER_EPOCH, 1: 30_000}
    run(line, lambda requests: [requests.submit(owner, owner.wish(1, 2)) for owner in owners] and None)
    assert [owner.answers[0].error for owner in owners] == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NONE,
    ]


# --- into the store ---


class Writer:
    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.written: list[tuple[str, int, tuple[int, ...], int, int]] = []
        self.announced: list[Sequence[TopicPartition]] = []
        self.announce_failures = 0
        self.version: int | None = 9

    async def write(
        self, topic: str, partition: int, change: IsrChange, *, leader_id: int, controller_epoch: int
    ) -> int | None:
        step = self.script.pop(0) if self.script else None
        if step is not None:
            raise step
        self.written.append((topic, partition, change.isr, leader_id, controller_epoch))
        return self.version

    async def announce(self, partitions: Sequence[TopicPartition]) -> None:
        if self.announce_failures:
            self.announce_failures -= 1
            raise ConnectionError
        self.announced.append(partitions)


def write_all(writer: Writer, owners: Sequence[Owner]) -> None:
    async def play() -> None:
        async with TaskScope("test") as tasks:
            writes = IsrWrites(1, writer, ManualClock(step_ms=1_000), tasks)
            for owner in owners:
                writes.submit(owner, owner.wish(1, 2))
            await settled(tasks)

    asyncio.run(play())


def test_written_states_are_announced_together_once_it_is_quiet() -> None:
    writer, owners = Writer(), [Owner(0), Owner(1)]
    writer.announce_failures = 1
    write_all(writer, owners)
    assert writer.written == [("t", 0, (1, 2), 1, 6), ("t", 1, (1, 2), 1, 6)]
    assert writer.announced == [[("t", 0), ("t", 1)]]
    assert [owner.answers for owner in owners] == [[IsrResponse(ErrorCode.NONE, 2, (1, 2), 9)]] * 2


def test_a_state_that_another_has_written_is_left_alone() -> None:
    writer, owner = Writer(), Owner()
    writer.version = None
    write_all(writer, [owner])
    assert owner.answers == [IsrResponse(ErrorCode.INVALID_UPDATE_VERSION)]
    assert writer.announced == []


def test_a_write_without_outcome_is_tried_again() -> None:
    writer, owner = Writer(ConnectionError(), ConnectionError()), Owner()
    write_all(writer, [owner])
    assert [answer.error for answer in owner.answers] == [ErrorCode.NONE]


@simulated(1)
async def test_a_wish_does_not_wait_until_others_are_announced(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas catch up one after the other, and producers wait for each of them."""
    monkeypatch.setattr(isr_requests, "ANNOUNCE_CHECK_MS", 2_500)
    writer, owners, written_s = Writer(), [Owner(partition) for partition in range(3)], list[float]()
    async with TaskScope("test") as tasks:
        writes = IsrWrites(1, writer, SimClock(loop), tasks)
        for count, owner in enumerate(owners, start=1):
            began_s = loop.time()
            writes.submit(owner, owner.wish(1, 2))
            while len(writer.written) < count:  # noqa: ASYNC110  polled on virtual time
                await asyncio.sleep(0.01)
            written_s.append(loop.time() - began_s)
            await asyncio.sleep(1)
        while len(tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert max(written_s) < 0.1
    assert writer.announced == [[("t", 0), ("t", 1), ("t", 2)]]
