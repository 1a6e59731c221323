"""The APIs of administration, for the audit log: what a request is about, and what became of it. Pure.

Rules: names only. What is secret (credentials, values of settings, HMACs of tokens) is not read.
Invariant: every API that changes something other than records, offsets of members, and transactions has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.primitives import uuid_to_text
from protocol.schema import Request
from security.access import Operation, ResourceType
from security.acls.entries import PatternType, PermissionType

Names = Iterable[str]
Results = Iterable[tuple[str, int]]


class AuditedApi(NamedTuple):
    """`asked` returns the names in a request, `done` those in a request and its response, with their error codes."""

    operation: Operation
    kind: str
    asked: Callable[[Any], Names]
    done: Callable[[Any, Any], Results]


def _code_name(codes: type[ResourceType | Operation | PermissionType | PatternType], code: int) -> str:
    return codes(code).name if code in codes._value2member_map_ else str(code)


def _topic_name(row: Any) -> str:
    return row.name if row.name is not None else uuid_to_text(row.topic_id)


def _config_name(row: Any) -> str:
    kind = {2: "topic", 4: "broker", 8: "broker-logger"}.get(row.resource_type, str(row.resource_type))
    return f"{kind} {row.resource_name}"


def _config_asked(request: Any) -> Names:
    return (f"{_config_name(row)}: {', '.join(each.name for each in row.configs)}" for row in request.resources)


def _entity_name(row: Any) -> str:
    return " ".join(f"{each.entity_type} {each.entity_name or '<default>'}" for each in row.entity)


def _acl(row: Any, pattern_type: int) -> str:
    pattern = (
        f"{_code_name(ResourceType, row.resource_type)}:{_code_name(PatternType, pattern_type)}:{row.resource_name}"
    )
    operation, permission = _code_name(Operation, row.operation), _code_name(PermissionType, row.permission_type)
    return f"{pattern} {row.principal} {row.host} {operation} {permission}"


def _acl_filter(row: Any) -> str:
    return f"{row.resource_type_filter}:{row.pattern_type_filter}:{row.resource_name_filter} {row.principal_filter}"


def _created_acls(request: Any) -> Names:
    return (_acl(row, row.resource_pattern_type) for row in request.creations)


def _created_acl_results(request: Any, response: Any) -> Results:
    return zip(_created_acls(request), (row.error_code for row in response.results), strict=True)


def _deleted_acls(_request: Any, response: Any) -> Results:
    for result in response.filter_results:
        if result.error_code:
            yield "", result.error_code
        for row in result.matching_acls:
            yield _acl(row, row.pattern_type), row.error_code


def _partitions(topics: str, name: str, partitions: str, index: str | None) -> Callable[[Any], Names]:
    """Names of topics with their partitions, from a request."""

    def names(request: Any) -> Names:
        for topic in getattr(request, topics) or ():
            for row in getattr(topic, partitions):
                yield f"{getattr(topic, name)}-{row if index is None else getattr(row, index)}"

    return names


def _partition_results(
    topics: str, name: str = "name", partitions: str = "partitions", index: str = "partition_index"
) -> Callable[[Any, Any], Results]:
    def results(_request: Any, response: Any) -> Results:
        for topic in getattr(response, topics):
            for row in getattr(topic, partitions):
                yield f"{getattr(topic, name)}-{getattr(row, index)}", row.error_code

    return results


def _log_dirs(request: Any) -> Names:
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield f"{topic.name}-{index}"


def _rows(rows: str, name_of: Callable[[Any], str]) -> Callable[[Any], Names]:
    return lambda request: map(name_of, getattr(request, rows))


def _row_results(rows: str, name_of: Callable[[Any], str]) -> Callable[[Any, Any], Results]:
    return lambda _request, response: ((name_of(row), row.error_code) for row in getattr(response, rows))


def _deleted_offsets(request: Any, response: Any) -> Results:
    rows = list(_partition_results("topics")(request, response))
    return [(f"{request.group_id} {name}", code) for name, code in rows]


def _no_names(_request: Any) -> Names:
    return ()


def _token_owner(_request: Any, response: Any) -> Results:
    return [(f"{response.principal_type}:{response.principal_name}", response.error_code)]


def _as_a_whole(_request: Any, response: Any) -> Results:
    return [("", response.error_code)]


def _deleted_topics(request: Any) -> Names:
    return [*map(_topic_name, request.topics), *request.topic_names]


def _scram_users(request: Any) -> Names:
    return (row.name for rows in (request.deletions, request.upsertions) for row in rows)


def _name(row: Any) -> str:
    return str(row.name)


_CONFIG_RESULTS = _row_results("responses", _config_name)

_ROWS: dict[type[Request], AuditedApi] = {
    CreateTopicsRequest: AuditedApi(
        Operation.CREATE, "TOPIC", _rows("topics", _name), _row_results("topics", _name)
    ),
    DeleteTopicsRequest: AuditedApi(
        Operation.DELETE, "TOPIC", _deleted_topics, _row_results("responses", _topic_name)
    ),
    CreatePartitionsRequest: AuditedApi(
        Operation.ALTER, "TOPIC", _rows("topics", _name), _row_results("results", _name)
    ),
    DeleteRecordsRequest: AuditedApi(
        Operation.DELETE, "PARTITION", _partitions("topics", "name", "partitions", "partition_index"),
        _partition_results("topics"),
    ),
    AlterConfigsRequest: AuditedApi(Operation.ALTER_CONFIGS, "CONFIGS", _config_asked, _CONFIG_RESULTS),
    IncrementalAlterConfigsRequest: AuditedApi(
        Operation.ALTER_CONFIGS, "CONFIGS", _config_asked, _CONFIG_RESULTS
    ),
    CreateAclsRequest: AuditedApi(
        Operation.ALTER, "ACL", _created_acls, _created_acl_results
    ),
    DeleteAclsRequest: AuditedApi(Operation.ALTER, "ACL", _rows("filters", _acl_filter), _deleted_acls),
    AlterUserScramCredentialsRequest: AuditedApi(
        Operation.ALTER, "USER", _scram_users, _row_results("results", lambda row: row.user)
    ),
    AlterClientQuotasRequest: AuditedApi(
        Operation.ALTER_CONFIGS, "QUOTA", _rows("entries", _entity_name), _row_results("entries", _entity_name)
    ),
    AlterPartitionReassignmentsRequest: AuditedApi(
        Operation.ALTER, "PARTITION", _partitions("topics", "name", "partitions", "partition_index"),
        _partition_results("responses"),
    ),
    AlterReplicaLogDirsRequest: AuditedApi(
        Operation.ALTER, "PARTITION", _log_dirs, _partition_results("results", "topic_name")
    ),
    ElectLeadersRequest: AuditedApi(
        Operation.ALTER, "PARTITION", _partitions("topic_partitions", "topic", "partitions", None),
        _partition_results("replica_election_results", "topic", "partition_result", "partition_id"),
    ),
    DeleteGroupsRequest: AuditedApi(
        Operation.DELETE, "GROUP", lambda request: request.groups_names,
        _row_results("results", lambda row: row.group_id),
    ),
    OffsetDeleteRequest: AuditedApi(
        Operation.DELETE, "OFFSET", _partitions("topics", "name", "partitions", "partition_index"),
        _deleted_offsets,
    ),
    UpdateFeaturesRequest: AuditedApi(
        Operation.ALTER, "FEATURE", _rows("feature_updates", lambda row: row.feature),
        _row_results("results", lambda row: row.feature),
    ),
    CreateDelegationTokenRequest: AuditedApi(Operation.CREATE_TOKENS, "DELEGATION_TOKEN", _no_names, _token_owner),
    RenewDelegationTokenRequest: AuditedApi(Operation.ALTER, "DELEGATION_TOKEN", _no_names, _as_a_whole),
    ExpireDelegationTokenRequest: AuditedApi(Operation.ALTER, "DELEGATION_TOKEN", _no_names, _as_a_whole),
}  # fmt: skip

AUDITED: dict[int, AuditedApi] = {api.api_key: row for api, row in _ROWS.items()}
"""By API key."""
