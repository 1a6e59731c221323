"""DeleteAcls (key 31): remove the ACLs that filters select.

Behaviour: each filter has its own result, with the ACLs that were removed; one that several filters select is with the first. A
filter that names its patterns removes what any broker has written, any other what this broker knows. Without an authorizer,
SECURITY_DISABLED.
Versions: v0 knows literal patterns only; v1 pattern types; v2 flexible; v3 resource type USER.
Source: Kafka AclApis.handleDeleteAcls, AclAuthorizer.deleteAcls; KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.cluster.cluster_acls import DeletedAcl
from broker.handlers.security.acl_codes import acl_filter, acl_name, check_known
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from runtime.slices import Slices
from security.access import Operation, on_cluster


def _filter_name(row: DeleteAclsFilter) -> str:
    return f"{row.resource_type_filter}:{row.pattern_type_filter}:{row.resource_name_filter} {row.principal_filter}"


def _deleted(_request: DeleteAclsRequest, response: DeleteAclsResponse) -> Iterator[tuple[str, int]]:
    for result in response.filter_results:
        if result.error_code:
            yield "", result.error_code
        for row in result.matching_acls:
            yield acl_name(row, row.pattern_type), row.error_code


@handles(
    DeleteAclsRequest,
    on_cluster(Operation.ALTER),
    errors=ErrorForm({"filter_results": "filters"}),
    audit=audit(Operation.ALTER, "ACL", "filters", _deleted, _filter_name),
)
async def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    services = context.services
    for each in request.filters:
        codes = each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type
        check_known(request.api_name, *codes)
    if services.acls is None:
        disabled = DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.", matching_acls=[]
        )
        return DeleteAclsResponse(throttle_time_ms=0, filter_results=[disabled] * len(request.filters))
    asked = [acl_filter(each) for each in request.filters]
    deleted = iter(await services.acls.delete([each for each in asked if each is not None], Slices(services.clock)))
    async with services.serial_queue.begin(len(asked)) as slices:
        results = [_result(() if each is None else next(deleted)) async for each in slices.over(asked)]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def _result(deleted: Sequence[DeletedAcl]) -> DeleteAclsFilterResult:
    rows = [_row(each) for each in deleted]
    return DeleteAclsFilterResult(error_code=ErrorCode.NONE, error_message=None, matching_acls=rows)


def _row(deleted: DeletedAcl) -> DeleteAclsMatchingAcl:
    (resource_type, name, pattern_type), entry = deleted.binding
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if deleted.error is None else deleted.error.code,
        error_message=None if deleted.error is None else deleted.error.message,
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=str(entry.principal),
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
