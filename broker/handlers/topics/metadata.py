"""Metadata (key 3): brokers, topics and leaders of partitions; the first request of every client.

Behaviour: the response is made from this broker's cluster image. No topics means all in v0, none from v1 on, where null means
all. A missing topic that is requested by name is created when the client and `auto.create.topics.enable` allow it, and gets
LEADER_NOT_AVAILABLE, which clients retry; for that the client needs CREATE, on the cluster or the topic. Of topics that it may
not describe the client cannot tell whether they exist: TOPIC_AUTHORIZATION_FAILED, or no row when it asks for all topics.
Versions: v1 rack, controller, internal flag; v4 clients may forbid auto creation; v5 offline replicas; v7 leader epochs;
v8-10 authorized operations; v10 topic ids, usable in requests from v12 on; v13 an error of the whole request. A leader
without the client's listener is LISTENER_NOT_FOUND from v6 on. v0 omits replicas that cannot be reached, with
REPLICA_NOT_AVAILABLE.
Source: KIP-4, KIP-112, KIP-320, KIP-430, KIP-516; Kafka KafkaApis.handleTopicMetadataRequest, ZkMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from broker.handlers.authorized_operations import authorized_operations, cluster_operations
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from metadata.admin import topic_rules as topic_rules
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
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each


@handles(
    MetadataRequest,
    (
        on_each(Operation.DESCRIBE, ResourceType.TOPIC),
        on_each(Operation.CREATE, ResourceType.TOPIC, or_on_cluster=Operation.CREATE),
    ),
    errors=ErrorForm({"topics": "topics"}),
    versions="0-13",
)
async def metadata(
    request: MetadataRequest, context: RequestContext, may_describe: Rights, may_create: Rights
) -> MetadataResponse:
    version = context.api_version
    services = context.services
    wanted = None if _means_all(request, version) else request.topics or []
    if wanted is not None and any(_is_refused(topic, version) for topic in wanted):
        async with services.serial_queue.begin(len(wanted)) as slices:
            return await _refusal(wanted, slices)
    image = services.metadata.image
    asked = _asked(wanted, image)
    if not may_describe.are_open:
        await _hide(asked, context, may_describe, is_asked=wanted is not None)
    created: dict[str, ErrorCode] = {}
    settings = services.dynamic_settings.settings
    if asked.missing and request.allow_auto_topic_creation and settings.auto_create_topics_enable:
        uncreatable = await _uncreatable(asked, context, may_create)
        creatable = [name for name in asked.missing if name not in uncreatable]
        created = await services.topic_admin.auto_create(creatable, services.quotas.mutations(context, None))
        created |= dict.fromkeys(uncreatable, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with services.serial_queue.begin(asked.rows_count) as slices:
        view = _View(image, context.listener, version, slices)
        rows = [await view.row(topic) async for topic in slices.over(asked.topics)]
        rows += [
            _error_row(created[name] if name in created else _missing_code(name), name)
            async for name in slices.over(asked.missing)
        ]
        if version >= 8 and request.include_topic_authorized_operations:
            async for row in slices.over(rows):
                if row.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    row.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, row.name or "")
        unknown = [_error_row(ErrorCode.UNKNOWN_TOPIC_ID, None, each) async for each in slices.over(asked.unknown_ids)]
        rows = unknown + rows
        rows += [_hidden_row(name, topic_id) async for name, topic_id in slices.over(asked.hidden)]
    image = services.metadata.image
    response = MetadataResponse(
        brokers=_broker_rows(image, context),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=rows,
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _means_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _is_refused(topic: MetadataRequestTopic, version: int) -> bool:
    """Check ids and names: requests have ids from v12 on, and only a topic with an id may have no name."""
    if version < 12:
        return topic.name is None or topic.topic_id != ZERO_UUID
    return topic.name is None and topic.topic_id == ZERO_UUID


async def _refusal(wanted: Iterable[MetadataRequestTopic], slices: Slices) -> MetadataResponse:
    """Return an error for every topic: before v13 the response has none of the whole request."""
    return MetadataResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        brokers=[],
        topics=[
            _error_row(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id)
            async for topic in slices.over(wanted)
        ],
    )


def _broker_rows(image: ClusterImage, context: RequestContext) -> list[MetadataResponseBroker]:
    """Return the live brokers that have the client's listener."""
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


@dataclass(slots=True)
class _Asked:
    """The requested topics, each once: those in the image, and missing ones. A request with ids gets a response by ids
    only."""

    topics: list[TopicImage] = field(default_factory=list)
    unknown_ids: list[bytes] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    is_by_id: bool = False
    hidden: list[tuple[str | None, bytes]] = field(default_factory=list)
    """Topics that the client may not describe, by name or by id as it has named them."""

    @property
    def rows_count(self) -> int:
        topics_count = len(self.topics) + len(self.unknown_ids) + len(self.missing) + len(self.hidden)
        return topics_count + sum(len(topic.partitions) for topic in self.topics)


async def _hide(asked: _Asked, context: RequestContext, may_describe: Rights, *, is_asked: bool) -> None:
    """Move what the client may not describe to `hidden`; drop it unless the client has asked for it."""
    if not is_asked:
        may_describe = may_describe.unlogged()
    topics, missing = asked.topics, asked.missing
    async with context.services.serial_queue.begin(len(topics) + len(missing)) as slices:
        asked.topics = [topic async for topic in slices.over(topics) if may_describe(topic.name)]
        asked.missing = [name async for name in slices.over(missing) if may_describe(name)]
        if is_asked:
            asked.hidden = [
                (None, topic.topic_id) if asked.is_by_id else (topic.name, ZERO_UUID)
                for topic in topics
                if not may_describe(topic.name)
            ]
            asked.hidden += [(name, ZERO_UUID) for name in missing if not may_describe(name)]


async def _uncreatable(asked: _Asked, context: RequestContext, may_create: Rights) -> set[str]:
    """Return the missing topics that the client may not create."""
    async with context.services.serial_queue.begin(len(asked.missing)) as slices:
        return {name async for name in slices.over(asked.missing) if not may_create(name)}


def _asked(wanted: Sequence[MetadataRequestTopic] | None, image: ClusterImage) -> _Asked:
    if wanted is None:
        return _Asked(list(image.topics.values()))
    asked = _Asked()
    ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
    for topic_id in ids:
        name = image.names_by_id.get(topic_id)
        if name is None:
            asked.unknown_ids.append(topic_id)
        else:
            asked.topics.append(image.topics[name])
    if ids:
        asked.is_by_id = True
        return asked
    for name in dict.fromkeys(topic.name for topic in wanted if topic.name is not None):
        topic = image.topics.get(name)
        if topic is None:
            asked.missing.append(name)
        else:
            asked.topics.append(topic)
    return asked


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


def _hidden_row(name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    """Return a row that tells no more of the topic than the request did."""
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, is_internal=False, partitions=[]
    )


class _View:
    """The image as seen by clients of one listener, in one version."""

    def __init__(self, image: ClusterImage, listener: str, version: int, slices: Slices) -> None:
        self._image = image
        self._slices = slices
        self._reachable = {each for each in image.brokers if image.endpoint(each, listener) is not None}
        self._hides_unreachable = version == 0
        self._tells_listener = version >= 6

    async def row(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=[
                self._partition_row(index, each) async for index, each in self._slices.over(topic.partitions.items())
            ],
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
