"""IncrementalAlterConfigs (key 44): change single settings of topics, groups, subscriptions of client metrics, this
broker or the cluster's defaults, and the levels of this broker's loggers.

Behaviour: each resource has its own result, and all of its operations are executed or none. APPEND and SUBTRACT work on
lists and start from the stored value, or the default. `validate_only` checks everything and changes nothing.
Where Apache Kafka returns UNKNOWN_SERVER_ERROR (an unknown operation, APPEND to an unknown setting), the error is
INVALID_REQUEST.
Source: KIP-339, KIP-412; Kafka ConfigAdminManager.preprocess, prepareIncrementalConfigs, ZkAdminManager.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping

from broker.handlers.configs.altering import Alteration, unalterable
from broker.handlers.configs.config_resources import (
    AUDIT,
    ConfigResourceType,
    check_entries,
    check_loggers_of_this_broker,
    refused,
)
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability import logging_setup
from broker.settings.dynamic_settings import Edit
from config.client_metrics import SubscriptionSettings
from config.definition import Setting, Type
from config.group import OwnGroupSettings
from config.layers import broker_definition
from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from runtime.log_forms import LEVELS
from runtime.log_setup import ROOT
from security.access import Operation, ResourceType, on_each


class AlterOperation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@handles(
    IncrementalAlterConfigsRequest,
    (
        on_each(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
        on_each(Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        on_each(Operation.ALTER_CONFIGS, ResourceType.GROUP),
    ),
    errors=ErrorForm({"responses": "resources"}),
    audit=AUDIT,
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest,
    context: RequestContext,
    may_on_cluster: Rights,
    may_on_topic: Rights,
    may_on_group: Rights,
) -> IncrementalAlterConfigsResponse:
    alteration = Alteration.of(request, context, may_on_cluster, may_on_topic, may_on_group)
    rows = await alteration.rows(request.resources, _alter, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=rows)


async def _alter(resource: AlterConfigsResource, alteration: Alteration) -> None:
    """Raises KafkaError, ConfigError, StoreError."""
    entries, name = resource.configs, resource.resource_name
    valueless = [each.name for each in entries if each.value is None and each.config_operation != AlterOperation.DELETE]
    check_entries([each.name for each in entries], valueless)
    match alteration.kind_of(resource):
        case ConfigResourceType.TOPIC:
            await alteration.alter_topic(name, _edit(entries, LogConfig.definitions.get))
        case ConfigResourceType.BROKER:
            await alteration.alter_broker(name, _edit(entries, broker_definition))
        case ConfigResourceType.GROUP:
            await alteration.alter_group(name, _edit_without_lists(entries, OwnGroupSettings.definitions.get))
        case ConfigResourceType.CLIENT_METRICS:
            await alteration.alter_subscription(
                name, _edit_without_lists(entries, SubscriptionSettings.definitions.get)
            )
        case ConfigResourceType.BROKER_LOGGER:
            alteration.access.check_cluster()
            broker_id = alteration.context.services.broker_id
            _alter_loggers(resource, broker_id, validate_only=alteration.validate_only)
        case _:
            raise unalterable(resource.resource_type)


def _edit(entries: Iterable[AlterableConfig], definition: Callable[[str], Setting | None]) -> Edit:
    """Return a function that applies the operations to the stored settings."""

    def edit(stored: Mapping[str, str]) -> Mapping[str, str]:
        given = dict(stored)
        for entry in entries:
            _apply(given, entry, definition)
        return given

    return edit


def _edit_without_lists(entries: Iterable[AlterableConfig], definition: Callable[[str], Setting | None]) -> Edit:
    """As `_edit`, for kinds of resources whose lists Apache Kafka replaces as a whole. The error is that of the edit, which a
    client without rights does not get."""
    edit = _edit(entries, definition)

    def checked(stored: Mapping[str, str]) -> Mapping[str, str]:
        for entry in entries:
            if entry.config_operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
                word, name = AlterOperation(entry.config_operation).name, entry.name
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
        return edit(stored)

    return checked


def _apply(given: dict[str, str], entry: AlterableConfig, definition: Callable[[str], Setting | None]) -> None:
    name, text = entry.name, entry.value or ""
    match entry.config_operation:
        case AlterOperation.SET:
            given[name] = text
        case AlterOperation.DELETE:
            given.pop(name, None)
        case AlterOperation.APPEND:
            items = _list_items(given, name, definition(name), "append")
            given[name] = ",".join(filter(None, items + [item for item in text.split(",") if item not in items]))
        case AlterOperation.SUBTRACT:
            items = _list_items(given, name, definition(name), "subtract")
            for item in text.split(","):
                if item in items:
                    items.remove(item)
            given[name] = ",".join(items)
        case unknown:
            raise refused(f"Unknown operation {unknown} for config {name}")


def _list_items(given: Mapping[str, str], name: str, row: Setting | None, operation: str) -> list[str]:
    if row is None:
        raise refused(f"Unknown config name: {name}")
    if row.type is not Type.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Config value {operation} is not allowed for config key: {name}")
    return (given[name] if name in given else row.format(row.default) or "").split(",")


# --- loggers ---


def _alter_loggers(resource: AlterConfigsResource, broker_id: int, *, validate_only: bool) -> None:
    """Change levels of loggers; all are checked before one is changed. Raises KafkaError."""
    check_loggers_of_this_broker(resource.resource_name, broker_id)
    known = logging_setup.loggers()
    for entry in resource.configs:
        _check_logger(entry, known)
    if validate_only:
        return
    for entry in resource.configs:
        if entry.config_operation == AlterOperation.SET and entry.value is not None:
            logging_setup.set_logger_level(entry.name, entry.value)
        else:
            logging_setup.unset_logger_level(entry.name)


def _check_logger(entry: AlterableConfig, known: Mapping[str, str]) -> None:
    name, operation = entry.name, entry.config_operation
    if operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        raise refused(f"{AlterOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource")
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        raise refused(f"Unknown operation {operation} for the BROKER_LOGGER resource")
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == AlterOperation.DELETE and name == ROOT:
        raise refused("Removing the log level of the root logger is not allowed")
    if operation == AlterOperation.SET and entry.value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {entry.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )
