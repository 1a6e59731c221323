"""Keeps the partitions of this broker, and applies the controller's requests to them.

    LeaderAndIsr, a higher leader epoch:  leader here    stop fetching, then lead
                                          leader alive   stop fetching, then follow the new leader
                                          no leader      open the log, and keep the role (KAFKA-1647)
    StopReplica:                          stop fetching, then drop the partition, or delete its log
    LeaderAndIsr, no room for the log:    wait, and apply the newest state when there is room

Rules: control requests are handled one at a time, in order; each yields between partitions so that clients are served
meanwhile. Of one LeaderAndIsr, partitions that are led here come first: producers wait for them. Listeners are called after the
partition has changed. The response for a partition that waits for room is NONE, because on a storage error the controller would
take the replica offline, and not request it again. A partition is offline when its log has failed, or when none could be opened
because the directory that may hold it is offline: clients get KAFKA_STORAGE_ERROR for it, wherever its leader is, and request
Metadata to find the leader.
Invariants: a request of an older controller epoch changes nothing; a partition never goes back to an older leader epoch;
records of a former leader are not appended once the partition has another leader.
Source: Kafka ReplicaManager.becomeLeaderOrFollower, stopReplicas; KIP-516 (topic ids), KIP-570 (leader epoch in StopReplica).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
from protocol.primitives import ZERO_UUID, uuid_to_text
from protocol.topic_partition import TopicPartition
from replication.dependencies import ALONE, PartitionContext, PartitionDependencies
from replication.partition import NO_EPOCH, Partition, WakeUps
from runtime.slices import Slices
from storage.free_space import NoRoom
from storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

# A special leader epoch of StopReplica: the topic is being deleted. NO_EPOCH: the sender knows none.
EPOCH_DURING_DELETE = -2


class Logs(Protocol):
    """The part of the log manager that partitions need."""

    async def log_for(
        self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = True
    ) -> PartitionLog:
        """Open the log, or create a new one. A log that is not new is not created while a directory that may contain it is
        offline. Raises KafkaError(KAFKA_STORAGE_ERROR); NoRoom when only the room for it is missing."""

    async def delete(self, topic: str, partition: int) -> None:
        """Set the log's folder aside for deletion. A missing log is no error, unless a directory that may contain it is
        offline. Raises KafkaError(KAFKA_STORAGE_ERROR)."""


class LeadershipListener(Protocol):
    """Called, in order, when this broker begins or ceases to lead or have a partition."""

    def on_leader(self, partition: Partition) -> None: ...

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None: ...


class LeadershipListeners:
    """Calls several listeners, in order. One that needs the partitions is added when it is made, before the first election."""

    def __init__(self, *listeners: LeadershipListener) -> None:
        self._listeners = list(listeners)

    def add(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)

    def on_leader(self, partition: Partition) -> None:
        for listener in self._listeners:
            listener.on_leader(partition)

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None:
        for listener in self._listeners:
            listener.on_not_leader(topic, partition, leader_epoch)


class ReplicaFetchers(Protocol):
    """Copies partitions from other leaders. `replication.followers.fetchers.Fetchers` fits it."""

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        """Copy `partition`, which is not copied now."""

    def refresh(self, partition: Partition) -> None:
        """Note that the topic of a partition, copied or not, has got an id."""

    async def stop_following(self, topic: str, partition: int) -> None:
        """Stop copying; when this returns, nothing more is appended to the partition's log. No effect on a partition that is
        not copied."""

    def follows(self, topic: str, partition: int) -> bool:
        """Whether the partition is copied."""

    def forget(self, topic: str, partition: int) -> None:
        """Stop copying a partition whose log has failed, without waiting."""

    def finish_assignment(self) -> None:
        """Called after all partitions of a request were assigned."""


class LogMover(Protocol):
    """Moves logs between directories. `replication.moves.log_moves.LogMoves` fits it."""

    def begin(self, partition: Partition) -> None:
        """Continue a move that was left by a start, or by AlterReplicaLogDirs; no effect without one."""

    async def stop(self, topic: str, partition: int) -> None:
        """Stop copying; when this returns, nothing of the partition's log is being copied."""

    async def suspend(self, topic: str, partition: int) -> None:
        """When this returns, the partition keeps its present log until `resume`."""

    def resume(self, topic: str, partition: int) -> None: ...


class NoLogMoves:
    """For brokers that move no logs."""

    def begin(self, partition: Partition) -> None: ...

    async def stop(self, topic: str, partition: int) -> None: ...

    async def suspend(self, topic: str, partition: int) -> None: ...

    def resume(self, topic: str, partition: int) -> None: ...


class NoFetchers:
    """For a broker without other brokers."""

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None: ...

    def refresh(self, partition: Partition) -> None: ...

    async def stop_following(self, topic: str, partition: int) -> None: ...

    def follows(self, topic: str, partition: int) -> bool:
        return False

    def forget(self, topic: str, partition: int) -> None: ...

    def finish_assignment(self) -> None: ...


class Partitions:
    """Registry of partitions by name and by topic id. `listener` is called at every change of leadership."""

    def __init__(
        self,
        broker_id: int,
        logs: Logs,
        call_soon: Callable[[Callable[[], None]], object],
        listener: LeadershipListener,
        *,
        dependencies: PartitionDependencies = ALONE,
        following: ReplicaFetchers | None = None,
        moving: LogMover | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._listener = listener
        self._dependencies = dependencies
        self._context = PartitionContext(broker_id, WakeUps(call_soon), dependencies)
        self._following = NoFetchers() if following is None else following
        self._moving = NoLogMoves() if moving is None else moving
        self._by_name: dict[TopicPartition, Partition] = {}
        # Topics by id, and how many partitions each of these has here. Topics from before KIP-516 have no id, and are not in
        # it.
        self._topics: dict[bytes, str] = {}
        self._sizes: Counter[bytes] = Counter()
        # Partitions without room for their logs: the topic's id, and the newest state.
        self._waiting: dict[TopicPartition, tuple[bytes, LeaderAndIsrPartitionState]] = {}
        # Partitions that should be here, and whose logs may be in a log directory that is offline.
        self._offline: set[TopicPartition] = set()
        self.controller_id = -1
        self.controller_epoch = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_name.values())

    def find(self, topic: str, partition: int) -> Partition | None:
        return self._by_name.get((topic, partition))

    def find_by_id(self, topic_id: bytes, partition: int) -> Partition | None:
        topic = self._topics.get(topic_id)
        if topic is None:
            return None
        found = self._by_name.get((topic, partition))
        if found is None:
            return None
        # The remaining log of a deleted topic has the same name as the topic created after it, and another id.
        return found if found.log.topic_id in (topic_id, ZERO_UUID) else None

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether a partition that `find` does not know is in a log directory that is offline."""
        return (topic, partition) in self._offline

    @property
    def leader_count(self) -> int:
        return sum(partition.is_leader for partition in self._by_name.values())

    # --- what the controller sends ---

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Apply a LeaderAndIsr, partition by partition; the response has an error for each."""
        if request.controller_epoch < self.controller_epoch:
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, partition_errors=[], topics=[])
        self.controller_id, self.controller_epoch = request.controller_id, request.controller_epoch
        assigned = list(_partition_states(request))
        outcome = _Assignment(self._dependencies.now_ms(), [ErrorCode.NONE] * len(assigned))
        slices = Slices(self._dependencies.now_ms)
        for leads in (True, False):
            for index, (topic_name, topic_id, state) in enumerate(assigned):
                if (state.leader == self._broker_id) is leads:
                    outcome.errors[index] = await self._assign(topic_name, topic_id, state, outcome)
                    await slices.yield_if_due()
        self._following.finish_assignment()
        self._log_assignment(request, outcome)
        topics: list[LeaderAndIsrTopicError] = []
        ungrouped: list[LeaderAndIsrPartitionError] = []
        for (topic_name, topic_id, state), error in zip(assigned, outcome.errors, strict=True):
            row = LeaderAndIsrPartitionError(
                topic_name=topic_name, partition_index=state.partition_index, error_code=error
            )
            ungrouped.append(row)
            if not topics or topics[-1].topic_id != topic_id:
                topics.append(LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=[]))
            topics[-1].partition_errors.append(row)
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE, partition_errors=ungrouped, topics=topics)

    def _log_assignment(self, request: LeaderAndIsrRequest, outcome: _Assignment) -> None:
        logger.info(
            "partitions assigned: controller=%d controller_epoch=%d partitions=%d new_leaders=%d "
            "new_followers=%d duration_ms=%d",
            request.controller_id, request.controller_epoch, len(outcome.errors), outcome.leads_count,
            outcome.follows_count, self._dependencies.now_ms() - outcome.began_ms,
        )  # fmt: skip
        if outcome.of_dead_leaders:
            logger.warning(
                "partitions not followed, their leaders are not alive: partitions=%d leaders=%s example=%s-%d",
                len(outcome.of_dead_leaders), sorted(set(outcome.of_dead_leaders.values())),
                *next(iter(outcome.of_dead_leaders)),
            )  # fmt: skip
        if outcome.without_room:
            logger.error(
                "partitions wait, there is no disk space for their logs: partitions=%d example=%s-%d",
                len(outcome.without_room), *outcome.without_room[0],
            )  # fmt: skip

    async def on_room_again(self) -> None:
        """Apply the newest state to partitions that wait for room, as far as there is room now. Handled like a control
        request."""
        outcome, taken_up = _Assignment(self._dependencies.now_ms(), []), list[TopicPartition]()
        slices = Slices(self._dependencies.now_ms)
        for key, (topic_id, state) in list(self._waiting.items()):
            error = await self._assign(key[0], topic_id, state, outcome)
            if key in self._waiting:
                break  # for the others there is no room either
            if error is ErrorCode.NONE:
                taken_up.append(key)
            await slices.yield_if_due()
        self._following.finish_assignment()
        if taken_up:
            logger.info(
                "waiting partitions started, there is disk space for their logs: partitions=%d "
                "example=%s-%d waiting_partitions=%d new_leaders=%d new_followers=%d",
                len(taken_up), *taken_up[0], len(self._waiting), outcome.leads_count, outcome.follows_count,
            )  # fmt: skip

    async def _assign(
        self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState, outcome: _Assignment
    ) -> ErrorCode:
        await self._moving.suspend(topic, state.partition_index)
        try:
            return await self._become(topic, topic_id, state, outcome)
        finally:
            self._moving.resume(topic, state.partition_index)

    async def _become(
        self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState, outcome: _Assignment
    ) -> ErrorCode:
        known = self._by_name.get((topic, state.partition_index))
        if known is not None:
            if known.log.failure is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if ZERO_UUID not in (topic_id, known.topic_id) and topic_id != known.topic_id:
                return ErrorCode.INCONSISTENT_TOPIC_ID
            if state.leader_epoch < known.assignment.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if state.leader_epoch == known.assignment.leader_epoch:
                return await self._learn_topic_id(known, topic_id)
        if self._broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        key = (topic, state.partition_index)
        waiting_id, waiting = self._waiting.get(key, (topic_id, None))
        if waiting is not None and waiting_id == topic_id and state.leader_epoch < waiting.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        error = ErrorCode.NONE
        try:
            known = await self._open(topic, topic_id, state)
            await self._change_role(known, state, outcome)
        except NoRoom:
            self._waiting[key] = (topic_id, state)
            if waiting is None:
                outcome.without_room.append(key)
            return ErrorCode.NONE
        except KafkaError as refusal:
            error = refusal.code
            if error is ErrorCode.KAFKA_STORAGE_ERROR and key not in self._by_name:
                self._offline.add(key)
        self._waiting.pop(key, None)
        return error

    async def _learn_topic_id(self, known: Partition, topic_id: bytes) -> ErrorCode:
        """Apply a state of the present leader epoch: the only possible news is the id of a topic that had none."""
        if topic_id == ZERO_UUID or known.topic_id != ZERO_UUID:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        try:
            await self._adopt_topic_id(known, topic_id)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def _adopt_topic_id(self, known: Partition, topic_id: bytes) -> None:
        await known.log.adopt_topic_id(topic_id)
        self._name(known)
        self._following.refresh(known)

    def _name(self, known: Partition) -> None:
        """Make `known` findable by its topic's id."""
        self._topics[known.topic_id] = known.topic
        self._sizes[known.topic_id] += 1

    def _unname(self, known: Partition) -> None:
        self._sizes[known.topic_id] -= 1
        if not self._sizes[known.topic_id]:
            del self._sizes[known.topic_id], self._topics[known.topic_id]

    async def _open(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> Partition:
        """Return the partition with its log. Raises KafkaError."""
        index = state.partition_index
        known = self._by_name.get((topic, index))
        if known is None:
            log = await self._logs.log_for(topic, index, topic_id, is_new=state.is_new)
            if ZERO_UUID not in (topic_id, log.topic_id) and topic_id != log.topic_id:
                _log_earlier_topic(log, topic_id, is_only_replica=len(state.replicas) == 1)
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"The log of {topic}-{index} is of topic {uuid_to_text(log.topic_id)}.",
                )
            known = Partition(log, self._context)
            self._by_name[log.key] = known
            self._offline.discard(log.key)
            if log.topic_id != ZERO_UUID:
                self._name(known)
            self._moving.begin(known)
        elif known.topic_id == ZERO_UUID != topic_id:
            await self._adopt_topic_id(known, topic_id)
        return known

    async def _change_role(self, known: Partition, state: LeaderAndIsrPartitionState, outcome: _Assignment) -> None:
        """Make the partition leader or follower. Raises KafkaError: the log failed meanwhile."""
        topic, index = known.topic, known.partition
        leads = state.leader == self._broker_id
        if not leads and not self._dependencies.is_alive(state.leader):
            # UpdateMetadata comes first, so that this is a leader that has just died: the next request names another.
            # The log is opened nevertheless, so that its high watermark stays in the checkpoint.
            outcome.of_dead_leaders[topic, index] = state.leader
            return
        await self._following.stop_following(topic, index)
        if known.log.failure is not None:
            raise known.log.failure.again()
        if leads:
            if known.become_leader(state):
                outcome.leads_count += 1
                self._listener.on_leader(known)
            return
        if known.become_follower(state):
            self._listener.on_not_leader(topic, index, state.leader_epoch)
        if known.is_leader:
            return
        # Records that it appended as leader may still be being written; the first fetch continues behind them.
        await known.log.await_appends()
        if known.log.failure is not None:
            raise known.log.failure.again()
        known.log.epochs.forget_unused()
        outcome.follows_count += 1
        self._following.follow(known, known.assignment.leader_id, known.assignment.leader_epoch)

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Drop partitions, and delete the logs of those that the request says."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, partition_errors=[])
        self.controller_id, self.controller_epoch = request.controller_id, request.controller_epoch
        rows: list[StopReplicaPartitionError] = []
        slices = Slices(self._dependencies.now_ms)
        for topic, index, leader_epoch, delete in _stopped_partitions(request):
            await self._moving.suspend(topic, index)
            try:
                error = await self._stop(topic, index, leader_epoch, delete)
            finally:
                self._moving.resume(topic, index)
            rows.append(StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=error))
            await slices.yield_if_due()
        self._following.finish_assignment()
        return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=rows)

    async def _stop(self, topic: str, index: int, leader_epoch: int, delete: bool) -> ErrorCode:
        known = self._by_name.get((topic, index))
        _, waiting = self._waiting.get((topic, index), (ZERO_UUID, None))
        current = waiting if known is None else known.assignment
        is_of_an_epoch = leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH)
        if current is not None and is_of_an_epoch and leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._waiting.pop((topic, index), None)
        if known is not None:
            if delete and known.log.failure is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR  # its files cannot be removed now; the controller retries
            if delete:
                await self._moving.stop(topic, index)
            await self._following.stop_following(topic, index)
            if delete:
                del self._by_name[topic, index]
                if known.topic_id != ZERO_UUID:
                    self._unname(known)
                known.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                known.stop()
            self._listener.on_not_leader(topic, index, leader_epoch)
        if delete:
            try:
                await self._logs.delete(topic, index)
            except KafkaError as error:
                return error.code
            self._offline.discard((topic, index))
        return ErrorCode.NONE

    def on_elsewhere(self, topic: str, index: int, leader_epoch: int) -> None:
        """Stop leading a partition that other brokers have since that epoch, as after StopReplica: no replica would copy what
        it acknowledged. Its log stays."""
        known = self._by_name.get((topic, index))
        if known is not None and known.is_leader and known.assignment.leader_epoch < leader_epoch:
            logger.info(
                "partition has another leader: topic=%s partition=%d leader_epoch=%d", topic, index, leader_epoch
            )
            known.stop()
            self._listener.on_not_leader(topic, index, leader_epoch)

    def on_directory_failed(self, directory: str) -> None:
        """Drop the partitions of a failed log directory; requests for them get KAFKA_STORAGE_ERROR from now on."""
        folder = directory.rstrip("/") + "/"
        for partition in list(self._by_name.values()):
            if partition.log.directory.startswith(folder):
                self._following.forget(partition.topic, partition.partition)
                partition.stop(ErrorCode.KAFKA_STORAGE_ERROR)
                self._listener.on_not_leader(partition.topic, partition.partition, partition.assignment.leader_epoch)


@dataclass(slots=True)
class _Assignment:
    """The outcome of one LeaderAndIsr: the error of each row, and counts for the log line."""

    began_ms: int
    errors: list[ErrorCode]
    leads_count: int = 0
    follows_count: int = 0
    of_dead_leaders: dict[TopicPartition, int] = field(default_factory=dict)
    # Only partitions that did not wait before.
    without_room: list[TopicPartition] = field(default_factory=list)


def _log_earlier_topic(log: PartitionLog, topic_id: bytes, *, is_only_replica: bool) -> None:
    """Log that the log belongs to an earlier topic of this name, which was deleted while this broker was down, or belongs to a
    store that was lost."""
    resolution = "remove the folder, and the replica is copied again"
    if is_only_replica:  # with other replicas, two histories of one epoch would be taken for one
        resolution = "remove its partition.metadata to serve these records, or the folder to delete them"
    logger.error(
        "log of an earlier topic, not served; stop the broker to resolve it: path=%s topic_id=%s "
        "current_topic_id=%s resolution=%s",
        log.directory, uuid_to_text(log.topic_id), uuid_to_text(topic_id), resolution,
    )  # fmt: skip


def _partition_states(request: LeaderAndIsrRequest) -> Iterator[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _stopped_partitions(request: StopReplicaRequest) -> Iterator[tuple[str, int, int, bool]]:
    """Yield (topic, partition, leader epoch, delete) from whichever of the three forms the request's version has."""
    for old in request.ungrouped_partitions:
        yield old.topic_name, old.partition_index, NO_EPOCH, request.delete_partitions
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield topic.name, index, NO_EPOCH, request.delete_partitions
    for states in request.topic_states:
        for state in states.partition_states:
            yield states.topic_name, state.partition_index, state.leader_epoch, state.delete_partition
