"""AlterConfigs (key 33): replace all settings of topics, of this broker, or of the cluster's defaults.

Behaviour: each resource has its own result. Settings that the request does not name return to their defaults, which is why
IncrementalAlterConfigs exists. `validate_only` checks everything and changes nothing. Naming a resource twice is
refused (Apache Kafka never responds).
Source: KIP-133, KIP-226; Kafka ConfigAdminManager.preprocess, ZkAdminManager.alterConfigs.
"""

from __future__ import annotations

from broker.handlers.configs.config_resources import (
    AUDIT,
    ConfigAccess,
    ConfigResourceType,
    check_entries,
    check_names_this_broker,
    config_refusal,
    refused,
    repeated,
    store_refusal,
)
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from config.errors import ConfigError
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each


@handles(
    AlterConfigsRequest,
    (on_each(Operation.ALTER_CONFIGS, ResourceType.CLUSTER), on_each(Operation.ALTER_CONFIGS, ResourceType.TOPIC)),
    errors=ErrorForm({"responses": "resources"}),
    audit=AUDIT,
)
async def alter_configs(
    request: AlterConfigsRequest, context: RequestContext, may_on_cluster: Rights, may_on_topic: Rights
) -> AlterConfigsResponse:
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    rows: list[AlterConfigsResourceResponse] = []
    access = ConfigAccess(may_on_cluster, may_on_topic)
    async for resource in Slices(context.services.clock).over(request.resources):
        code, message = ErrorCode.NONE, None
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise refused("Each resource must appear at most once.")
            await _alter(resource, context, access, validate_only=request.validate_only)
        except KafkaError as error:
            code, message = error.code, error.own_message
        rows.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return AlterConfigsResponse(throttle_time_ms=0, responses=rows)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, access: ConfigAccess, *, validate_only: bool
) -> None:
    """Raises KafkaError. Values for a broker are validated before access is checked, as in Kafka."""
    services, name = context.services, resource.resource_name
    check_entries(
        [entry.name for entry in resource.configs], [entry.name for entry in resource.configs if entry.value is None]
    )
    given = {entry.name: entry.value for entry in resource.configs if entry.value is not None}
    resource_type = ConfigResourceType(resource.resource_type)
    try:
        match resource_type:
            case ConfigResourceType.TOPIC:
                access.check_topic(name)
                if not name:
                    raise refused("Default topic resources are not allowed.")
                if name not in services.metadata.image.topics:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
                await services.dynamic_settings.alter_topic(name, lambda _: given, validate_only=validate_only)
            case ConfigResourceType.BROKER:
                if name:
                    check_names_this_broker(name, services.broker_id)
                await services.dynamic_settings.alter_broker(
                    lambda _: given, per_broker=bool(name), validate_only=validate_only or not access.is_on_cluster
                )
                access.check_cluster()
            case ConfigResourceType.CLIENT_METRICS:
                raise refused(
                    "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
                )
            case _:
                raise refused(f"Unknown resource type {resource.resource_type}")
    except ConfigError as error:
        raise config_refusal(error, resource_type, name) from error
    except StoreError as error:
        raise store_refusal(error) from error
