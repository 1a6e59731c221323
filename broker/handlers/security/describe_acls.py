"""DescribeAcls (key 29): the ACLs that a filter selects, as they are in force on this broker.

Behaviour: by pattern, in order. Without an authorizer, SECURITY_DISABLED.
Versions: v0 knows literal patterns only, and asks for nothing else; v1 pattern types; v2 flexible; v3 resource type USER.
Source: Kafka AclApis.handleDescribeAcls, AclAuthorizer.acls; KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.handlers.security.acl_codes import acl_filter, check_known
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from security.access import Operation, on_cluster

if TYPE_CHECKING:
    from security.acls.entries import AclEntry, ResourcePattern


@handles(DescribeAclsRequest, on_cluster(Operation.DESCRIBE))
async def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    services = context.services
    codes = request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    check_known(request.api_name, *codes)
    if services.acls is None:
        error, message = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
        return DescribeAclsResponse(throttle_time_ms=0, error_code=error, error_message=message, resources=[])
    resources: list[DescribeAclsResource] = []
    asked = acl_filter(request)
    if asked is not None:
        index = services.acls.index
        patterns = asked.patterns.named or index.patterns
        async with services.serial_queue.begin(len(patterns)) as slices:
            async for pattern in slices.over(sorted(patterns)):
                if asked.patterns.selects(pattern):
                    selected = filter(asked.entries.selects, index.entries(pattern))
                    resources += _resource(pattern, sorted(selected))
    return DescribeAclsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", resources=resources)


def _resource(pattern: ResourcePattern, entries: Iterable[AclEntry]) -> list[DescribeAclsResource]:
    rows = [
        AclDescription(
            principal=str(entry.principal),
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for entry in entries
    ]
    if not rows:
        return []
    resource_type, name, pattern_type = pattern
    return [DescribeAclsResource(resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=rows)]
