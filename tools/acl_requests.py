"""Describes, creates and deletes ACLs over the wire.

Rules: requests are sent as messages, because librdkafka's client knows neither delegation tokens nor users as resources, and
kafka-python's hides what brokers say about an error.
Source: KIP-11, KIP-140, KIP-290; kafka-acls.sh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.cluster import Cluster
from tools.failures import Failure, with_hint


@dataclass(frozen=True, order=True, slots=True)
class Acl:
    """An ACL, or what ACLs are looked for by: then None and "any" leave a part open. Words as `barnabas acls` shows them."""

    resource_type: str = "any"
    resource: str | None = None
    pattern: str = "any"
    principal: str | None = None
    host: str | None = None
    operation: str = "any"
    permission: str = "any"


def described(cluster: Cluster, asked: Acl) -> list[Acl]:
    """Return the ACLs that match. Raises Failure, and the client's errors."""
    from kafka.protocol.admin import DescribeAclsRequest  # noqa: PLC0415

    response = _send(cluster, DescribeAclsRequest(**_filter(asked)))
    _check(response.error_code, response.error_message)
    return [
        _acl(found.resource_type, found.resource_name, found.pattern_type, acl)
        for found in response.resources
        for acl in found.acls
    ]


def created(cluster: Cluster, wanted: Sequence[Acl]) -> None:
    """Raises Failure for the first that was refused, and the client's errors."""
    from kafka.protocol.admin import CreateAclsRequest  # noqa: PLC0415

    types, patterns, operations, permissions = _constants()
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=types[_constant(acl.resource_type)],
            resource_name=acl.resource,
            resource_pattern_type=patterns[_constant(acl.pattern)],
            principal=acl.principal,
            host=acl.host,
            operation=operations[_constant(acl.operation)],
            permission_type=permissions[_constant(acl.permission)],
        )
        for acl in wanted
    ]
    for result in _send(cluster, CreateAclsRequest(creations=creations)).results:
        _check(result.error_code, result.error_message)


def deleted(cluster: Cluster, asked: Acl) -> list[Acl]:
    """Return the ACLs that matched and are deleted. Raises Failure, and the client's errors."""
    from kafka.protocol.admin import DeleteAclsRequest  # noqa: PLC0415

    filters = [DeleteAclsRequest.DeleteAclsFilter(**_filter(asked))]
    (result,) = _send(cluster, DeleteAclsRequest(filters=filters)).filter_results
    _check(result.error_code, result.error_message)
    for acl in result.matching_acls:
        _check(acl.error_code, acl.error_message)
    return [_acl(acl.resource_type, acl.resource_name, acl.pattern_type, acl) for acl in result.matching_acls]


def _filter(asked: Acl) -> dict[str, Any]:
    """Return the fields of a filter."""
    types, patterns, operations, permissions = _constants()
    return {
        "resource_type_filter": types[_constant(asked.resource_type)],
        "resource_name_filter": asked.resource,
        "pattern_type_filter": patterns[_constant(asked.pattern)],
        "principal_filter": asked.principal,
        "host_filter": asked.host,
        "operation": operations[_constant(asked.operation)],
        "permission_type": permissions[_constant(asked.permission)],
    }


def _acl(resource_type: int, resource: str, pattern: int, acl: Any) -> Acl:
    types, patterns, operations, permissions = _constants()
    return Acl(
        _word(types(resource_type)),
        resource,
        _word(patterns(pattern)),
        acl.principal,
        acl.host,
        _word(operations(acl.operation)),
        _word(permissions(acl.permission_type)),
    )


def _constants() -> tuple[Any, Any, Any, Any]:
    from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourceType  # noqa: PLC0415

    return ResourceType, ACLResourcePatternType, ACLOperation, ACLPermissionType


def _constant(text: str) -> str:
    return text.upper().replace("-", "_")


def _word(constant: Any) -> str:
    name: str = constant.name
    return name.lower().replace("_", "-")


def _send(cluster: Cluster, request: Any) -> Any:
    manager = cluster.other_admin._manager  # noqa: SLF001  the client has these messages, and hides their errors
    return manager.run(manager.send, request)


def _check(error_code: int, message: str | None) -> None:
    """Raises Failure."""
    if error_code:
        from kafka.errors import for_code  # noqa: PLC0415

        raise Failure(with_hint(str(for_code(error_code).message), message))
