"""CreateTopics (key 19): new topics, by counts or by assignment.

Behaviour: topics are independent of each other; one that is named twice is refused. The response is sent when all partitions
have a leader that this broker knows, or with REQUEST_TIMED_OUT after `timeout_ms`; the topic is created in any case. Only the
controller creates topics.
Rights: on the cluster for all topics, or on each. Who may not describe the settings of a topic does not get them, nor its
counts and id.
Versions: v1 `validate_only` and messages; v4 -1 for the broker's default counts; v5 returns counts and effective
settings (for topics beyond 32 MiB of them `topic_config_error_code` is INVALID_REQUEST); v6 THROTTLING_QUOTA_EXCEEDED; v7 topic
ids.
Source: KIP-4, KIP-464, KIP-525, KIP-516; Kafka KafkaApis.handleCreateTopicsRequest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from broker.handlers.configs.config_resources import KEPT_KINDS, MAX_SETTINGS_BYTES
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from config.layers import ConfigSource
from config.topic import LogConfig
from metadata.admin.topic_requests import CreatedTopic, NewTopic
from metadata.admin.topic_rules import CLUSTER_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.primitives import ZERO_UUID, Encoded
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each

_SETTINGS_SINCE = 5
_STRICT_SINCE = 6
UNKNOWN_COUNT = -1
DENIAL = "Authorization failed."


@handles(
    CreateTopicsRequest,
    (
        on_each(Operation.CREATE, ResourceType.TOPIC, or_on_cluster=Operation.CREATE),
        on_each(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, logs_denial=False),
    ),
    errors=ErrorForm(
        {"topics": "topics"},
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
        topic_config_error_code=ErrorCode.NONE,
    ),
    audit=audit(Operation.CREATE, "TOPIC", "topics", "topics"),
)
async def create_topics(
    request: CreateTopicsRequest, context: RequestContext, may_create: Rights, may_describe_configs: Rights
) -> CreateTopicsResponse:
    services = context.services
    mutations = services.quotas.mutations(context, _STRICT_SINCE)
    results: dict[str, CreatableTopicResult] = {}
    wanted: list[NewTopic] = []
    async with services.serial_queue.begin(len(request.topics)) as slices:
        names = Counter(topic.name for topic in request.topics)
        async for topic in slices.over(request.topics):
            if not services.controller.is_active:
                results[topic.name] = _refused(topic.name, ErrorCode.NOT_CONTROLLER, "")
            elif topic.name == CLUSTER_METADATA_TOPIC:
                message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
                results[topic.name] = _refused(topic.name, ErrorCode.INVALID_REQUEST, message)
            elif names[topic.name] > 1:
                message = "Found multiple entries for this topic."
                row = results[topic.name] = _refused(topic.name, ErrorCode.INVALID_REQUEST, message)
                _hide_settings(row, may_describe_configs(topic.name))
            elif not may_create(topic.name):
                denial = may_create.denial(topic.name, DENIAL)
                row = results[topic.name] = _refused(topic.name, denial.code, denial.message)
                _hide_settings(row, may_describe_configs(topic.name))
            else:
                wanted.append(_new_topic(topic))
    if wanted:
        created = await services.topic_admin.create(
            wanted,
            request.timeout_ms,
            validate_only=request.validate_only,
            slices=Slices(services.clock),
            permits=mutations,
        )
        effective = _EffectiveSettings(context)
        async with services.serial_queue.begin(len(created)) as slices:
            async for name, topic_created in slices.over(created.items()):
                row = results[name] = _result(name, topic_created, effective)
                if not may_describe_configs(name):
                    row.topic_id = ZERO_UUID
                    _hide_settings(row, row.error_code != ErrorCode.NONE)
    return CreateTopicsResponse(
        throttle_time_ms=0 if mutations is None else mutations.throttle_time_ms,
        topics=[results[topic.name] for topic in request.topics],
    )


def _hide_settings(row: CreatableTopicResult, are_visible: bool) -> None:
    """Remove what only those may see who may describe the topic's settings, unless they `are_visible`."""
    if not are_visible:
        row.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        row.num_partitions = row.replication_factor = UNKNOWN_COUNT
        row.configs = []


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {each.partition_index: tuple(each.broker_ids) for each in topic.assignments},
        {each.name: each.value for each in topic.configs},
    )


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _result(name: str, created: CreatedTopic, effective: _EffectiveSettings) -> CreatableTopicResult:
    if created.outcome.code is not ErrorCode.NONE:
        row = _refused(name, created.outcome.code, created.outcome.message)
        row.topic_id = created.topic_id  # of a topic that was created and has no leader in time
        return row
    rows = effective.rows(created.config)
    return CreatableTopicResult(
        name=name,
        topic_id=created.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        topic_config_error_code=ErrorCode.NONE if rows is not None else ErrorCode.INVALID_REQUEST,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=rows or [],
    )


class _EffectiveSettings:
    """The effective settings of topics, with the source of each value. Topics with equal settings share the encoded rows."""

    def __init__(self, context: RequestContext) -> None:
        self._dynamic = context.services.dynamic_settings
        self._has_settings = context.api_version >= _SETTINGS_SINCE
        self._bytes_left = MAX_SETTINGS_BYTES
        self._version = context.api_version
        self._of_topics: dict[frozenset[tuple[str, str]], Encoded] = {}

    def rows(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs] | Encoded | None:
        """Return the rows of a topic, None if the response contains too many already."""
        if not self._has_settings:
            return []
        if self._bytes_left < 0:
            return None
        key = frozenset(own.items())
        rows = self._of_topics.get(key)
        if rows is None:
            if len(self._of_topics) == KEPT_KINDS:
                self._of_topics.clear()
            encode = CreateTopicsResponse.array_encoder(CreatableTopicConfigs, self._version)
            rows = self._of_topics[key] = encode(self._make_rows(own))
        self._bytes_left -= len(rows)
        return rows

    def _make_rows(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        dynamic = self._dynamic
        config = LogConfig.from_settings(dynamic.settings, own)
        rows = []
        for name, row in LogConfig.definitions.items():
            synonyms = dynamic.layers.topic_synonyms(name, own)
            rows.append(
                CreatableTopicConfigs(
                    name=name,
                    value=None if row.is_sensitive else config.text(name),
                    read_only=False,
                    config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                    is_sensitive=row.is_sensitive,
                )
            )
        return rows
