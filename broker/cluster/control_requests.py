"""Handling of the controller's requests: LeaderAndIsr, UpdateMetadata, StopReplica.

They come in process from the controller of this broker (`ControlHandlers`), and over the network from that of another broker
(which `refusal` checks first).

Rules: one request at a time, in the order of arrival. A request with a lower broker epoch than the
current one is for an earlier registration of this broker: STALE_BROKER_EPOCH. No epoch (-1, in old versions) and a higher one
are accepted. A sender that is not, or no longer, the controller gets STALE_CONTROLLER_EPOCH and changes nothing.
Source: Kafka KafkaApis.handleLeaderAndIsrRequest, handleUpdateMetadataRequest, handleStopReplicaRequest; KIP-380.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from metadata import delta
from metadata.store.port import StoreError
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from broker.cluster.controller_claims import ControllerClaims
    from metadata.image import ClusterImage, MetadataCache, TopicImage
    from replication.partitions import Partitions

logger = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


class TopicSettings(Protocol):
    """The part of the dynamic settings that is updated when topics are created and deleted."""

    async def learn_topics(self, topics: Iterable[str]) -> None: ...

    def forget_topic(self, topic: str) -> None: ...


class ControlRequests:
    """Implements `controller.requests.channels.ControlHandlers`. `broker_epoch` is set at each registration."""

    def __init__(
        self,
        broker_id: int,
        partitions: Partitions,
        metadata: MetadataCache,
        topic_settings: TopicSettings,
        claims: ControllerClaims,
        on_deleted: Callable[[list[TopicPartition]], None],
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._metadata = metadata
        self._topic_settings = topic_settings
        self._claims = claims
        self._on_deleted = on_deleted
        self._in_order = asyncio.Lock()
        self._is_registered = asyncio.Event()
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def registered(self, broker_epoch: int) -> None:
        """Set the epoch of a new registration: requests for earlier registrations are stale from now on."""
        self.broker_epoch = broker_epoch
        self._is_registered.set()

    # --- checks of the sender ---

    async def refusal(self, request: ControlRequest) -> ErrorCode:
        """Return NONE if a request from a connection is the controller's and for the current registration.

        A request that arrives before the broker knows its epoch waits for it: the controller may have seen the registration
        first, or may still address the one before.
        """
        await self._is_registered.wait()
        if self._is_stale(request):
            return ErrorCode.STALE_BROKER_EPOCH
        if not await self._claims.is_controller(request.controller_id, request.controller_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _is_stale(self, request: ControlRequest) -> bool:
        return UNKNOWN_BROKER_EPOCH < request.broker_epoch < self.broker_epoch

    def _late_refusal(self, request: ControlRequest) -> ErrorCode:
        """Check again when the request is processed: another controller may have sent a request meanwhile."""
        if self._is_stale(request):
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_id == self._broker_id:
            is_valid = self._claims.accept_own_epoch(request.controller_epoch)
        else:
            is_valid = self._claims.is_current(request.controller_id, request.controller_epoch)
        return ErrorCode.NONE if is_valid else ErrorCode.STALE_CONTROLLER_EPOCH

    # --- requests ---

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        async with self._in_order:
            error = self._late_refusal(request)
            if error is not ErrorCode.NONE:
                return LeaderAndIsrResponse(error_code=error)
            await self._learn_new_topics(request)
            return await self._partitions.on_leader_and_isr(request)

    async def _learn_new_topics(self, request: LeaderAndIsrRequest) -> None:
        """Read the settings of topics whose logs are about to be opened with them."""
        new = {topic for topic, index in _named(request) if self._partitions.find(topic, index) is None}
        try:
            await self._topic_settings.learn_topics(sorted(new))
        except StoreError as error:
            logger.warning("settings of new topics not read: error=%s", type(error).__name__)

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        async with self._in_order:
            error = self._late_refusal(request)
            if error is not ErrorCode.NONE:
                return StopReplicaResponse(error_code=error, partition_errors=[])
            return await self._partitions.on_stop_replica(request)

    async def on_update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        async with self._in_order:
            error = self._late_refusal(request)
            if error is not ErrorCode.NONE:
                return UpdateMetadataResponse(error_code=error)
            image, changes = delta.apply(self._metadata.image, request)
            self._publish(image, changes)
            self._resign_elsewhere(image, changes)
            return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def _publish(self, image: ClusterImage, changes: delta.Changes) -> None:
        self._metadata.publish(image)
        if changes.deleted:
            self._on_deleted(changes.deleted)
            for topic in sorted({topic for topic, _ in changes.deleted} - image.topics.keys()):
                self._topic_settings.forget_topic(topic)

    def _resign_elsewhere(self, image: ClusterImage, changes: delta.Changes) -> None:
        """Stop leading or following partitions that have no replica here any more. A broker that was not registered when a
        partition was reassigned gets no StopReplica."""
        for topic, index in changes.updated:
            row = image.partition(topic, index)
            if row is not None and self._broker_id not in row.replicas:
                self._partitions.on_elsewhere(topic, index, row.leader_epoch)

    # --- changes without a request ---

    async def on_room_again(self) -> None:
        """Start partitions that waited, because a log directory that had refused a write has space again."""
        async with self._in_order:
            await self._partitions.on_room_again()

    async def forget_topics(self, deleted: Iterable[TopicImage]) -> None:
        """Remove topics that the store has no longer."""
        async with self._in_order:
            image, changes = delta.without_topics(self._metadata.image, deleted)
            if changes.deleted:
                self._publish(image, changes)


def _named(request: LeaderAndIsrRequest) -> Iterator[TopicPartition]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, state.partition_index
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state.partition_index
