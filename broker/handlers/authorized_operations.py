"""Which operations a client may do on a resource, as Metadata, DescribeGroups and DescribeCluster respond (KIP-430).

Rules: bit n stands for the operation with number n. Only operations that apply to the type of resource count: groups have
settings of their own where there are feature levels. Nobody has asked to do them: nothing is logged.
Source: KIP-430; Kafka AuthHelper.authorizedOperations, AclEntry.supportedOperations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from security.access import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext

NOT_DESCRIBED = 0
"""Of a cluster that the client may not describe."""

APPLICABLE = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
OF_GROUP_SETTINGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)


def authorized_operations(context: RequestContext, resource_type: ResourceType, name: str) -> int:
    """Return the bits of the operations that the client may do on a resource."""
    authorizer = context.services.authorizer
    operations = APPLICABLE[resource_type]
    if resource_type is ResourceType.GROUP and context.services.features.levels.any_above_zero:
        operations += OF_GROUP_SETTINGS
    if authorizer.is_open:
        return sum(1 << operation for operation in operations)
    principal, host = context.principal, context.client_host
    return sum(
        1 << operation for operation in operations if authorizer.allows(principal, host, operation, resource_type, name)
    )


def cluster_operations(context: RequestContext) -> int:
    """Return those on the cluster, if the client may describe it."""
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return NOT_DESCRIBED
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
