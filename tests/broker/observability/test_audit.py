"""The audit log says who was denied what and who has changed what, and has no secret."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.handlers import ALL
from broker.network.connections.client_connection import ClientConnection
from broker.network.request_context import RequestContext
from broker.network.routes import Handler
from broker.observability import audit as audit_module
from broker.observability.audit import RESOURCES_PER_LINE, AuditLog
from broker.observability.audit_file import AuditFile
from broker.services import Services
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.schema import Request, Response
from runtime.clock import SystemClock
from runtime.network.transport import Address
from security.access import Operation, ResourceType
from security.authorizer import EverybodyAllowed
from security.denial import Cause, Denied
from security.principal import Principal
from tests.broker.recorded_requests import filled
from tests.doubles.clock import ManualClock

HANDLERS = {handler.api_name: handler for handler in ALL}
CHANGES = {Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CREATE_TOKENS}
SECRET = "hunter2"
ALICE = Principal("User", "alice")


class Lines:
    """A file of the audit log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)


def log(lines: Lines) -> AuditLog:
    return AuditLog(ManualClock(wall_ahead_ms=1_700_000_000_123), cast(AuditFile, lines))


def context(client_id: str = "app") -> RequestContext:
    connection = ClientConnection(
        "1", "EXTERNAL", "SASL_SSL", Address("10.0.0.1", 5), Address("127.0.0.1", 9092), ALICE
    )
    return RequestContext(
        3, 1, client_id, connection, cast(Services, SimpleNamespace(clock=SystemClock(), authorizer=EverybodyAllowed()))
    )


def handle(lines: Lines, request: Request, response: Response | Exception) -> Response:
    """Return what the audited handler of a request returns, whose own handler returns or raises `response`."""

    async def own(_request: Any, _context: RequestContext, *_rights: Any) -> Response:
        await asyncio.sleep(0)
        if isinstance(response, Exception):
            raise response
        return response

    [audited] = log(lines).audited([replace(HANDLERS[request.api_name], function=own)])
    returned: Response = asyncio.run(audited(request, context()))
    return returned


HEAD = {
    "time": "2023-11-14T22:13:20.123Z",
    "event": "action",
    "principal": "User:alice",
    "address": "10.0.0.1",
    "listener": "EXTERNAL",
    "client_id": "app",
}


def test_an_action_has_who_what_and_its_results() -> None:
    lines = Lines()
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, assignments=[],
                configs=[CreatableTopicConfig(name="retention.ms", value=SECRET)],
            )
            for name in ("a", "b")
        ],
        timeout_ms=1000,
        validate_only=True,
    )  # fmt: skip
    results = [
        CreatableTopicResult(name="a", error_code=ErrorCode.NONE, error_message=None),
        CreatableTopicResult(name="b", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message=SECRET),
    ]
    response = CreateTopicsResponse(throttle_time_ms=0, topics=results)
    assert handle(lines, request, response) is response
    assert lines.lines == [
        HEAD
        | {
            "api": "CreateTopics", "operation": "CREATE", "resource_type": "TOPIC", "result": "NONE", "validate_only": True,
            "resources": [{"name": "a", "result": "NONE"}, {"name": "b", "result": "TOPIC_ALREADY_EXISTS"}],
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "result"),
    [(KafkaError(ErrorCode.NOT_CONTROLLER), "NOT_CONTROLLER"), (ZeroDivisionError(), "UNKNOWN_SERVER_ERROR")],
)
def test_a_request_that_fails_is_an_action_too(error: Exception, result: str) -> None:
    lines = Lines()
    with pytest.raises(type(error)):
        handle(lines, DeleteGroupsRequest(groups_names=["g", "h"]), error)
    [line] = lines.lines
    assert line["result"] == result
    assert line["resources"] == [{"name": "g", "result": result}, {"name": "h", "result": result}]


def test_a_response_that_fails_as_a_whole_names_what_was_asked_for() -> None:
    lines = Lines()
    request = OffsetDeleteRequest(group_id="g", topics=[])
    handle(
        lines, request, request.response_type(error_code=ErrorCode.GROUP_ID_NOT_FOUND, throttle_time_ms=0, topics=[])
    )
    assert (lines.lines[0]["result"], lines.lines[0]["resources"]) == ("GROUP_ID_NOT_FOUND", [])


def test_acls_are_told_in_full() -> None:
    lines = Lines()
    creation = AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=4, principal="User:bob", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    unknown = AclCreation(
        resource_type=99, resource_name="t", resource_pattern_type=9, principal="", host="", operation=99,
        permission_type=9,
    )  # fmt: skip
    results = [
        AclCreationResult(error_code=ErrorCode.NONE, error_message=""),
        AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=""),
    ]
    handle(
        lines, CreateAclsRequest(creations=[creation, unknown]), CreateAclsResponse(throttle_time_ms=0, results=results)
    )
    assert lines.lines[0]["resources"] == [
        {"name": "TOPIC:PREFIXED:t User:bob * READ ALLOW", "result": "NONE"},
        {"name": "99:9:t   99 9", "result": "INVALID_REQUEST"},
    ]


def test_a_large_request_has_several_lines_and_long_names_are_cut() -> None:
    lines = Lines()
    names = [f"{number}-{'x' * 1000}" for number in range(RESOURCES_PER_LINE * 2 + 1)]
    request = CreateTopicsRequest(topics=[], timeout_ms=1000, validate_only=False)
    results = [CreatableTopicResult(name=name, error_code=ErrorCode.NONE, error_message=None) for name in names]
    handle(lines, request, CreateTopicsResponse(throttle_time_ms=0, topics=results))
    assert [len(line["resources"]) for line in lines.lines] == [RESOURCES_PER_LINE, RESOURCES_PER_LINE, 1]
    written = [each["name"] for line in lines.lines for each in line["resources"]]
    assert [name.partition("-")[0] for name in written] == [str(number) for number in range(len(names))]
    assert max(map(len, written)) < 600
    assert "validate_only" not in lines.lines[0]


def test_a_failed_login_has_who_it_claimed_to_be_and_why() -> None:
    lines = Lines()
    log(lines).login_failed(context().connection, "authentication failed", mechanism="PLAIN", user="u" * 600)
    log(lines).login_failed(context().connection, "no certificate", mechanism="TLS")
    connection = context().connection
    assert [list(line.values())[1:] for line in lines.lines] == [
        [
            "login_failed",
            "u" * 512 + "...",
            connection.peer.host,
            connection.listener,
            "PLAIN",
            "authentication failed",
        ],
        ["login_failed", "", connection.peer.host, connection.listener, "TLS", "no certificate"],
    ]
    AuditLog().login_failed(connection, "without a file", mechanism="PLAIN")


def test_no_line_has_a_secret() -> None:
    lines = Lines()
    scram = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="bob", mechanism=1)],
        upsertions=[
            ScramCredentialUpsertion(
                name="carol", mechanism=1, iterations=4096, salt=SECRET.encode(), salted_password=SECRET.encode()
            )
        ],
    )
    users = [
        AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.NONE, error_message=SECRET)
        for user in ("bob", "carol")
    ]
    handle(lines, scram, AlterUserScramCredentialsResponse(throttle_time_ms=0, results=users))
    config = AlterableConfig(name="ssl.key.password", config_operation=0, value=SECRET)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    configs = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    row = AlterConfigsResourceResponse(error_code=0, error_message=SECRET, resource_type=4, resource_name="1")
    handle(lines, configs, IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=[row]))
    with pytest.raises(KafkaError):
        handle(lines, configs, KafkaError(ErrorCode.INVALID_CONFIG, SECRET))
    token = CreateDelegationTokenResponse(
        error_code=0, principal_type="User", principal_name="alice", token_requester_principal_type="User",
        token_requester_principal_name="alice", issue_timestamp_ms=0, expiry_timestamp_ms=0, max_timestamp_ms=0,
        token_id="id", hmac=SECRET.encode(), throttle_time_ms=0,
    )  # fmt: skip
    handle(lines, CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=1), token)
    assert SECRET not in repr(lines.lines)
    assert [[each["name"] for each in line["resources"]] for line in lines.lines] == [
        ["bob", "carol"], ["broker 1"], ["broker 1: ssl.key.password"], ["User:alice"],
    ]  # fmt: skip


def test_denials_are_in_the_log_and_in_the_file(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lines = Lines()
    asking = context("a\nb")
    asking.api_name = "Metadata"
    denial = Denied(ALICE, "10.0.0.1", Operation.DESCRIBE, ResourceType.TOPIC, "orders\n")
    log(lines).denied(asking, denial, lambda _denied: Cause())
    assert lines.lines == [
        HEAD
        | {
            "event": "denied", "client_id": "a\nb", "api": "Metadata", "operation": "DESCRIBE", "resource_type": "TOPIC",
            "resource": "orders\n",
            "resolution": "barnabas acls add --allow-principal User:alice --operation describe --topic 'orders\n'",
        }
    ]  # fmt: skip
    assert (
        "operation denied: principal='User:alice' operation=DESCRIBE resource_type=TOPIC resource_name='orders\\n' "
        "api=Metadata address=10.0.0.1 listener=EXTERNAL "
        "resolution=barnabas acls add --allow-principal User:alice --operation describe --topic 'orders\n'"
    ) in caplog.text


def test_denials_are_logged_up_to_a_limit_and_counted_beyond_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "DENIALS_PER_S", 3)
    caplog.set_level("INFO")
    clock, lines = ManualClock(5_000), Lines()
    audit = AuditLog(clock, cast(AuditFile, lines))
    for now_ms, logged in ((5_000, 3), (5_999, 0), (6_000, 3), (7_000, 3)):
        clock.now_ms = now_ms
        caplog.clear()
        for _ in range(5):
            denial = Denied(ALICE, "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")
            audit.denied(context(), denial, lambda _denied: Cause())
        assert caplog.text.count("operation denied") == logged
        assert ("more operations denied, not shown: operations=7" in caplog.text) == (now_ms == 6_000)
    assert "more operations denied, not shown: operations=2" in caplog.text
    assert len(lines.lines) == 20, "the file has all"


def test_permissions_are_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog()
    caplog.set_level("INFO")
    assert not audit.logs_allowed
    caplog.set_level("DEBUG")
    assert audit.logs_allowed
    audit.allowed(context(), Operation.READ, ResourceType.GROUP, "g")
    assert "operation allowed: principal='User:alice' operation=READ resource_type=GROUP" in caplog.text


# --- the table ---


def test_every_api_that_changes_resources_is_audited() -> None:
    """Those that clients and brokers send all the time are none of administration."""
    changing = {each.api_name for each in ALL if CHANGES & {op for need in each.access for op in need.operations}}
    audited = {handler.api_name for handler in ALL if handler.audit is not None}
    assert changing - audited == {"Metadata", "WriteTxnMarkers"}
    no_right, right_to_read = {"RenewDelegationToken", "ExpireDelegationToken"}, {"AlterShareGroupOffsets"}
    assert audited - changing == no_right | right_to_read, "they change what whoever owns or reads it may change"


def test_only_handlers_of_administration_are_wrapped_and_only_with_a_file() -> None:
    assert AuditLog().audited(ALL) == list(ALL)
    audited = log(Lines()).audited(ALL)
    for before, after in zip(ALL, audited, strict=True):
        assert (after is before) == (before.audit is None)
        if after is not before:
            assert inspect.iscoroutinefunction(before.function), "a wrapped handler is awaited"
            assert after.access == before.access


@pytest.mark.parametrize("handler", [each for each in ALL if each.audit], ids=lambda handler: handler.api_name)
def test_each_row_reads_its_messages(handler: Handler[Any]) -> None:
    assert handler.audit is not None
    request, response = filled(handler.request_type), filled(handler.request_type.response_type)
    for name in handler.audit.asked(request):
        assert isinstance(name, str)
    for name, code in handler.audit.done(request, response):
        assert isinstance(name, str)
        assert ErrorCode(code) is ErrorCode.NONE
