"""Metadata (key 3): brokers, topics, and who leads what; the first request of every client.

Behaviour: answers from this broker's cluster image. No topics means all in v0, none from v1 on, where null means all. A
missing topic that was asked for by name is created when the client and `auto.create.topics.enable` allow it, and is
answered LEADER_NOT_AVAILABLE then; the client asks again. Without an authorizer every operation is authorized.
Versions: v1 rack, controller, internal flag; v4 clients may forbid auto creation; v5 offline replicas; v7 leader
epochs; v8-10 authorized operations; v10 topic ids, usable in requests from v12 on. A leader without the client's
listener is LISTENER_NOT_FOUND from v6 on. v0 leaves out replicas that cannot be reached and says REPLICA_NOT_AVAILABLE.
Source: KIP-4, KIP-112, KIP-320, KIP-430, KIP-516; Kafka KafkaApis.handleTopicMetadataRequest, ZkMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.context import RequestContext
from broker.dispatch import handles
from controller import topics as topic_rules
from metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage, is_internal
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.primitives import ZERO_UUID

# Bits of AclOperation that apply to a topic and to the cluster, as a broker without an authorizer grants them.
TOPIC_OPERATIONS = 0b1101_1111_1000  # read write create delete alter describe describe_configs alter_configs
CLUSTER_OPERATIONS = (
    0b1_1111_1010_0000  # create alter describe cluster_action describe_configs alter_configs idempotent_write
)


@handles(MetadataRequest)
async def metadata(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    version = context.api_version
    wanted = None if _means_all(request, version) else request.topics or []
    if wanted is not None and any(_is_refused(topic, version) for topic in wanted):
        return _refusal(wanted)
    settings = context.services.dynamic_settings.settings
    may_create = request.allow_auto_topic_creation and settings.auto_create_topics_enable
    rows = await _topic_rows(wanted, context, may_create=may_create)
    if version >= 8 and request.include_topic_authorized_operations:
        for row in rows:
            row.topic_authorized_operations = TOPIC_OPERATIONS
    image = context.services.metadata.image
    response = MetadataResponse(
        brokers=_broker_rows(image, context),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=rows,
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _means_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _is_refused(topic: MetadataRequestTopic, version: int) -> bool:
    """Ids stand in requests from v12 on, and only a topic that is named by its id may have no name."""
    if version < 12:
        return topic.name is None or topic.topic_id != ZERO_UUID
    return topic.name is None and topic.topic_id == ZERO_UUID


def _refusal(wanted: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """There is no place for one error of the whole request: every topic gets it."""
    return MetadataResponse(
        brokers=[],
        topics=[_error_row(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in wanted],
    )


def _broker_rows(image: ClusterImage, context: RequestContext) -> list[MetadataResponseBroker]:
    """The live brokers that have the client's listener."""
    rows = []
    for broker in image.brokers.values():
        endpoint = context.services.advertised.endpoint(
            image, broker.broker_id, context.listener, context.local_address
        )
        if endpoint is not None:
            rows.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return rows


async def _topic_rows(
    wanted: Sequence[MetadataRequestTopic] | None, context: RequestContext, *, may_create: bool
) -> list[MetadataResponseTopic]:
    image = context.services.metadata.image
    view = _View(image, context.listener, context.api_version)
    if wanted is None:
        return [view.row(topic) for topic in image.topics.values()]
    ids = list(dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID))
    if ids:  # a request with ids is answered by ids alone
        unknown = [each for each in ids if each not in image.names_by_id]
        rows = [_error_row(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id) for topic_id in unknown]
        return rows + [view.row(image.topics[image.names_by_id[each]]) for each in ids if each in image.names_by_id]
    names = list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None))
    rows = [view.row(image.topics[name]) for name in names if name in image.topics]
    missing = [name for name in names if name not in image.topics]
    if missing and may_create:
        codes = await context.services.controller.topics.auto_create(missing)
    else:
        codes = {name: _missing_code(name) for name in missing}
    return rows + [_error_row(codes[name], name) for name in missing]


def _missing_code(name: str) -> ErrorCode:
    is_legal = topic_rules.is_legal_name(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION


def _error_row(code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=[],
    )


class _View:
    """The image as clients of one listener see it in one version."""

    def __init__(self, image: ClusterImage, listener: str, version: int) -> None:
        self._image = image
        self._reachable = {each for each in image.brokers if image.endpoint(each, listener) is not None}
        self._hides_unreachable = version == 0
        self._tells_listener = version >= 6

    def row(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=[self._partition_row(index, each) for index, each in topic.partitions.items()],
        )

    def _partition_row(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        replicas, isr = self._shown(partition.replicas), self._shown(partition.isr)
        if partition.leader not in self._reachable:
            is_alive = partition.leader in self._image.brokers
            code = ErrorCode.LISTENER_NOT_FOUND if is_alive and self._tells_listener else ErrorCode.LEADER_NOT_AVAILABLE
        elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
        else:
            code = ErrorCode.NONE
        return MetadataResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=partition.leader if partition.leader in self._reachable else NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=list(partition.offline_replicas),
        )

    def _shown(self, broker_ids: Sequence[int]) -> list[int]:
        if not self._hides_unreachable:
            return list(broker_ids)
        return [each for each in broker_ids if each in self._reachable]
