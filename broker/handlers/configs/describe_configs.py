"""DescribeConfigs (key 32): settings of topics, groups, subscriptions of client metrics and this broker, with their
sources, and the levels of its loggers.

Behaviour: each resource has its own result; one of an unknown type fails the whole request. `configuration_keys` selects
settings, none or an empty list means all. A broker with an empty name is the cluster's dynamic defaults. Secrets and
unknown settings (they may be secrets) have no value. The source of a value is its strongest synonym; without any
it is the default, also when another unit of the same setting was set. Resources beyond 32 MiB of settings are refused.
Versions: v1 adds sources and synonyms, v3 types and documentation.
Source: KIP-133, KIP-226, KIP-412, KIP-569; Kafka ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from broker.handlers.configs.config_resources import (
    KEPT_KINDS,
    MAX_SETTINGS_BYTES,
    ConfigAccess,
    ConfigResourceType,
    check_describes_this_broker,
    refused,
    store_refusal,
)
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability import logging_setup
from config.broker import BrokerSettings
from config.client_metrics import SubscriptionSettings
from config.definition import Setting, Update
from config.group import OwnGroupSettings
from config.layers import ConfigSource, Layers, Synonym, broker_definition
from config.topic import LogConfig
from metadata.admin.topic_rules import check_name
from metadata.store.port import ConnectionLossError, SessionExpiredError, StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from protocol.primitives import Encoded
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each

UNKNOWN_TYPE = 0
# Topics whose settings are read from the store at a time, instead of with one round trip each.
READ_TOGETHER = 200


@handles(
    DescribeConfigsRequest,
    (
        on_each(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
        on_each(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        on_each(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP),
    ),
    errors=ErrorForm({"results": "resources"}, configs=()),
)
async def describe_configs(
    request: DescribeConfigsRequest,
    context: RequestContext,
    may_on_cluster: Rights,
    may_on_topic: Rights,
    may_on_group: Rights,
) -> DescribeConfigsResponse:
    access = ConfigAccess(may_on_cluster, may_on_topic, may_on_group, denies_in_words=True)
    async with context.services.serial_queue.begin(len(request.resources)) as slices:
        results = await _results(request, context, access, slices)
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


async def _results(
    request: DescribeConfigsRequest, context: RequestContext, access: ConfigAccess, slices: Slices
) -> list[DescribeConfigsResult]:
    """Handle a request. It yields to the event loop: a request may name thousands of resources."""
    results: list[DescribeConfigsResult] = []
    levels = context.services.features.levels
    unknown = ConfigResourceType.UNKNOWN
    if any(ConfigResourceType.of(resource.resource_type, levels) is unknown for resource in request.resources):
        code = ErrorCode.INVALID_REQUEST
        return [_result(resource, code, code.message, []) async for resource in slices.over(request.resources)]
    description = _Description(request, context)
    bytes_left = MAX_SETTINGS_BYTES
    for first in range(0, len(request.resources), READ_TOGETHER):
        resources = request.resources[first : first + READ_TOGETHER]
        if bytes_left >= 0:
            await description.read(resources)
        async for resource in slices.over(resources):
            try:
                if resource.resource_type == ConfigResourceType.TOPIC:
                    access.check_topic(resource.resource_name)
                elif resource.resource_type == ConfigResourceType.GROUP:
                    access.check_group(resource.resource_name)
                else:
                    access.check_cluster()
                if bytes_left < 0:
                    raise refused(
                        f"One answer holds no more than {MAX_SETTINGS_BYTES} bytes of settings: ask for fewer resources"
                    )
                rows = (await description.rows(resource)).encoded(resource.configuration_keys)
            except KafkaError as error:
                results.append(_result(resource, error.code, error.message, []))
            else:
                bytes_left -= len(rows)
                results.append(_result(resource, ErrorCode.NONE, "", rows))
    return results


def _result(
    resource: DescribeConfigsResource,
    code: ErrorCode,
    message: str,
    rows: list[DescribeConfigsResourceResult] | Encoded,
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=rows,
    )


class _Rows:
    """The rows of a resource, or of many with equal settings, which share the encoded rows if all settings are requested."""

    __slots__ = ("_all", "_encode", "_rows")

    def __init__(
        self,
        rows: list[DescribeConfigsResourceResult],
        encode: Callable[[Sequence[DescribeConfigsResourceResult]], Encoded],
    ) -> None:
        self._rows = rows
        self._encode = encode
        self._all: Encoded | None = None

    def encoded(self, names: Collection[str] | None) -> Encoded:
        """Return the rows with these names; all rows for None or no names."""
        if names:
            wanted = set(names)
            return self._encode([row for row in self._rows if row.name in wanted])
        if self._all is None:
            self._all = self._encode(self._rows)
        return self._all


class _Description:
    """Makes the rows of resources. Resources with equal settings share them (most topics have none of their own).

    Rows are encoded here, one resource at a time: encoding objects for all settings of ten thousand topics would take half
    a second, and hundreds of megabytes."""

    def __init__(self, request: DescribeConfigsRequest, context: RequestContext) -> None:
        self._with_synonyms = request.include_synonyms
        self._with_documentation = request.include_documentation
        self._services = context.services
        self._encode = DescribeConfigsResponse.array_encoder(DescribeConfigsResourceResult, context.api_version)
        # Of the topics that were read together; the error if the store returned one.
        self._own: Mapping[str, Mapping[str, str]] | None = None
        self._silence: StoreError | None = None
        self._of_topics: dict[frozenset[tuple[str, str]], _Rows] = {}
        self._of_broker: _Rows | None = None
        self._of_loggers: _Rows | None = None

    async def read(self, resources: Sequence[DescribeConfigsResource]) -> None:
        """Read topics' own settings, before `rows` of these resources. If the store refuses any of them, they are read one by
        one, so that only the refused ones fail; if it does not respond, all fail."""
        topics = [
            resource.resource_name
            for resource in resources
            if resource.resource_type == ConfigResourceType.TOPIC and self._is_topic(resource.resource_name)
        ]
        self._own = self._silence = None
        if len(topics) < 2:
            return
        try:
            self._own = await self._services.dynamic_settings.settings_of_topics(topics)
        except (ConnectionLossError, SessionExpiredError) as error:
            self._silence = error
        except StoreError:
            pass

    def _is_topic(self, name: str) -> bool:
        return name in self._services.metadata.image.topics

    async def rows(self, resource: DescribeConfigsResource) -> _Rows:
        """Raises KafkaError."""
        name = resource.resource_name
        match ConfigResourceType(resource.resource_type):
            case ConfigResourceType.TOPIC:
                return await self._topic(name)
            case ConfigResourceType.BROKER:
                return self._broker(name) if name else _Rows(self._cluster_defaults(), self._encode)
            case ConfigResourceType.BROKER_LOGGER:
                return self._loggers(name)
            case ConfigResourceType.GROUP:
                return self._group(name)
            case _:
                return self._subscription(name)

    async def _topic(self, topic: str) -> _Rows:
        check_name(topic)
        if not self._is_topic(topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        dynamic = self._services.dynamic_settings
        own = await self._own_settings(topic)
        key = frozenset(own.items())
        rows = self._of_topics.get(key)
        if rows is None:
            config = LogConfig.from_settings(dynamic.settings, own)
            if len(self._of_topics) == KEPT_KINDS:
                self._of_topics.clear()
            rows = self._of_topics[key] = _Rows(
                [
                    self._row(name, row, config.text(name), dynamic.layers.topic_synonyms(name, own), read_only=False)
                    for name, row in LogConfig.definitions.items()
                ],
                self._encode,
            )
        return rows

    async def _own_settings(self, topic: str) -> Mapping[str, str]:
        if self._silence is not None:
            raise store_refusal(self._silence)
        if self._own is not None:
            return self._own.get(topic, {})
        try:
            return await self._services.dynamic_settings.topic_settings(topic)
        except StoreError as error:
            raise store_refusal(error) from error

    def _group(self, group_id: str) -> _Rows:
        if not group_id:
            raise refused("Group name must not be empty")
        services = self._services
        own, layers = services.group_configs.stored.get(group_id, {}), services.dynamic_settings.layers
        rows = []
        for name, row in OwnGroupSettings.definitions.items():
            synonyms = [synonym for general in row.synonyms for synonym in layers.synonyms(general)]
            default = row.format(row.default)
            if not synonyms and default is not None:
                synonyms.append(Synonym(name, default, ConfigSource.DEFAULT))
            if name in own:
                synonyms.insert(0, Synonym(name, own[name], ConfigSource.DYNAMIC_GROUP))
            rows.append(self._row(name, row, synonyms[0].value, synonyms, read_only=False))
        return _Rows(rows, self._encode)

    def _subscription(self, name: str) -> _Rows:
        if not name:
            raise refused("Client metrics subscription name must not be empty")
        if not self._services.features.levels.any_above_zero:
            raise refused("Config type client-metrics is only supported on KRaft clusters")
        own = self._services.subscription_configs.stored.get(name, {})
        settings = SubscriptionSettings(own)
        source = ConfigSource.DYNAMIC_CLIENT_METRICS
        rows = []
        for key, row in SubscriptionSettings.definitions.items():
            value = settings.text(key)
            synonyms = [Synonym(key, value or "", source)] if key in own else []
            rows.append(self._row(key, row, value, synonyms, read_only=False))
        return _Rows(rows, self._encode)

    def _broker(self, name: str) -> _Rows:
        check_describes_this_broker(name, self._services.broker_id, or_empty=True)
        if self._of_broker is None:
            self._of_broker = _Rows(self._broker_rows(), self._encode)
        return self._of_broker

    def _broker_rows(self) -> list[DescribeConfigsResourceResult]:
        layers = self._services.dynamic_settings.layers
        tables = BrokerSettings.definitions
        has_levels = self._services.features.levels.any_above_zero
        public = [setting for setting, row in tables.items() if not row.internal or (row.with_levels and has_levels)]
        given = sorted(layers.settings.given.keys() - set(public))
        synonyms = {setting: layers.synonyms(setting) for setting in (*public, *given)}
        if not has_levels:
            for setting in public:
                if tables[setting].with_levels and synonyms[setting][-1].source is ConfigSource.DEFAULT:
                    synonyms[setting][-1] = Synonym(setting, str(tables[setting].kafka_default), ConfigSource.DEFAULT)
        return [self._broker_row(setting, layers, found) for setting, found in synonyms.items()]

    def _cluster_defaults(self) -> list[DescribeConfigsResourceResult]:
        layers = self._services.dynamic_settings.layers
        return [
            self._broker_row(name, layers, [Synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)])
            for name, text in sorted(layers.dynamic_default.items())
        ]

    def _broker_row(self, name: str, layers: Layers, synonyms: list[Synonym]) -> DescribeConfigsResourceResult:
        row = broker_definition(name)
        if synonyms and synonyms[0].source in (ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.DEFAULT):
            value: str | None = synonyms[0].value
        elif name in BrokerSettings.definitions:
            value = layers.settings.text(name)
        else:
            value = layers.settings.given.get(name)
        dynamic = name in BrokerSettings.definitions and row is not None and row.update is not Update.READ_ONLY
        return self._row(name, row, value, synonyms, read_only=not dynamic)

    def _loggers(self, name: str) -> _Rows:
        if not name:
            raise refused("Broker id must not be empty")
        check_describes_this_broker(name, self._services.broker_id, or_empty=False)
        if self._of_loggers is None:
            self._of_loggers = _Rows(_logger_rows(), self._encode)
        return self._of_loggers

    def _row(
        self, name: str, row: Setting | None, value: str | None, synonyms: Iterable[Synonym], *, read_only: bool
    ) -> DescribeConfigsResourceResult:
        """Return the row of a setting; `row` is None for an unknown one."""
        is_secret = row is None or row.is_sensitive
        found = [
            DescribeConfigsSynonym(name=place.name, value=None if is_secret else place.value, source=place.source)
            for place in synonyms
        ]
        return DescribeConfigsResourceResult(
            name=name,
            value=None if is_secret else value,
            read_only=read_only,
            config_source=found[0].source if found else ConfigSource.DEFAULT,
            is_sensitive=is_secret,
            synonyms=found if self._with_synonyms else [],
            config_type=UNKNOWN_TYPE if row is None else row.type,
            documentation=row.doc if row is not None and self._with_documentation else None,
        )


def _logger_rows() -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(
            name=logger,
            value=level,
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            is_sensitive=False,
        )
        for logger, level in sorted(logging_setup.loggers().items())
    ]
