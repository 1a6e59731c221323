"""Settings of topics, brokers and subscriptions of client metrics, and the levels of a broker's loggers, which hold until it
stops. Pure.

Rules: what a broker has for itself is asked of it; the rest, and what all brokers have, of any.
Source: KIP-133, KIP-226, KIP-339, KIP-412, KIP-1000.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from client.admin.steps import Place, Rows, Steps, ask, everything_at, rows_of
from protocol.errors import KafkaError
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest

ALL_BROKERS = ""
"""The name of what all brokers have."""
_SET, _DELETE = 0, 1


class ResourceKind(IntEnum):
    """The codes of DescribeConfigs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class SettingSource(IntEnum):
    """Where a value comes from; the codes of DescribeConfigs."""

    UNKNOWN = -1
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


def names_with_settings(kind: ResourceKind) -> Steps[list[str]]:
    """Return the names of the subscriptions of client metrics, or of the groups, that have settings. Raises KafkaError."""
    response = yield from ask(ListConfigResourcesRequest(resource_types=[kind]))
    return sorted(row.resource_name for row in response.config_resources)


def describe(
    resources: Collection[Resource], *, has_synonyms: bool = False
) -> Steps[dict[Resource, dict[str, DescribeConfigsResourceResult] | KafkaError]]:
    """Return the settings of each by name; with `has_synonyms` each with the values that its name has elsewhere."""

    def request_of(some: list[Resource]) -> DescribeConfigsRequest:
        rows = [
            DescribeConfigsResource(resource_type=each.kind, resource_name=each.name, configuration_keys=None)
            for each in some
        ]
        return DescribeConfigsRequest(resources=rows, include_synonyms=has_synonyms)

    def read(response: Any) -> Rows[Resource, dict[str, DescribeConfigsResourceResult]]:
        for row in response.results:
            settings = {each.name: each for each in row.configs}
            yield _resource(row), row.error_code, row.error_message, settings

    return (yield from rows_of(resources, everything_at(_place), request_of, read))


def alter(
    changes: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
) -> Steps[dict[Resource, KafkaError | None]]:
    """Change settings; None removes one. Those that are not named stay."""

    def request_of(some: list[Resource]) -> IncrementalAlterConfigsRequest:
        rows = [
            AlterConfigsResource(
                resource_type=each.kind,
                resource_name=each.name,
                configs=[
                    AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
                    for name, value in changes[each].items()
                ],
            )
            for each in some
        ]
        return IncrementalAlterConfigsRequest(resources=rows, validate_only=validate_only)

    def read(response: Any) -> Rows[Resource, None]:
        return ((_resource(row), row.error_code, row.error_message, None) for row in response.responses)

    return (yield from rows_of(changes, everything_at(_place), request_of, read))


def _resource(row: Any) -> Resource:
    return Resource(ResourceKind(row.resource_type), row.resource_name)


def _place(resource: Resource) -> int | Place:
    is_of_one_broker = resource.kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER)
    return int(resource.name) if is_of_one_broker and resource.name != ALL_BROKERS else Place.ANY
