"""Admission by access rows: what is refused, in which form, on both paths, in which order; an ACL that is gone stops the next
request."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from broker.handlers import ALL
from broker.network.admission import AccessAdmission
from broker.network.connections.client_connection import ClientConnection
from broker.network.gate import BrokerGate, Gate, NoMeter, OpenGate, Refusal
from broker.network.request_context import RequestContext
from broker.network.routes import Handler, Route
from broker.observability.audit import AuditLog
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceResponse
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.schema import Request
from runtime.network.transport import Address
from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclEntry, PatternType, PermissionType, ResourcePattern
from security.principal import ANONYMOUS
from tests.broker.handlers.records.produce_twins import Twins, error_of, on_twins, request_of, teach
from tests.broker.harness import Broker
from tests.broker.recorded_requests import Log, V, filled, produce_of
from tests.storage.logs import batch

HERE = Address("127.0.0.1", 9092)


def give(authorizer: AclAuthorizer, resource_type: ResourceType, name: str, *operations: Operation) -> None:
    """Nobody's rights on a resource: these, and no others."""
    entries = [AclEntry(ANONYMOUS, "*", operation, PermissionType.ALLOW) for operation in operations]
    authorizer.replace(ResourcePattern(resource_type, name, PatternType.LITERAL), entries)


def context_with(authorizer: AclAuthorizer, version: int) -> RequestContext:
    class _Services:
        audit = AuditLog()

    services: Any = _Services()
    services.authorizer = authorizer
    return RequestContext(version, 1, "test", ClientConnection("1", "L", "PLAINTEXT", HERE, HERE, ANONYMOUS), services)


def admitted(handler: Handler[Any], request: Request, authorizer: AclAuthorizer) -> ErrorCode:
    route = Route(handler, handler.last_version)
    refusal = AccessAdmission().admit(route, request, context_with(authorizer, handler.last_version))
    return ErrorCode.NONE if refusal is None else refusal.error


def handler_of(api_name: str) -> Handler[Any]:
    return next(handler for handler in ALL if handler.api_name == api_name)


NAMED = [
    pytest.param(handler, version, id=f"{handler.api_name}-{version}")
    for handler in ALL
    if any(not requirement.is_filtered for requirement in handler.access)
    for version in range(handler.first_version, handler.last_version + 1)
]


@pytest.mark.parametrize(("handler", "version"), NAMED)
def test_whatever_is_refused_gets_a_response_with_the_error(handler: Handler[Any], version: int) -> None:
    request = filled(handler.request_type)
    for field in ("group_id", "transactional_id"):
        if getattr(request, field, "") is None:
            setattr(request, field, "tx")
    first = next(requirement for requirement in handler.access if not requirement.is_filtered)
    assert admitted(handler, request, AclAuthorizer()) is first.denied
    response = handler.errors(request, version, first.denied, first.denied.message)
    assert response is not None
    assert response.encode(version)


def test_one_of_several_operations_is_enough_and_one_denial_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    handler, request = handler_of("WriteTxnMarkers"), WriteTxnMarkersRequest(markers=[])
    for operation in (Operation.ALTER, Operation.CLUSTER_ACTION):
        authorizer = AclAuthorizer()
        give(authorizer, ResourceType.CLUSTER, CLUSTER_NAME, operation)
        assert admitted(handler, request, authorizer) is ErrorCode.NONE
    caplog.set_level(logging.INFO)
    assert admitted(handler, request, AclAuthorizer()) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (line,) = [record.getMessage() for record in caplog.records if "operation denied" in record.getMessage()]
    assert "operation=CLUSTER_ACTION" in line
    assert "api=WriteTxnMarkers" in line


def test_the_first_requirement_that_fails_refuses() -> None:
    handler = handler_of("AddOffsetsToTxn")
    request = handler.request_type(transactional_id="tx", producer_id=1, producer_epoch=0, group_id="g")
    authorizer = AclAuthorizer()
    assert admitted(handler, request, authorizer) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    give(authorizer, ResourceType.TRANSACTIONAL_ID, "tx", Operation.WRITE)
    assert admitted(handler, request, authorizer) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    give(authorizer, ResourceType.GROUP, "g", Operation.READ)
    assert admitted(handler, request, authorizer) is ErrorCode.NONE


def test_what_a_request_does_not_name_is_not_checked() -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    assert admitted(handler_of("InitProducerId"), request, AclAuthorizer()) is ErrorCode.NONE, "its handler checks"
    request.transactional_id = ""
    assert admitted(handler_of("InitProducerId"), request, AclAuthorizer()) is not ErrorCode.NONE


def test_an_acl_that_is_gone_refuses_the_next_request() -> None:
    handler, authorizer = handler_of("EndTxn"), AclAuthorizer()
    request = EndTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=0, committed=True)
    for operations, error in (
        ((), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((Operation.WRITE,), ErrorCode.NONE),
        ((Operation.DESCRIBE,), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ):
        give(authorizer, ResourceType.TRANSACTIONAL_ID, "tx", *operations)
        assert admitted(handler, request, authorizer) is error


def gate() -> Gate:
    return BrokerGate(admission=AccessAdmission(), charging=OpenGate(), meter=NoMeter())


@pytest.mark.parametrize("version", [5, 8, 9, 11])
def test_an_acl_that_is_gone_stops_the_next_produce_on_both_paths(tmp_path: Path, version: int) -> None:
    authorizer = AclAuthorizer()
    give(authorizer, ResourceType.TOPIC, "t", Operation.WRITE)

    async def scenario(both: Twins) -> None:
        await teach(both, version)
        both.send(both.frame(request_of(batch("a")), version))
        await both.compare()
        assert both.short_count == 1
        give(authorizer, ResourceType.TOPIC, "t", Operation.DESCRIBE)
        both.send(*(both.frame(request_of(batch(each)), version) for each in ("b", "c")))
        answers = await both.compare()
        assert both.short_count == 1, "the slow path has refused both"
        assert [error_of(each, version) for each in answers[-2:]] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
        give(authorizer, ResourceType.TOPIC, "t", Operation.WRITE)
        both.send(both.frame(request_of(batch("d")), version))
        answers = await both.compare()
        assert both.short_count == 2
        assert error_of(answers[-1], version) == ErrorCode.NONE

    on_twins(tmp_path, scenario, make_gate=gate, authorizer=authorizer)


def test_a_refused_produce_without_acknowledgement_closes_the_connection(tmp_path: Path) -> None:
    authorizer = AclAuthorizer()
    give(authorizer, ResourceType.TOPIC, "t", Operation.WRITE)

    async def scenario(both: Twins) -> None:
        await teach(both, 9, acks=0)
        both.send(both.frame(request_of(batch("a"), acks=0), 9))
        await both.compare()
        assert both.short_count == 1
        give(authorizer, ResourceType.TOPIC, "t")
        both.send(both.frame(request_of(batch("b"), acks=0), 9))
        await both.compare()
        assert both.short_count == 1
        assert all(side.peer.stream.is_closed for side in both.sides)

    on_twins(tmp_path, scenario, make_gate=gate, authorizer=authorizer)


def test_a_refusal_waits_for_the_responses_before_it() -> None:
    """Of requests in flight, the responses come in their order, whichever is refused."""
    log = Log()

    class _Second:
        count = 0

        def admit(self, _route: Route, _request: Request, context: RequestContext) -> Any:
            self.count += 1
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return None if self.count != 2 else Refusal(denied)

    peer = Broker(log.handlers, gate=BrokerGate(admission=_Second(), charging=OpenGate(), meter=NoMeter())).connect()
    for records in (b"waits", b"refused", b"follows"):
        peer.send(produce_of(records, timeout_ms=int(records == b"waits")), V)
    assert log.started == ["produce 0", "produce 1"]
    assert peer.answers() == []
    log.finish(0)
    peer.go_on()
    rows = [each.responses[0].partition_responses[0] for each in peer.answers() if isinstance(each, ProduceResponse)]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (denied, -1), (0, 1)]
