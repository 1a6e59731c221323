"""CreateTopics (key 19): new topics, by counts or by assignment.

Behaviour: every topic stands for itself; one that is named twice is refused. The answer comes when all partitions have
a leader that this broker knows, or REQUEST_TIMED_OUT after `timeout_ms`; the topic exists then all the same. Only the
controller creates topics.
Versions: v1 `validate_only` and messages; v4 -1 for the broker's default counts; v5 answers counts and effective
settings; v7 topic ids.
Source: KIP-4, KIP-464, KIP-525, KIP-516; Kafka KafkaApis.handleCreateTopicsRequest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from broker.context import RequestContext
from broker.dispatch import handles
from config.layers import Source
from config.topic import LogConfig
from controller.admin import CreatedTopic, NewTopic
from controller.topics import CLUSTER_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


@handles(CreateTopicsRequest)
async def create_topics(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    names = Counter(topic.name for topic in request.topics)
    if not context.services.controller.is_active:
        return CreateTopicsResponse(
            topics=[_refused(topic.name, ErrorCode.NOT_CONTROLLER, None) for topic in request.topics]
        )
    results: dict[str, CreatableTopicResult] = {}
    wanted: list[NewTopic] = []
    for topic in request.topics:
        if names[topic.name] > 1:
            message = "Found multiple entries for this topic."
            results[topic.name] = _refused(topic.name, ErrorCode.INVALID_REQUEST, message)
        elif topic.name == CLUSTER_METADATA_TOPIC:
            results[topic.name] = _refused(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        else:
            wanted.append(_new_topic(topic))
    created = await context.services.controller.topics.create(
        wanted, request.timeout_ms, validate_only=request.validate_only
    )
    for name, topic_created in created.items():
        results[name] = _result(name, topic_created, context)
    return CreateTopicsResponse(topics=[results[topic.name] for topic in request.topics])


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


def _result(name: str, created: CreatedTopic, context: RequestContext) -> CreatableTopicResult:
    if created.outcome.code is not ErrorCode.NONE:
        row = _refused(name, created.outcome.code, created.outcome.message)
        row.topic_id = created.topic_id  # of a topic that was made and is not led in time
        return row
    return CreatableTopicResult(
        name=name,
        topic_id=created.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=_config_rows(created.config, context) if context.api_version >= 5 else [],
    )


def _config_rows(own: Mapping[str, str], context: RequestContext) -> list[CreatableTopicConfigs]:
    """What holds for the topic, and where each value comes from."""
    dynamic = context.services.dynamic_settings
    config = LogConfig.from_settings(dynamic.settings, own)
    rows = []
    for name, row in LogConfig.definitions.items():
        synonyms = dynamic.layers.topic_synonyms(name, own)
        rows.append(
            CreatableTopicConfigs(
                name=name,
                value=None if row.is_sensitive else config.text(name),
                read_only=False,
                config_source=synonyms[0].source if synonyms else Source.DEFAULT,
                is_sensitive=row.is_sensitive,
            )
        )
    return rows
