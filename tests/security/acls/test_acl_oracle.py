"""Decisions equal those of Apache Kafka's AclAuthorizer: as recorded, and of its class in a JVM."""

from __future__ import annotations

from typing import Any

import pytest

from security.access import Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclEntry, PatternType, PermissionType, ResourcePattern
from security.principal import Principal
from tests.oracle import acl_decisions, java


def decisions(case: dict[str, Any]) -> str:
    super_users = [Principal.parse(text) for text in case["super_users"]]
    authorizer = AclAuthorizer(super_users, allows_without_acl=case["everyone"])
    for kind, name, pattern_type, principal, host, operation, permission in case["acls"]:
        pattern = ResourcePattern(ResourceType(kind), name, PatternType(pattern_type))
        entry = AclEntry(Principal.parse(principal), host, Operation(operation), PermissionType(permission))
        authorizer.replace(pattern, authorizer.acls.entries(pattern) | {entry})
    answers = []
    for principal, host, operation, kind, name in case["questions"]:
        asker = Principal.parse(principal), host, Operation(operation), ResourceType(kind)
        answers.append(authorizer.allows_any(*asker) if name is None else authorizer.allows(*asker, name))
    return "".join("1" if each else "0" for each in answers)


def test_decisions_are_those_of_apache_kafka() -> None:
    assert [decisions(case) for case in acl_decisions.cases()] == acl_decisions.recorded()


@pytest.mark.oracle
def test_the_recording_is_true() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    assert acl_decisions.ask() == acl_decisions.recorded()
