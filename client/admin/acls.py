"""ACLs: list, create, delete. Pure.

Source: KIP-11, KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from client.admin.steps import Steps, ask, error_of
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from security.access import Operation, ResourceType
from security.acls.entries import ANY, PatternType, PermissionType

_ANY = "any"


@dataclass(frozen=True, order=True, slots=True)
class AclWords:
    """An ACL, or what ACLs are looked for by: then None and "any" leave a part open. Words are Kafka's names in small letters
    with dashes, such as "transactional-id"."""

    resource_type: str = _ANY
    resource: str | None = None
    pattern: str = _ANY
    principal: str | None = None
    host: str | None = None
    operation: str = _ANY
    permission: str = _ANY


def describe(filter_: AclWords) -> Steps[list[AclWords]]:
    """Return the ACLs that match. Raises KafkaError."""
    response = yield from ask(DescribeAclsRequest(**_filter(filter_)))
    return [
        _acl(found.resource_type, found.resource_name, found.pattern_type, acl)
        for found in response.resources
        for acl in found.acls
    ]


def create(wanted: Sequence[AclWords]) -> Steps[None]:
    """Raises KafkaError for the first that was refused."""
    creations = [
        AclCreation(
            resource_type=_code(ResourceType, acl.resource_type),
            resource_name=acl.resource or "",
            resource_pattern_type=_code(PatternType, acl.pattern),
            principal=acl.principal or "",
            host=acl.host or "",
            operation=_code(Operation, acl.operation),
            permission_type=_code(PermissionType, acl.permission),
        )
        for acl in wanted
    ]
    response = yield from ask(CreateAclsRequest(creations=creations))
    _check(response.results)


def delete(filter_: AclWords) -> Steps[list[AclWords]]:
    """Return the ACLs that matched and are deleted. Raises KafkaError."""
    response = yield from ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter(filter_))]))
    _check(response.filter_results)
    matching = [acl for result in response.filter_results for acl in result.matching_acls]
    _check(matching)
    return [_acl(acl.resource_type, acl.resource_name, acl.pattern_type, acl) for acl in matching]


def _check(rows: Sequence[Any]) -> None:
    """Raises KafkaError."""
    for row in rows:
        error = error_of(row)
        if error is not None:
            raise error


def _filter(acl: AclWords) -> dict[str, Any]:
    return {
        "resource_type_filter": _code(ResourceType, acl.resource_type),
        "resource_name_filter": acl.resource,
        "pattern_type_filter": _code(PatternType, acl.pattern),
        "principal_filter": acl.principal,
        "host_filter": acl.host,
        "operation": _code(Operation, acl.operation),
        "permission_type": _code(PermissionType, acl.permission),
    }


def _acl(resource_type: int, resource: str, pattern: int, acl: Any) -> AclWords:
    return AclWords(
        _word(ResourceType, resource_type),
        resource,
        _word(PatternType, pattern),
        acl.principal,
        acl.host,
        _word(Operation, acl.operation),
        _word(PermissionType, acl.permission_type),
    )


def _code(codes: type[IntEnum], word: str) -> int:
    return ANY if word == _ANY else codes[word.upper().replace("-", "_")]


def _word(codes: type[IntEnum], code: int) -> str:
    """Return a word for a code, "unknown" for one of a newer broker."""
    return codes(code).name.lower().replace("_", "-") if code in codes._value2member_map_ else "unknown"
