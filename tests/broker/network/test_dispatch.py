from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.network.dispatch import Dispatch, Outcome, handles
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import CloseConnection, Deferred
from broker.network.routes import DispatchTable, Handler
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from runtime.tasks import TaskScope
from security.access import NOTHING
from tests.broker.contexts import context_of
from tests.broker.harness import settle

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def context() -> RequestContext:
    return context_of({}, 4, client_id="tester")


def ok() -> HeartbeatResponse:
    return HeartbeatResponse(error_code=ErrorCode.NONE)


def dispatch(body: Callable[[], Awaitable[Any]]) -> tuple[Outcome | Deferred[Outcome], TaskScope]:
    """Dispatch a heartbeat whose handler runs `body`."""

    @handles(HeartbeatRequest, NOTHING)
    async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> Any:
        return await body()

    return run(heartbeat, REQUEST)


def run(handler: Handler[Any], request: Any) -> tuple[Outcome | Deferred[Outcome], TaskScope]:
    tasks = TaskScope("requests")
    table = DispatchTable([handler])
    route = table.route(handler.api_key, table.api_versions()[0].last_version)
    assert route is not None
    return Dispatch(table, tasks).handle(route, request, context()), tasks


def code_of(outcome: object) -> int:
    assert isinstance(outcome, HeartbeatResponse)
    return outcome.error_code


def test_a_handler_that_does_not_wait_needs_no_task_and_no_loop() -> None:
    async def body() -> HeartbeatResponse:
        async def inner() -> HeartbeatResponse:
            return ok()

        return await inner()

    outcome, tasks = dispatch(body)
    assert code_of(outcome) == ErrorCode.NONE
    assert len(tasks) == 0


@pytest.mark.parametrize("waits", ["future", "sleep 0", "sleep", "lock", "nested timeout"])
async def test_a_handler_that_waits_goes_on_in_a_task(waits: str) -> None:
    loop = asyncio.get_running_loop()
    gate: asyncio.Future[int] = loop.create_future()
    lock = asyncio.Lock()
    await lock.acquire()
    seen: list[object] = []

    async def body() -> HeartbeatResponse:
        if waits == "future":
            seen.append(await gate)
        elif waits == "sleep 0":
            await asyncio.sleep(0)
        elif waits == "sleep":
            await asyncio.sleep(0.001)
        elif waits == "lock":
            async with lock:
                pass
        else:
            await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await gate
        await asyncio.sleep(0)
        seen.append(asyncio.current_task() is not None)
        return ok()

    outcome, tasks = dispatch(body)
    assert isinstance(outcome, Deferred)
    assert len(tasks) == 1
    answers: list[Outcome] = []
    done = asyncio.Event()

    def answered(answer: Outcome) -> None:
        answers.append(answer)
        done.set()

    outcome.then(answered)
    gate.set_result(42)
    lock.release()
    await asyncio.wait_for(done.wait(), 10)
    assert code_of(answers[0]) == ErrorCode.NONE
    assert seen == ([42, True] if waits == "future" else [True])
    await tasks.close()


@pytest.mark.parametrize("first_waits", [False, True])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        (ValueError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors_become_answers(
    error: Exception, code: ErrorCode, first_waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async def body() -> HeartbeatResponse:
            if first_waits:
                await asyncio.sleep(0)
            raise error

        with caplog.at_level(logging.ERROR):
            outcome, tasks = dispatch(body)
            if first_waits:
                assert isinstance(outcome, Deferred)
                answers: list[Outcome] = []
                outcome.then(answers.append)
                await settle()
                outcome = answers[0]
        assert code_of(outcome) == code
        assert len(tasks) == 0

    asyncio.run(main())
    if isinstance(error, KafkaError):
        assert caplog.records == []
    else:
        (record,) = caplog.records
        assert record.exc_info is not None and "bug" in str(record.exc_info[1])
        assert "api=Heartbeat version=4 client_id='tester'" in record.getMessage()


async def test_an_error_thrown_into_the_first_wait_reaches_the_handler() -> None:
    """Cancellation, at the place where the coroutine was taken over by its task."""
    seen: list[str] = []

    async def body() -> HeartbeatResponse:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise
        return ok()

    outcome, tasks = dispatch(body)
    assert isinstance(outcome, Deferred)
    answers: list[Outcome] = []
    outcome.then(answers.append)
    await settle()
    await tasks.close()
    assert seen == ["cancelled", "cleaned up"]
    assert isinstance(answers[0], CloseConnection)


def test_where_no_answer_carries_an_error_the_connection_closes() -> None:
    @handles(ListOffsetsRequest, NOTHING)
    async def list_offsets(_: ListOffsetsRequest, __: RequestContext) -> ListOffsetsResponse:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")

    outcome, _ = run(list_offsets, ListOffsetsRequest(replica_id=-1, topics=[]))
    assert isinstance(outcome, CloseConnection)
    assert "the disk is gone" in str(outcome)


def test_plain_functions_overlap_and_may_defer_or_say_nothing() -> None:
    deferred: Deferred[ProduceResponse] = Deferred()
    answers: list[Any] = [deferred, None, ProduceResponse(responses=[]), CloseConnection("no")]

    @handles(ProduceRequest, NOTHING)
    def produce(_: ProduceRequest, __: RequestContext) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, CloseConnection):
            raise answer
        return answer

    assert produce.overlaps
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[])
    expected = list(answers)
    assert [run(produce, request)[0] for _ in range(4)] == expected


def test_the_table_serves_what_handlers_say() -> None:
    @handles(ProduceRequest, NOTHING, versions="3-8")
    def produce(_: ProduceRequest, __: RequestContext) -> None: ...

    @handles(HeartbeatRequest, NOTHING)
    async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> HeartbeatResponse:
        return ok()

    table = DispatchTable([heartbeat, produce])
    assert [tuple(row) for row in table.api_versions()] == [(0, 3, 8), (12, 0, 4)]
    assert [table.route(0, version) is not None for version in (2, 3, 8, 9)] == [False, True, True, False]
    assert table.route(999, 0) is None
    assert table.route(0, -1) is None
    route = table.route(0, 3)
    assert route is table.route(0, 3)
    assert route is not None and route.has_records and route.overlaps and not route.is_flexible
    heartbeat_route = table.route(12, 4)
    assert heartbeat_route is not None
    assert heartbeat_route.is_flexible and not heartbeat_route.has_records and not heartbeat_route.overlaps


def test_an_api_has_one_handler_and_only_versions_of_its_message() -> None:
    @handles(HeartbeatRequest, NOTHING)
    async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> HeartbeatResponse:
        return ok()

    with pytest.raises(AssertionError, match="two handlers"):
        DispatchTable([heartbeat, heartbeat])
    with pytest.raises(AssertionError, match="no versions"):
        handles(HeartbeatRequest, NOTHING, versions="0-9")


def test_a_deferred_answers_once() -> None:
    heard: list[int | None] = []
    deferred: Deferred[int | None] = Deferred()
    deferred.then(heard.append)
    assert not deferred.is_complete
    deferred.complete(None)
    deferred.complete(5)
    assert deferred.is_complete
    assert heard == [None]
    early: Deferred[int] = Deferred()
    early.complete(1)
    early.then(heard.append)
    assert heard == [None, 1]


@pytest.mark.parametrize("works_on_frame", [True, False])
def test_a_barrier_that_is_abandoned_completes_when_nobody_works_on_the_frame(*, works_on_frame: bool) -> None:
    released: list[object] = []
    inner: Deferred[int] = Deferred(is_barrier=works_on_frame)
    outer: Deferred[int] = Deferred(is_barrier=True)
    outer.follow(inner)
    outer.abandon()
    outer.then(released.append)
    assert len(released) == (not works_on_frame)
    inner.complete(1)
    assert len(released) == 1


def test_an_abandoned_deferred_tells_its_owner_once_and_answers_nobody() -> None:
    heard: list[int] = []
    told: list[str] = []
    deferred: Deferred[int] = Deferred()
    deferred.on_abandon(lambda: told.append("abandoned"))
    deferred.then(heard.append)
    deferred.abandon()
    deferred.abandon()
    deferred.complete(1)
    assert (told, heard) == (["abandoned"], [])
