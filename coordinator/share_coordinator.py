"""The share coordinator of this broker: what is stored of share partitions, by the shards of their keys.

Handlers call it for each share partition of a request, and so does the client of this broker for those that are stored here. It
finds the shard, and refuses when that is on another broker or still loading.

Rules: everything runs on the event loop that serves requests, periodic work too. An operation takes a function that gets its
outcome, at once or later: no task and no future for each share partition.
Source: KIP-932; Kafka ShareCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from coordinator.runtime.contract import Command, Effect
from coordinator.runtime.coordinator_runtime import CoordinatorDependencies, CoordinatorRuntime, PeriodicTask
from coordinator.runtime.shard_context import Operation, ShardContext, ShardPorts
from coordinator.share.outcomes import NOT_AVAILABLE, ShareOperation, ShareOutcome, not_done, refused
from coordinator.share.settings import ShareStateSettings
from coordinator.share.shard import DeleteRedundant, ShareShard, StateWrite
from coordinator.share.state import ShareKey
from coordinator.share_observation import ShareObserver
from metadata.image import SHARE_GROUP_STATE_TOPIC, ClusterImage
from protocol.errors import ErrorCode
from protocol.records.compression import Compression
from protocol.share_states import share_key
from runtime.recent_times import RecentTimes

Done: TypeAlias = Callable[[ShareOutcome], None]
"""Gets the outcome of an operation, once. It raises nothing."""
ShareContext: TypeAlias = ShardContext[ShareShard]


@dataclass(frozen=True, slots=True)
class ShareCoordinatorSettings:
    """`share.coordinator.state.topic.compression.codec`, `share.coordinator.write.timeout.ms`,
    `share.coordinator.state.topic.prune.interval.ms`; and those of the shards."""

    states: ShareStateSettings = field(default_factory=ShareStateSettings)
    compression: Compression = Compression.NONE
    write_timeout_ms: int = 5_000
    prune_interval_ms: int = 300_000


class ShareCoordinator:
    """Owned by the broker. `start` before the first request, `close` after the last; elections may precede `start`.

    `image` is the cluster's, now. `delete_records` deletes the records of a partition of the topic below an offset.
    """

    def __init__(
        self,
        settings: ShareCoordinatorSettings,
        dependencies: CoordinatorDependencies,
        image: Callable[[], ClusterImage],
        delete_records: Callable[[int, int], None],
    ) -> None:
        self._clock = dependencies.clock
        self._image = image
        self._topics = image().names_by_id
        self._delete_records = delete_records
        self.write_times = RecentTimes()
        """How long it took to store changes."""
        self.deleted_to: dict[int, int] = {}
        """By partition that this broker has led, the offset up to which its records were found redundant last."""
        self._observer = ShareObserver(dependencies.clock)
        ports: ShardPorts[ShareShard] = ShardPorts(
            topic=SHARE_GROUP_STATE_TOPIC,
            clock=dependencies.clock,
            timer=dependencies.timer,
            writer=dependencies.writer,
            reader=dependencies.reader,
            observe=self._observer.observe,
            carry_out=self._carry_out,
            compression=settings.compression,
            commit_timeout_ms=settings.write_timeout_ms,
        )
        self.runtime = CoordinatorRuntime(
            lambda partition, _leader_epoch: ShareShard(partition, settings.states, self._partitions_count),
            ports,
            dependencies.tasks,
            dependencies.partitions_count,
            [
                PeriodicTask(
                    "write states of idle share partitions again", settings.states.cold_snapshot_interval_ms, self._tidy
                ),
                PeriodicTask("delete redundant states of share partitions", settings.prune_interval_ms, _prune),
            ],
        )

    def start(self) -> None:
        self.runtime.start()

    def close(self) -> None:
        """Answer all waiting requests."""
        self.runtime.close()

    @property
    def writes_count(self) -> int:
        """The changes that were asked for since this broker started."""
        return self._observer.writes_count

    def partition_for(self, key: str) -> int | None:
        """Return the key's partition of `__share_group_state`, None as long as the topic is not known."""
        return self.runtime.partition_for(key)

    # --- topics ----------------------------------------------------------------------------------------------------

    def on_image_changed(self, image: ClusterImage) -> None:
        """The states of share partitions whose topics were deleted are deleted."""
        before, self._topics = self._topics, image.names_by_id
        if before is not self._topics and before.keys() - self._topics.keys():
            for context in self.runtime.contexts():
                for keys in context.shard.keys_of_unknown_topics():
                    context.run(partial(_remove, keys))

    def _partitions_count(self, topic_id: bytes) -> int:
        image = self._image()
        name = image.names_by_id.get(topic_id)
        return 0 if name is None else len(image.topics[name].partitions)

    # --- periodic work ---------------------------------------------------------------------------------------------

    def _tidy(self, shard: ShareShard) -> Iterator[Operation[ShareShard]]:
        # Before the first image that has topics, none of them counts as deleted.
        if SHARE_GROUP_STATE_TOPIC in self._image().topics:
            for keys in shard.keys_of_unknown_topics():
                yield partial(_remove, keys)
        for keys in shard.snapshots_due(self._clock.wall_ms()):
            yield partial(_write_again, keys)

    def _carry_out(self, command: Command, context: ShareContext) -> None:
        assert isinstance(command, DeleteRedundant), command
        self.deleted_to[context.partition] = command.offset
        self._delete_records(context.partition, command.offset)

    # --- one share partition ---------------------------------------------------------------------------------------

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, done: Done) -> None:
        self._run(
            ShareOperation.INITIALIZE, key, done,
            lambda shard, now_ms: shard.initialize(key, state_epoch, start_offset, done, now_ms),
        )  # fmt: skip

    def read(self, key: ShareKey, leader_epoch: int, done: Done) -> None:
        self._run(ShareOperation.READ, key, done, lambda shard, now_ms: shard.read(key, leader_epoch, done, now_ms))

    def read_summary(self, key: ShareKey, done: Done) -> None:
        self._run(ShareOperation.SUMMARY, key, done, lambda shard, _: shard.read_summary(key, done))

    def write(self, key: ShareKey, change: StateWrite, done: Done) -> None:
        started_ms = self._clock.monotonic_ms()

        def written(outcome: ShareOutcome) -> None:
            now_ms = self._clock.monotonic_ms()
            self.write_times.record(now_ms - started_ms, now_ms)
            done(outcome)

        self._run(ShareOperation.WRITE, key, done, lambda shard, now_ms: shard.write(key, change, written, now_ms))

    def delete(self, key: ShareKey, done: Done) -> None:
        self._run(ShareOperation.DELETE, key, done, lambda shard, _: shard.delete(key, done))

    def _run(self, operation: ShareOperation, key: ShareKey, done: Done, run: Operation[ShareShard]) -> None:
        context = self.runtime.shard_of(share_key(*key))
        if isinstance(context, ErrorCode):
            if self.runtime.is_active:
                done(not_done(operation, context))
            else:
                done(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_AVAILABLE))
            return
        context.run(run)


def _remove(keys: Sequence[ShareKey], shard: ShareShard, _now_ms: int) -> list[Effect]:
    return shard.remove(keys)


def _write_again(keys: Sequence[ShareKey], shard: ShareShard, now_ms: int) -> list[Effect]:
    return shard.write_again(keys, now_ms)


def _prune(_shard: ShareShard) -> Iterator[Operation[ShareShard]]:
    yield _delete_redundant


def _delete_redundant(shard: ShareShard, _now_ms: int) -> list[Effect]:
    return shard.delete_redundant()
