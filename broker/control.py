"""What this broker does when the controller speaks: LeaderAndIsr, UpdateMetadata, StopReplica.

The same requests come in process from our own controller and, in a cluster, over the wire from another one.

Rules: one request at a time, in the order of arrival. A request that carries a lower broker epoch than ours was meant for
an earlier life of this broker: STALE_BROKER_EPOCH.
Source: Kafka KafkaApis.handleLeaderAndIsrRequest, handleUpdateMetadataRequest, handleStopReplicaRequest; KIP-380.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from controller.store import StoreError
from coordinator.host import GROUP_METADATA_TOPIC
from metadata import delta
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from coordinator.host import GroupCoordinator
    from metadata.image import MetadataCache
    from replication.partition import Partition
    from replication.partitions import Partitions

logger = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1


class TopicSettings(Protocol):
    """The part of the dynamic settings that follows topics as they come and go."""

    async def learn_topics(self, topics: Iterable[str]) -> None: ...

    def forget_topic(self, topic: str) -> None: ...


class CoordinatorElections:
    """Tells the group coordinator which partitions of its topic this broker leads. Fits `LeadershipListener`.

    `groups` is set once both sides are made: each needs the other.
    """

    groups: GroupCoordinator

    def on_leader(self, partition: Partition) -> None:
        if partition.topic == GROUP_METADATA_TOPIC:
            self.groups.on_leadership(partition.partition, partition.leader_epoch)

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None:
        if topic == GROUP_METADATA_TOPIC:
            self.groups.on_resignation(partition, leader_epoch)


class ControlRequests:
    """Fits `controller.channels.ControlHandlers`. `broker_epoch` is set at registration."""

    def __init__(
        self,
        partitions: Partitions,
        metadata: MetadataCache,
        topic_settings: TopicSettings,
        on_deleted: Callable[[list[tuple[str, int]]], None],
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._topic_settings = topic_settings
        self._on_deleted = on_deleted
        self._in_order = asyncio.Lock()
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def _is_stale(self, broker_epoch: int) -> bool:
        return UNKNOWN_BROKER_EPOCH < broker_epoch < self.broker_epoch

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        async with self._in_order:
            if self._is_stale(request.broker_epoch):
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
            await self._learn_new_topics(request)
            return await self._partitions.on_leader_and_isr(request)

    async def _learn_new_topics(self, request: LeaderAndIsrRequest) -> None:
        """A log opens with its topic's settings, so they must be here first."""
        new = {
            topic.topic_name
            for topic in request.topic_states
            for state in topic.partition_states
            if self._partitions.find(topic.topic_name, state.partition_index) is None
        }
        try:
            await self._topic_settings.learn_topics(sorted(new))
        except StoreError as error:
            logger.warning("settings of new topics not read: error=%s", type(error).__name__)

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        async with self._in_order:
            if self._is_stale(request.broker_epoch):
                return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, partition_errors=[])
            return await self._partitions.on_stop_replica(request)

    async def on_update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        async with self._in_order:
            if self._is_stale(request.broker_epoch):
                return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
            if request.controller_epoch < self._partitions.controller_epoch:
                return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            image, changes = delta.apply(self._metadata.image, request)
            self._metadata.publish(image)
            if changes.deleted:
                self._on_deleted(changes.deleted)
                for topic in {topic for topic, _ in changes.deleted} - image.topics.keys():
                    self._topic_settings.forget_topic(topic)
            return UpdateMetadataResponse(error_code=ErrorCode.NONE)
