"""Authorized operations: the bits of each type of resource, and who may see those of the cluster."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.handlers.authorized_operations import (
    APPLICABLE,
    NOT_DESCRIBED,
    authorized_operations,
    cluster_operations,
)
from broker.network.client_connection import ClientConnection
from broker.network.request_context import RequestContext
from broker.observability.audit import AuditLog
from runtime.network.transport import Address
from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclEntry, PatternType, PermissionType, ResourcePattern
from security.authorizer import Authorizer, EverybodyAllowed
from security.principal import ANONYMOUS

HERE = Address("127.0.0.1", 9092)


def context_with(authorizer: Authorizer) -> RequestContext:
    services = cast(Any, SimpleNamespace(authorizer=authorizer, audit=AuditLog()))
    return RequestContext(9, 1, "test", ClientConnection("1", "L", "PLAINTEXT", HERE, HERE, ANONYMOUS), services)


def allowing(resource_type: ResourceType, name: str, *operations: Operation) -> AclAuthorizer:
    authorizer = AclAuthorizer()
    entries = [AclEntry(ANONYMOUS, "*", each, PermissionType.ALLOW) for each in operations]
    authorizer.replace(ResourcePattern(resource_type, name, PatternType.LITERAL), entries)
    return authorizer


def bits(*operations: Operation) -> int:
    return sum(1 << each for each in operations)


@pytest.mark.parametrize(
    ("resource_type", "expected"),
    [
        (ResourceType.TOPIC, 0b1101_1111_1000),
        (ResourceType.GROUP, 0b1_0100_1000),
        (ResourceType.CLUSTER, 0b1_1111_1010_0000),
    ],
)
def test_everybody_may_everything_that_applies(resource_type: ResourceType, expected: int) -> None:
    assert authorized_operations(context_with(EverybodyAllowed()), resource_type, "r") == expected
    assert bits(*APPLICABLE[resource_type]) == expected


def test_a_client_sees_its_own_operations_with_those_they_imply() -> None:
    authorizer = allowing(ResourceType.TOPIC, "t", Operation.WRITE, Operation.ALTER_CONFIGS)
    found = authorized_operations(context_with(authorizer), ResourceType.TOPIC, "t")
    assert found == bits(Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert authorized_operations(context_with(authorizer), ResourceType.TOPIC, "other") == 0


def test_who_may_not_describe_the_cluster_sees_none_of_its_operations(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    action = allowing(ResourceType.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION)
    assert cluster_operations(context_with(action)) == NOT_DESCRIBED
    denials = len(caplog.records)
    assert denials == 1, "of the description; what a client may do is no denial"
    both = allowing(ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER)
    assert cluster_operations(context_with(both)) == bits(Operation.ALTER, Operation.DESCRIBE)
    assert len(caplog.records) == denials
