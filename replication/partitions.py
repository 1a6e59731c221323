"""The partitions this broker holds, and what the controller's requests do to them.

Rules: control requests are handled one at a time, in order; each yields between partitions so that clients are served
meanwhile. What a change means to a coordinator is told to the listeners after the partition has changed.
Invariants: a request of an older controller epoch changes nothing; a partition never goes back to an older leader epoch.
Source: Kafka ReplicaManager.becomeLeaderOrFollower, stopReplicas; KIP-516 (topic ids), KIP-570 (leader epoch in StopReplica).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from protocol.primitives import ZERO_UUID
from replication.partition import Partition, WakeUps
from storage.log import PartitionLog

# Leader epochs of StopReplica that carry no epoch: "deletion goes on" and "sender knows none".
EPOCH_DURING_DELETE = -2
NO_EPOCH = -1


class Logs(Protocol):
    """The part of the log manager that partitions need."""

    async def log_for(
        self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = True
    ) -> PartitionLog:
        """Open the log, or make it where a new one belongs. One that is not new is not made while a directory that may
        hold it is offline. Raises KafkaError(KAFKA_STORAGE_ERROR)."""

    async def delete(self, topic: str, partition: int) -> None:
        """Set the log's folder aside for deletion. Missing is no error, unless a directory that may hold it is offline.

        Raises KafkaError(KAFKA_STORAGE_ERROR)."""


class LeadershipListener(Protocol):
    """Told, in order, when this broker begins or ends to lead or hold a partition."""

    def on_leader(self, partition: Partition) -> None: ...

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None: ...


class Partitions:
    """Registry by name and by topic id. `listener` is told of every change of leadership."""

    def __init__(
        self,
        broker_id: int,
        logs: Logs,
        call_soon: Callable[[Callable[[], None]], object],
        listener: LeadershipListener,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._listener = listener
        self._wake_ups = WakeUps(call_soon)
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self.controller_id = -1
        self.controller_epoch = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_name.values())

    def find(self, topic: str, partition: int) -> Partition | None:
        return self._by_name.get((topic, partition))

    def find_by_id(self, topic_id: bytes, partition: int) -> Partition | None:
        return self._by_id.get((topic_id, partition))

    @property
    def leader_count(self) -> int:
        return sum(partition.is_leader for partition in self._by_name.values())

    # --- what the controller sends ---

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Become what the controller says, partition by partition; each has its own error in the answer."""
        if request.controller_epoch < self.controller_epoch:
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, partition_errors=[], topics=[])
        self.controller_id, self.controller_epoch = request.controller_id, request.controller_epoch
        topics: list[LeaderAndIsrTopicError] = []
        ungrouped: list[LeaderAndIsrPartitionError] = []
        for topic_name, topic_id, state in _partition_states(request):
            error = await self._become(topic_name, topic_id, state)
            row = LeaderAndIsrPartitionError(
                topic_name=topic_name, partition_index=state.partition_index, error_code=error
            )
            ungrouped.append(row)
            if not topics or topics[-1].topic_id != topic_id:
                topics.append(LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=[]))
            topics[-1].partition_errors.append(row)
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE, partition_errors=ungrouped, topics=topics)

    async def _become(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> ErrorCode:
        key = (topic, state.partition_index)
        known = self._by_name.get(key)
        if known is not None:
            if ZERO_UUID not in (topic_id, known.topic_id) and topic_id != known.topic_id:
                return ErrorCode.INCONSISTENT_TOPIC_ID
            if state.leader_epoch <= known.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known is None:
            try:
                log = await self._logs.log_for(topic, state.partition_index, topic_id, is_new=state.is_new)
            except KafkaError as error:
                return error.code
            known = Partition(log, self._broker_id, self._wake_ups)
            self._by_name[key] = known
            self._by_id[log.topic_id, state.partition_index] = known
        if state.leader == self._broker_id:
            if known.become_leader(state):
                self._listener.on_leader(known)
        elif known.become_follower(state):
            self._listener.on_not_leader(topic, state.partition_index, state.leader_epoch)
        return ErrorCode.NONE

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Let go of partitions, and delete those that the request says."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, partition_errors=[])
        self.controller_id, self.controller_epoch = request.controller_id, request.controller_epoch
        rows: list[StopReplicaPartitionError] = []
        for topic, index, leader_epoch, delete in _stopped_partitions(request):
            error = await self._stop(topic, index, leader_epoch, delete)
            rows.append(StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=error))
        return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=rows)

    async def _stop(self, topic: str, index: int, leader_epoch: int, delete: bool) -> ErrorCode:
        known = self._by_name.get((topic, index))
        if known is not None:
            is_stale = leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH) and (
                leader_epoch < known.leader_epoch or (leader_epoch == known.leader_epoch and not delete)
            )
            if is_stale:
                return ErrorCode.FENCED_LEADER_EPOCH
            if delete and known.log.failure is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR  # its files cannot go now; the controller asks again later
            if delete:
                del self._by_name[topic, index]
                self._by_id.pop((known.topic_id, index), None)
                known.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                known.stop()
            self._listener.on_not_leader(topic, index, leader_epoch)
        if delete:
            try:
                await self._logs.delete(topic, index)
            except KafkaError as error:
                return error.code
        return ErrorCode.NONE

    def on_directory_failed(self, directory: str) -> None:
        """Partitions of a failed log directory answer KAFKA_STORAGE_ERROR from now on."""
        for partition in list(self._by_name.values()):
            if partition.log.directory.startswith(directory):
                partition.stop(ErrorCode.KAFKA_STORAGE_ERROR)
                self._listener.on_not_leader(partition.topic, partition.partition, partition.leader_epoch)


def _partition_states(request: LeaderAndIsrRequest) -> Iterator[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _stopped_partitions(request: StopReplicaRequest) -> Iterator[tuple[str, int, int, bool]]:
    """(topic, partition, leader epoch, delete) in whichever of the three forms the request's version has."""
    for old in request.ungrouped_partitions:
        yield old.topic_name, old.partition_index, NO_EPOCH, request.delete_partitions
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield topic.name, index, NO_EPOCH, request.delete_partitions
    for states in request.topic_states:
        for state in states.partition_states:
            yield states.topic_name, state.partition_index, state.leader_epoch, state.delete_partition
