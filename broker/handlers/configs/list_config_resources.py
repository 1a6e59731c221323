"""ListConfigResources (key 74): which resources have settings that can be described.

Behaviour: topics, brokers and their loggers are those that there are, groups those with
settings of their own. A kind of resource that is none fails the whole request.
Versions: v0 lists subscriptions of client metrics, v1 the kinds that the request names; none means all.
Source: KIP-1000, KIP-1142; Kafka 4.3 KafkaApis.handleListConfigResources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from broker.handlers.configs.config_resources import ConfigResourceType
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from security.access import Operation, on_cluster

if TYPE_CHECKING:
    from broker.services import Services

_WITH_KINDS = 1


def _brokers(services: Services) -> Iterable[str]:
    return map(str, sorted(services.metadata.image.brokers))


_NAMES: Mapping[ConfigResourceType, Callable[[Services], Iterable[str]]] = {
    ConfigResourceType.GROUP: lambda services: sorted(services.group_configs.stored),
    ConfigResourceType.CLIENT_METRICS: lambda services: sorted(services.subscription_configs.stored),
    ConfigResourceType.BROKER_LOGGER: _brokers,
    ConfigResourceType.BROKER: _brokers,
    ConfigResourceType.TOPIC: lambda services: sorted(services.metadata.image.topics),
}


@handles(ListConfigResourcesRequest, on_cluster(Operation.DESCRIBE_CONFIGS))
async def list_config_resources(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """Raises KafkaError."""
    kinds = [ConfigResourceType.CLIENT_METRICS]
    if context.api_version >= _WITH_KINDS:
        kinds = [ConfigResourceType(number) for number in dict.fromkeys(request.resource_types)] or list(_NAMES)
    if ConfigResourceType.UNKNOWN in kinds:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in kinds
            for name in _NAMES[kind](context.services)
        ],
    )
