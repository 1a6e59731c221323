"""From the codes of ACL requests to ACLs and filters, and back. Pure.

Rules: a code of 0 closes the connection, as in Kafka, where it is a request that no client can make. In a filter, an
unknown code selects nothing. To create an ACL takes exact types.
Source: Kafka CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest (normalizeAndValidate), AclApis, SecurityUtils.
"""

from __future__ import annotations

from broker.network.responses.deferred import CloseConnection
from metadata.store.acls import is_possible_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_acls import AclCreation
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
from protocol.messages.describe_acls import DescribeAclsRequest
from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.entries import (
    ANY,
    AclBinding,
    AclEntry,
    AclFilter,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from security.principal import Principal

UNKNOWN = 0
_RESOURCE_TYPES = frozenset(map(int, ResourceType))
_PATTERN_TYPES = frozenset(map(int, PatternType))
_OPERATIONS = frozenset(map(int, Operation))
_PERMISSIONS = frozenset(map(int, PermissionType))
_IN_FILTERS = frozenset((PatternType.ANY, PatternType.MATCH))


def acl_name(row: AclCreation | DeleteAclsMatchingAcl, pattern_type: int) -> str:
    """Return what the audit log calls an ACL."""
    resource_type, pattern = _code_name(ResourceType, row.resource_type), _code_name(PatternType, pattern_type)
    operation, permission = _code_name(Operation, row.operation), _code_name(PermissionType, row.permission_type)
    return f"{resource_type}:{pattern}:{row.resource_name} {row.principal} {row.host} {operation} {permission}"


def _code_name(codes: type[ResourceType | Operation | PermissionType | PatternType], code: int) -> str:
    return codes(code).name if code in codes._value2member_map_ else str(code)


def check_known(api_name: str, *codes: int) -> None:
    """Raises CloseConnection for the code of an unknown type, operation or permission."""
    if UNKNOWN in codes:
        raise CloseConnection(f"{api_name} with an unknown type, operation or permission")


def acl_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | None:
    """Return the filter; None if it selects nothing, by an unknown code."""
    if (
        asked.resource_type_filter not in _RESOURCE_TYPES | {ANY}
        or asked.pattern_type_filter not in _PATTERN_TYPES
        or asked.operation not in _OPERATIONS | {ANY}
        or asked.permission_type not in _PERMISSIONS | {ANY}
    ):
        return None
    return AclFilter(
        PatternFilter(asked.resource_type_filter, asked.resource_name_filter, asked.pattern_type_filter),
        EntryFilter(asked.principal_filter, asked.host_filter, asked.operation, asked.permission_type),
    )


def check_is_exact(creation: AclCreation) -> None:
    """Raises KafkaError for a code that only filters have: such a request is refused as a whole."""
    if (
        ANY in (creation.resource_type, creation.operation, creation.permission_type)
        or creation.resource_pattern_type in _IN_FILTERS
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "An ACL to create must not have ANY or MATCH.")


def new_acl(creation: AclCreation) -> AclBinding:
    """Return the ACL. Raises KafkaError for one that cannot be."""
    name = creation.resource_name
    if creation.resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    if (
        creation.resource_type not in _RESOURCE_TYPES
        or creation.resource_pattern_type not in _PATTERN_TYPES
        or creation.operation not in _OPERATIONS
        or creation.permission_type not in _PERMISSIONS
        or not is_possible_name(name)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
    try:
        principal = Principal.parse(creation.principal)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    pattern = ResourcePattern(ResourceType(creation.resource_type), name, PatternType(creation.resource_pattern_type))
    operation, permission = Operation(creation.operation), PermissionType(creation.permission_type)
    return AclBinding(pattern, AclEntry(principal, creation.host, operation, permission))
