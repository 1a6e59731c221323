"""CreateAcls (key 30): add ACLs.

Behaviour: each ACL has its own result; one that is there already is a success. The changes of a pattern are one write. Without
an authorizer, SECURITY_DISABLED.
Versions: v1 pattern types; v2 flexible; v3 resource type USER.
Source: Kafka AclApis.handleCreateAcls, AclAuthorizer.createAcls; KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.handlers.security.acl_codes import acl_name, check_is_exact, check_known, new_acl
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from security.access import Operation, on_cluster
from security.acls.entries import AclBinding


def _names(request: CreateAclsRequest) -> Iterator[str]:
    return (acl_name(row, row.resource_pattern_type) for row in request.creations)


def _results(request: CreateAclsRequest, response: CreateAclsResponse) -> Iterator[tuple[str, int]]:
    return zip(_names(request), (row.error_code for row in response.results), strict=True)


@handles(
    CreateAclsRequest,
    on_cluster(Operation.ALTER),
    errors=ErrorForm({"results": "creations"}),
    audit=audit(Operation.ALTER, "ACL", _names, _results),
)
async def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    services = context.services
    creations = request.creations
    outcomes: list[AclBinding | KafkaError] = []
    async with services.serial_queue.begin(len(creations)) as slices:
        try:
            async for creation in slices.over(creations):
                codes = creation.resource_type, creation.resource_pattern_type
                check_known(request.api_name, *codes, creation.operation, creation.permission_type)
                check_is_exact(creation)
        except KafkaError as error:
            return _all(request, error)
        if services.acls is None:
            return _all(request, KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."))
        async for creation in slices.over(creations):
            try:
                outcomes.append(new_acl(creation))
            except KafkaError as error:
                outcomes.append(error)
    errors = iter(await services.acls.create([each for each in outcomes if isinstance(each, AclBinding)]))
    async with services.serial_queue.begin(len(outcomes)) as slices:
        results = [
            _result(next(errors) if isinstance(each, AclBinding) else each) async for each in slices.over(outcomes)
        ]
    return CreateAclsResponse(throttle_time_ms=0, results=results)


def _all(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """The request failed as a whole."""
    return CreateAclsResponse(throttle_time_ms=0, results=[_result(error)] * len(request.creations))


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_code=ErrorCode.NONE, error_message="")
    return AclCreationResult(error_code=error.code, error_message=error.message)
