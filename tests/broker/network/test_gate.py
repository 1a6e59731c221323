"""The gate: every request is admitted and charged once, on the slow path and on the fast one, and no client can tell which."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import broker.handlers
from broker.handlers import ALL
from broker.network.dispatch import handles
from broker.network.gate import NoMeter, OpenGate, Refusal
from broker.network.request_context import RequestContext
from broker.network.routes import Handler, Route
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.schema import Request, Response
from security.access import CLUSTER_NAME, DENIED, Operation, ResourceType, on_each
from tests.broker.handlers.records.produce_twins import Twins, on_twins, request_of, teach
from tests.broker.harness import Broker
from tests.broker.recorded_requests import HEARTBEAT_V, Log, V, heartbeat_of, produce_of
from tests.storage.logs import batch


@dataclass
class RecordingGate:
    """Records what it is asked. Refuses while `refusal` is set; throttles by the next of `throttle_times_ms`."""

    refusal: Refusal | None = None
    throttle_times_ms: list[int] = field(default_factory=list)
    meter: NoMeter = field(default_factory=NoMeter)
    admitted: list[str] = field(default_factory=list)
    charged: list[tuple[str, int, bool]] = field(default_factory=list)

    def admit(self, route: Route, request: Request, context: RequestContext) -> Refusal | None:
        topics = [topic.name for topic in request.topic_data] if isinstance(request, ProduceRequest) else []
        self.admitted.append(f"{route.handler.api_name} {topics} of {context.client_id}")
        return self.refusal

    def charge(
        self, route: Route, context: RequestContext, request_bytes: int, response_bytes: int, _response: Response | None
    ) -> int:
        self.charged.append((f"{route.handler.api_name} of {context.client_id}", request_bytes, response_bytes > 0))
        return self.throttle_times_ms.pop(0) if self.throttle_times_ms else 0


@pytest.fixture
def gate() -> RecordingGate:
    return RecordingGate()


@pytest.fixture
def log() -> Log:
    return Log()


def test_every_request_is_admitted_and_charged_once(gate: RecordingGate, log: Log) -> None:
    peer = Broker(log.handlers, gate=gate).connect()
    sizes = []
    requests = [(heartbeat_of("g"), HEARTBEAT_V), (produce_of(b"now"), V), (produce_of(b"later", timeout_ms=1), V)]
    for request, version in requests:
        sizes.append(len(peer.frame(request, version)) - 4)
        peer.send(request, version)
    assert gate.charged == [("Heartbeat of tester", sizes[0], True), ("Produce of tester", sizes[1], True)]
    log.finish(1)
    peer.go_on()
    assert gate.charged[2:] == [("Produce of tester", sizes[2], True)]
    assert gate.admitted == ["Heartbeat [] of tester", *["Produce ['t'] of tester"] * 2]


def test_a_request_without_response_is_charged(gate: RecordingGate, log: Log) -> None:
    peer = Broker(log.handlers, gate=gate).connect()
    peer.send_bytes(frame := peer.frame(produce_of(b"x", acks=0), V))
    assert gate.charged == [("Produce of tester", len(frame) - 4, False)]


def test_a_refused_request_does_not_reach_its_handler(gate: RecordingGate, log: Log) -> None:
    gate.refusal = Refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    peer = Broker(log.handlers, gate=gate).connect()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    [response] = peer.answers()
    assert isinstance(response, HeartbeatResponse)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert log.started == []
    assert len(gate.charged) == 1


def test_a_throttled_client_learns_it_and_is_muted(gate: RecordingGate, log: Log) -> None:
    gate.throttle_times_ms = [300]
    broker = Broker(log.handlers, gate=gate)
    peer = broker.connect()
    peer.send(heartbeat_of("a"), HEARTBEAT_V)
    [response] = peer.answers()
    assert isinstance(response, HeartbeatResponse)
    assert response.throttle_time_ms == 300
    peer.send(heartbeat_of("b"), HEARTBEAT_V)
    assert log.started == ["heartbeat a"]
    broker.turns.advance(299)
    assert log.started == ["heartbeat a"]
    broker.turns.advance(1)
    peer.go_on()
    assert log.started == ["heartbeat a", "heartbeat b"]
    assert len(peer.answers()) == 1


def test_a_muted_client_gets_the_responses_of_requests_that_have_started(gate: RecordingGate, log: Log) -> None:
    gate.throttle_times_ms = [500]
    broker = Broker(log.handlers, gate=gate)
    peer = broker.connect()
    for records in (b"first", b"second"):
        peer.send(produce_of(records, timeout_ms=1), V)
    log.finish(1)
    log.finish(0)
    peer.go_on()
    throttled = [response.throttle_time_ms for response in peer.answers() if isinstance(response, ProduceResponse)]
    assert throttled == [0, 500], "the second was complete first"


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("version", [5, 8, 9, 11])
def test_both_paths_pass_the_gate(tmp_path: Path, version: int, acks: int) -> None:
    gates = [RecordingGate(), RecordingGate()]
    made = iter(gates)

    async def scenario(both: Twins) -> None:
        await teach(both, version, acks=acks)
        both.send(*(both.frame(request_of(batch("a"), acks=acks), version) for _ in range(3)))
        await both.compare()
        assert both.short_count == 3
        for gate in gates:
            gate.throttle_times_ms = [70]
        both.send(both.frame(request_of(batch("b"), acks=acks), version))
        both.send(both.frame(request_of(batch("c"), acks=acks), version))
        await both.compare()
        assert both.short_count == 4, "muted: the second has not started"
        for side in both.sides:
            side.broker.turns.advance(70)
        await both.compare()
        assert both.short_count == 5
        assert gates[0].charged == gates[1].charged
        assert gates[0].admitted == gates[1].admitted == ["Produce ['t'] of client"] * 7

    on_twins(tmp_path, scenario, make_gate=lambda: next(made))


def test_the_fast_path_leaves_a_refusal_to_the_slow_one(tmp_path: Path) -> None:
    gates = [RecordingGate(), RecordingGate()]
    made = iter(gates)

    async def scenario(both: Twins) -> None:
        await teach(both, 9)
        for gate in gates:
            gate.refusal = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        both.send(both.frame(request_of(batch("a")), 9))
        await both.compare()
        assert both.short_count == 0

    on_twins(tmp_path, scenario, make_gate=lambda: next(made))


def test_the_open_gate_lets_everything_through(log: Log) -> None:
    peer = Broker(log.handlers, gate=OpenGate()).connect()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    assert len(peer.answers()) == 1


# What anybody who is connected may ask, as in Apache Kafka.
# The owner of a token and its renewers may renew it and end it. What is refused to everybody needs no right.
OPEN_APIS = {
    *("ApiVersions", "DescribeCluster", "SaslAuthenticate", "SaslHandshake"),
    *("ExpireDelegationToken", "RenewDelegationToken"),
    *("Envelope", "GetTelemetrySubscriptions", "PushTelemetry"),
}


def test_every_api_says_what_it_needs() -> None:
    for handler in ALL:
        assert bool(handler.access) is (handler.api_name not in OPEN_APIS), handler.api_name
        for requirement in handler.access:
            assert requirement.denied is DENIED[requirement.resource_type]
            assert requirement.operations


def test_a_handler_takes_the_rights_that_it_declares() -> None:
    needs = on_each(Operation.READ, ResourceType.TOPIC)
    with pytest.raises(AssertionError, match="takes no 3 parameters"):
        handles(HeartbeatRequest, needs)(lambda request, context: None)


@pytest.mark.parametrize("handler", [each for each in ALL if each.filtered], ids=lambda each: each.function.__name__)
def test_every_right_that_a_handler_takes_decides_something(handler: Handler[Any]) -> None:
    """And there is no other way to ask: what a handler does not declare it cannot filter by."""
    module = inspect.getmodule(handler.function)
    assert module is not None
    [function] = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == handler.function.__name__
    ]
    taken = {each.arg for each in function.args.args[2 : 2 + len(handler.filtered)]}
    assert taken <= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}


def test_handlers_ask_for_no_rights_themselves() -> None:
    """Which operations a client may do is an answer of three APIs, about what nobody has asked to do."""
    asking = [
        path.stem
        for path in Path(broker.handlers.__file__).parent.rglob("*.py")
        if re.search(r"\bcontext\.(allows|allows_any|denial)\(|authorizer\.", path.read_text())
    ]
    assert set(asking) == {"authorized_operations", "fetch"}


def test_a_resource_that_a_request_names_is_found_in_it() -> None:
    """The names come from fields, which must exist."""
    for handler in ALL:
        request = handler.request_type.__new__(handler.request_type)
        for field_ in handler.request_type.__fields__:
            setattr(request, field_.name, field_.name)
        for requirement in handler.access:
            name = requirement.name_of(request)
            if requirement.is_filtered:
                assert name is None
            elif requirement.resource_type is ResourceType.CLUSTER:
                assert name == CLUSTER_NAME
            else:
                assert name in ("group_id", "transactional_id")


def test_codes_are_those_of_kafka() -> None:
    assert [operation.value for operation in Operation] == list(range(2, 15))
    assert [kind.value for kind in ResourceType] == list(range(2, 8))
