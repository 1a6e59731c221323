"""The log of requests says who asked what, without secrets; no client can tell whether it is on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.dispatch import Dispatch, handles
from broker.network.request_log import LoggedDispatch, RequestLog
from broker.network.responses.deferred import CloseConnection, Deferred
from broker.network.routes import DispatchTable
from broker.observability.logging_setup import REQUEST_LOGGER, set_logger_level
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from runtime.log_forms import TRACE
from runtime.tasks import TaskScope
from security.access import NOTHING
from tests.broker.handlers.records.produce_twins import Twins, on_twins, request_of, teach
from tests.broker.network.test_dispatch import REQUEST, context
from tests.doubles.clock import ManualClock
from tests.storage.logs import batch

logger = logging.getLogger(REQUEST_LOGGER)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    level = logger.level
    yield
    logger.setLevel(level)


class World:
    """A dispatch whose heartbeats end in `outcome`, 3 ms after they began."""

    def __init__(self, outcome: Any) -> None:
        self.clock = ManualClock(1_000)

        @handles(HeartbeatRequest, NOTHING)
        def heartbeat(_: HeartbeatRequest, __: object) -> Any:
            self.clock.now_ms += 3
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        table = DispatchTable([heartbeat])
        self.dispatch: Dispatch | LoggedDispatch = Dispatch(table, TaskScope("requests"))
        self.plain = self.dispatch
        self.log = RequestLog(self.dispatch, self.clock, self._use)
        route = table.route(HeartbeatRequest.api_key, 4)
        assert route is not None
        self.route = route

    def _use(self, dispatch: Dispatch | LoggedDispatch) -> None:
        self.dispatch = dispatch

    def ask(self) -> Any:
        return self.dispatch.handle(self.route, REQUEST, context())


def test_it_is_in_nobodys_way_while_it_is_off() -> None:
    logger.setLevel(logging.WARNING)
    world = World(HeartbeatResponse(error_code=0))
    for level in ("DEBUG", "INFO", "TRACE", "WARN"):
        set_logger_level(REQUEST_LOGGER, level)
        assert isinstance(world.dispatch, LoggedDispatch) == (level in ("DEBUG", "TRACE"))
    assert world.dispatch is world.plain
    world.log.close()
    set_logger_level(REQUEST_LOGGER, "DEBUG")
    assert world.dispatch is world.plain


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (HeartbeatResponse(error_code=0), "answered"),
        (HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID), "FENCED_INSTANCE_ID"),
        (KafkaError(ErrorCode.NOT_COORDINATOR), "NOT_COORDINATOR"),
        (CloseConnection("malformed"), "closed"),
        (None, "unanswered"),
    ],
)
def test_a_line_of_each_outcome(caplog: pytest.LogCaptureFixture, outcome: object, told: str) -> None:
    with caplog.at_level(logging.DEBUG, REQUEST_LOGGER):
        world = World(outcome)
        world.ask()
    world.log.close()
    assert caplog.messages == [
        "request done: api=Heartbeat version=4 correlation_id=1 client_id='tester' principal='User:ANONYMOUS' "
        f"address=127.0.0.1:5 listener=PLAINTEXT duration_us=3000 outcome={told}"
    ]


def test_contents_are_in_the_line_at_trace(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(TRACE, REQUEST_LOGGER):
        world = World(HeartbeatResponse(error_code=0))
        world.ask()
    world.log.close()
    (line,) = caplog.messages
    assert 'request={"group_id":"g","generation_id":1,"member_id":"m"' in line
    assert line.endswith('response={"throttle_time_ms":0,"error_code":0}')


def test_a_response_that_comes_later_is_logged_when_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    later: Deferred[Any] = Deferred(is_barrier=True)
    with caplog.at_level(logging.DEBUG, REQUEST_LOGGER):
        world = World(later)
        outcome = world.ask()
        assert isinstance(outcome, Deferred) and outcome.is_barrier and not caplog.messages
        released: list[bool] = []
        outcome.frame_owner = SimpleNamespace(release_frame=lambda: released.append(True))
        later.release_frame()
        response = HeartbeatResponse(error_code=0)
        later.complete(response)
        seen: list[object] = []
        outcome.then(seen.append)
    world.log.close()
    assert released and seen == [response]
    assert "outcome=answered" in caplog.messages[0]


def test_a_request_whose_client_has_gone_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    later: Deferred[Any] = Deferred()
    ended: list[str] = []
    later.on_abandon(lambda: ended.append("abandoned"))
    later.on_expedite(lambda: ended.append("expedited"))
    with caplog.at_level(logging.DEBUG, REQUEST_LOGGER):
        world = World(later)
        outcome = world.ask()
        outcome.expedite()
        outcome.abandon()
        later.complete(HeartbeatResponse(error_code=0))
    world.log.close()
    assert ended == ["expedited", "abandoned"]
    (line,) = caplog.messages
    assert "outcome=abandoned" in line


def test_a_barrier_whose_client_has_gone_completes_with_its_handler(caplog: pytest.LogCaptureFixture) -> None:
    """The bytes of its frame are counted until then."""
    working: Deferred[Any] = Deferred(is_barrier=True)
    released: list[object] = []
    with caplog.at_level(logging.DEBUG, REQUEST_LOGGER):
        world = World(working)
        outcome = world.ask()
        outcome.abandon()
        outcome.then(released.append)
        assert not released
        working.complete(HeartbeatResponse(error_code=0))
    world.log.close()
    assert released


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_requests_that_repeat_are_answered_and_logged_like_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, acks: int
) -> None:
    logs: list[RequestLog] = []

    async def scenario(both: Twins) -> None:
        for side in both.sides:
            shared = side.broker.shared
            assert isinstance(shared.dispatch, Dispatch)
            logs.append(RequestLog(shared.dispatch, side.broker.clock, shared.dispatch_through))
        await teach(both, 9, acks=acks)
        for length in (1, 30, 200):
            both.send(both.frame(request_of(batch("x" * length), index=length % 2, acks=acks), 9))
        await both.compare()
        assert both.short_count == 3

    with caplog.at_level(TRACE, REQUEST_LOGGER):
        on_twins(tmp_path, scenario)
    for each in logs:
        each.close()
    lines = [line for line in caplog.messages if line.startswith("request done: api=Produce version=9 ")]
    assert len(lines) == 2 * 5
    assert all(f"outcome={'answered' if acks else 'unanswered'}" in line and '"acks":' in line for line in lines)
