"""Shared by the two handlers that alter settings: a result for each resource, and the checks of topics and of brokers.

Rules: a resource that is named twice is refused (Apache Kafka never responds). Values for a broker are validated before access
is checked, as in Kafka.
Source: Kafka ConfigAdminManager.preprocess, ZkAdminManager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from broker.handlers.configs.config_resources import (
    ConfigAccess,
    ConfigResourceType,
    check_names_this_broker,
    config_refusal,
    refused,
    repeated,
    store_refusal,
)
from config.errors import ConfigError
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from runtime.slices import Slices

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext, Rights
    from broker.settings.dynamic_settings import Edit
    from protocol.schema import Message

Row = TypeVar("Row", bound="Message")


@dataclass(frozen=True, slots=True)
class Alteration:
    """What a request that alters settings has to do with every resource."""

    context: RequestContext
    access: ConfigAccess
    validate_only: bool

    @classmethod
    def of(
        cls, request: Any, context: RequestContext, may_on_cluster: Rights, may_on_topic: Rights, may_on_group: Rights
    ) -> Alteration:
        return cls(context, ConfigAccess(may_on_cluster, may_on_topic, may_on_group), request.validate_only)

    def kind_of(self, resource: Any) -> ConfigResourceType:
        return ConfigResourceType.of(resource.resource_type, self.context.services.features.levels)

    async def rows(
        self, resources: list[Any], alter: Callable[[Any, Alteration], Awaitable[None]], row: type[Row]
    ) -> list[Row]:
        """Return a row for each resource, with the KafkaError, ConfigError or StoreError with which `alter` refuses it."""
        twice = repeated((resource.resource_type, resource.resource_name) for resource in resources)
        rows: list[Row] = []
        async for resource in Slices(self.context.services.clock).over(resources):
            resource_type, name = resource.resource_type, resource.resource_name
            code, message = ErrorCode.NONE, None
            try:
                if (resource_type, name) in twice:
                    raise refused("Each resource must appear at most once.")
                await alter(resource, self)
            except (KafkaError, ConfigError, StoreError) as error:
                refusal = _refusal(error, ConfigResourceType(resource_type), name)
                code, message = refusal.code, refusal.own_message
            rows.append(row(error_code=code, error_message=message, resource_type=resource_type, resource_name=name))
        return rows

    async def alter_topic(self, name: str, edit: Edit) -> None:
        """Raises KafkaError, ConfigError, StoreError."""
        services = self.context.services
        self.access.check_topic(name)
        if not name:
            raise refused("Default topic resources are not allowed.")
        if name not in services.metadata.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        await services.dynamic_settings.alter_topic(name, edit, validate_only=self.validate_only)

    async def alter_group(self, group_id: str, edit: Edit) -> None:
        """Raises what `alter_topic` does."""
        self.access.check_group(group_id)
        if not group_id:
            raise refused("Default group resources are not allowed.")
        await self.context.services.group_configs.alter(group_id, edit, validate_only=self.validate_only)

    async def alter_subscription(self, name: str, edit: Edit) -> None:
        """Raises what `alter_topic` does."""
        services = self.context.services
        if not services.features.levels.any_above_zero:
            raise refused("AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS")
        self.access.check_cluster(in_words=True)  # as Apache Kafka 4.3 does
        await services.subscription_configs.alter(name, edit, validate_only=self.validate_only)

    async def alter_broker(self, name: str, edit: Edit) -> None:
        """Alter the settings of this broker, or without a name the cluster's defaults. Raises what `alter_topic` does."""
        services = self.context.services
        if name:
            check_names_this_broker(name, services.broker_id)
        await services.dynamic_settings.alter_broker(
            edit, per_broker=bool(name), validate_only=self.validate_only or not self.access.is_on_cluster
        )
        self.access.check_cluster()


def unalterable(number: int) -> KafkaError:
    """Return the error of a resource that has no settings to alter; `number` is its type in the request."""
    return refused(f"Unknown resource type {number}")


def _refusal(error: KafkaError | ConfigError | StoreError, resource_type: ConfigResourceType, name: str) -> KafkaError:
    if isinstance(error, ConfigError):
        return config_refusal(error, resource_type, name)
    return store_refusal(error) if isinstance(error, StoreError) else error
