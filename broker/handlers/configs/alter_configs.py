"""AlterConfigs (key 33): replace all settings of topics, of groups, of this broker, or of the cluster's defaults.

Behaviour: each resource has its own result. Settings that the request does not name return to their defaults, which is why
IncrementalAlterConfigs exists. `validate_only` checks everything and changes nothing. Naming a resource twice is
refused (Apache Kafka never responds).
Source: KIP-133, KIP-226; Kafka ConfigAdminManager.preprocess, ZkAdminManager.alterConfigs.
"""

from __future__ import annotations

from broker.handlers.configs.altering import Alteration, unalterable
from broker.handlers.configs.config_resources import AUDIT, ConfigResourceType, check_entries
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from security.access import Operation, ResourceType, on_each


@handles(
    AlterConfigsRequest,
    (
        on_each(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
        on_each(Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        on_each(Operation.ALTER_CONFIGS, ResourceType.GROUP),
    ),
    errors=ErrorForm({"responses": "resources"}),
    audit=AUDIT,
)
async def alter_configs(
    request: AlterConfigsRequest,
    context: RequestContext,
    may_on_cluster: Rights,
    may_on_topic: Rights,
    may_on_group: Rights,
) -> AlterConfigsResponse:
    alteration = Alteration.of(request, context, may_on_cluster, may_on_topic, may_on_group)
    rows = await alteration.rows(request.resources, _alter, AlterConfigsResourceResponse)
    return AlterConfigsResponse(throttle_time_ms=0, responses=rows)


async def _alter(resource: AlterConfigsResource, alteration: Alteration) -> None:
    """Raises KafkaError, ConfigError, StoreError."""
    check_entries(
        [entry.name for entry in resource.configs], [entry.name for entry in resource.configs if entry.value is None]
    )
    given = {entry.name: entry.value for entry in resource.configs if entry.value is not None}
    match alteration.kind_of(resource):
        case ConfigResourceType.TOPIC:
            await alteration.alter_topic(resource.resource_name, lambda _: given)
        case ConfigResourceType.BROKER:
            await alteration.alter_broker(resource.resource_name, lambda _: given)
        case ConfigResourceType.GROUP:
            await alteration.alter_group(resource.resource_name, lambda _: given)
        case ConfigResourceType.CLIENT_METRICS:
            await alteration.alter_subscription(resource.resource_name, lambda _: given)
        case _:
            raise unalterable(resource.resource_type)
