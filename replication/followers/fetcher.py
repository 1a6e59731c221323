"""Copies some of the partitions that one source broker leads, over one connection.

    truncate and ask for those that need it  ->  Fetch for all others  ->  append, wait until written  ->  again

A partition's `FollowerState` decides what to do, `FollowedPartition` does it in the log; this module sends the requests, each
for many partitions. One request is in progress at a time. A fetch may wait at the leader for `replica.fetch.wait.max.ms`.
Partitions that are assigned meanwhile do not wait for it: `interrupt_wait` replaces the connection.

Rules: `follow` and `forget` take effect immediately, whatever is in progress: a response counts only for a partition whose row
in the session is still the requested one. `stop_following` returns when no work on the partition's log is in progress. Between
partitions of a large response other work runs.
Invariant: the offset of a fetch is the written end of the log.
Source: Kafka AbstractFetcherThread, RemoteLeaderEndPoint; KIP-227, KIP-320, KIP-595, KIP-903 (broker epoch).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from client.event_loop.broker_client import BrokerClient
from config.inter_broker_version import InterBrokerVersion
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse, PartitionData
from protocol.messages.list_offsets import ListOffsetsPartitionResponse
from protocol.messages.offset_for_leader_epoch import EpochEndOffset
from protocol.topic_partition import TopicPartition
from replication.followers.fetch_session_of_follower import FollowerSession, SessionRequest, Wanted
from replication.followers.followed_log import FollowedPartition
from replication.followers.follower import (
    AskEarliest,
    AskEpoch,
    AskLatest,
    Fetch,
    FollowerState,
    RestartAt,
    Step,
    Stopped,
    TruncateTo,
)
from replication.followers.leader_endpoint import (
    EARLIEST,
    LATEST,
    ConnectionReplaced,
    FetchSettings,
    LeaderEndpoint,
    offset_in,
)
from replication.followers.refused_fetches import Refusals
from replication.throttle import ReplicationQuota, SampledRate
from runtime.clock import Clock
from runtime.slices import Slices

if TYPE_CHECKING:
    from replication.partition import Partition

A = TypeVar("A")
S = TypeVar("S", bound=Step)

logger = logging.getLogger(__name__)

# The minimum time between two connections replaced for new partitions: the next one has to name all partitions again.
INTERRUPT_PAUSE_MS = 100
HURRY_PARTITIONS_PER_MS = 10
# Partitions whose retries are due within this time share one request.
RETRIES_TOGETHER_MS = 20
REQUEST_RATE_WINDOW_MS = 10_000
REQUEST_RATE_SAMPLES = 6


class CopyMetrics(Protocol):
    """Counts copied bytes."""

    def copied(self, size_bytes: int, *, is_reassignment: bool) -> None:
        """Count bytes of records from a leader; `is_reassignment`: for a replica that is being added here."""


class NoCopyMetrics:
    """Counts nothing."""

    def copied(self, size_bytes: int, *, is_reassignment: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class FetcherDependencies:
    """What all fetchers share. `broker_epoch` returns the current epoch of this broker."""

    clock: Clock
    version: InterBrokerVersion
    broker_epoch: Callable[[], int]
    quota: ReplicationQuota
    metrics: CopyMetrics = field(default_factory=NoCopyMetrics)


class Fetcher:
    """Fetches from one source broker. Life cycle: `run` once, in a task; it ends after `close`. `connect` creates a client for
    the source broker."""

    def __init__(
        self,
        source_id: int,
        connect: Callable[[], BrokerClient],
        settings: FetchSettings,
        dependencies: FetcherDependencies,
    ) -> None:
        self.source_id = source_id
        self._leader = LeaderEndpoint(connect, settings, dependencies.version, dependencies.broker_epoch)
        self._settings = settings
        self._clock = dependencies.clock
        self._version = dependencies.version
        self._quota = dependencies.quota
        self._metrics = dependencies.metrics
        self._followed: dict[TopicPartition, FollowedPartition] = {}
        # Partitions that are not followed any more, while work on their logs is in progress.
        self._stopping: dict[TopicPartition, FollowedPartition] = {}
        # Partitions whose log start has risen since it was last sent to the leader.
        self._shortened: dict[TopicPartition, None] = {}
        # Partitions whose next step is not a fetch, or that pause before it.
        self._pending: dict[TopicPartition, FollowedPartition] = {}
        self._session = FollowerSession()
        self._refusals = Refusals(source_id)
        self._is_closed = False
        self._failures_count = 0  # since the last response of the source broker
        self._woken = asyncio.Event()
        self._paused_until_ms = 0
        # Whether a fetch is at the leader; whether partitions came that it lacks; when a wait was last interrupted for that.
        self._is_fetching = False
        self._has_new_partitions = False
        self._interrupted_ms = -INTERRUPT_PAUSE_MS
        self._interrupt_timer: asyncio.TimerHandle | None = None
        self._request_rate = SampledRate(REQUEST_RATE_WINDOW_MS, REQUEST_RATE_SAMPLES)
        self.requests_count = 0
        self.bytes_count = 0

    def __repr__(self) -> str:
        return f"<Fetcher from broker {self.source_id}: {len(self._followed)} partitions>"

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._followed

    # --- which partitions ---

    def follow(self, partition: Partition, leader_epoch: int) -> None:
        """Copy `partition` from now on. No effect when it is copied in this epoch, into this log, already."""
        key = (partition.topic, partition.partition)
        known = self._followed.get(key)
        if known is not None and known.is_for(partition, leader_epoch):
            if not known.state.is_stopped:
                self._file(known)  # its topic may have an id now
            return
        state = FollowerState(
            partition.log,
            leader_epoch=leader_epoch,
            backoff_ms=self._settings.backoff_ms,
            truncates_on_fetch=self._version.truncates_on_fetch,
            asks_epochs=self._version.supports_offset_for_leader_epoch,
        )
        followed = self._followed[key] = FollowedPartition(partition, state, self._clock)
        partition.on_shortened = self._on_shortened
        self._session.forget(key)  # a response in progress does not count for this partition
        self._file(followed)
        self._has_new_partitions = True
        self._paused_until_ms = 0
        self._woken.set()

    def forget(self, key: TopicPartition) -> None:
        """Stop copying the partition. Only work in progress in its log goes on: see `stop_following`."""
        self._followed.pop(key, None)
        self._pending.pop(key, None)
        self._session.forget(key)

    async def stop_following(self, key: TopicPartition) -> None:
        """Stop copying the partition; return when no work on its log is in progress."""
        followed = self._followed.get(key) or self._stopping.get(key)
        self.forget(key)
        if followed is None:
            return
        self._stopping[key] = followed
        try:
            await followed.await_idle()
        finally:
            self._stopping.pop(key, None)

    def interrupt_wait(self) -> None:
        """Replace the connection when a fetch waits for records while new partitions have come. A fetch whose response is
        arriving is not interrupted: with new partitions arriving repeatedly, a large response would never complete."""
        if not self._has_new_partitions or not self._is_fetching or self._leader.is_answering:
            return
        now_ms = self._clock.monotonic_ms()
        pause_ms = INTERRUPT_PAUSE_MS + len(self._session.wanted) // HURRY_PARTITIONS_PER_MS
        early_ms = self._interrupted_ms + pause_ms - now_ms
        if early_ms <= 0:
            self._interrupted_ms = now_ms
            self._leader.replace()
        elif self._interrupt_timer is None:
            self._interrupt_timer = asyncio.get_running_loop().call_later(early_ms / 1000, self._interrupt_later)

    def _interrupt_later(self) -> None:
        self._interrupt_timer = None
        self.interrupt_wait()

    def reconnect(self) -> None:
        """Replace the connection, because the source broker has another address now."""
        self._leader.replace()
        self._paused_until_ms = 0
        self._woken.set()

    def close(self) -> None:
        """Make `run` end soon; work in progress in a log is finished."""
        self._is_closed = True
        if self._interrupt_timer is not None:
            self._interrupt_timer.cancel()
        for key in list(self._followed):
            self.forget(key)  # out of the session as well, which `run` may use once more
        self._leader.close()
        self._woken.set()

    # --- what is measured ---

    def partitions(self) -> list[Partition]:
        return [followed.partition for followed in self._followed.values()]

    def lags(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield the records behind the leader's high watermark, of each partition that has had a response."""
        for key, followed in self._followed.items():
            if followed.state.lag is not None:
                yield key, followed.state.lag

    @property
    def failed_partitions_count(self) -> int:
        return sum(followed.state.is_stopped for followed in self._followed.values())

    def requests_per_second(self, now_ms: int) -> float:
        return self._request_rate.per_second(now_ms)

    # --- the loop ---

    async def run(self) -> None:
        while not self._is_closed:
            if self._clock.monotonic_ms() < self._paused_until_ms:
                await self._wait_for_work()
                continue
            await self._prepare()
            self._has_new_partitions = False
            if self._quota.is_active:
                self._pause_throttled()
            request = self._session.request(may_use_topic_ids=self._leader.may_use_topic_ids)
            if request is None:
                await self._wait_for_work()
            else:
                await self._fetch(request, self._wait_ms())
            self._refusals.log()

    def _wait_ms(self) -> int:
        """Return how long a fetch may wait at the leader: at most until the first retry of a pausing partition is due."""
        wait_ms = self._settings.wait_max_ms
        if not self._pending:
            return wait_ms
        return max(min(wait_ms, self._next_retry_ms() - self._clock.monotonic_ms()), 0)

    def _next_retry_ms(self) -> int:
        """Return when the next retries are due; those within a moment are combined."""
        earliest_ms = min(followed.state.retry_at_ms for followed in self._pending.values())
        return -(-earliest_ms // RETRIES_TOGETHER_MS) * RETRIES_TOGETHER_MS

    async def _wait_for_work(self) -> None:
        """Wait until a partition comes, or a pause is over."""
        now_ms = self._clock.monotonic_ms()
        delay_ms: int | None = None
        if now_ms < self._paused_until_ms:
            delay_ms = self._paused_until_ms - now_ms
        elif self._pending:
            delay_ms = max(self._next_retry_ms() - now_ms, 1)
        self._woken.clear()
        if self._is_closed:
            return
        try:
            async with asyncio.timeout(None if delay_ms is None else delay_ms / 1000):
                await self._woken.wait()
        except TimeoutError:
            return

    def _file(self, followed: FollowedPartition) -> None:
        """Put the partition into the session, or among those that need another step first. Called after each event."""
        key, state = followed.key, followed.state
        step = state.step
        if isinstance(step, Fetch) and state.retry_at_ms <= self._clock.monotonic_ms():
            self._pending.pop(key, None)
            self._session.want(
                key,
                Wanted(
                    topic_id=followed.partition.topic_id,
                    fetch_offset=step.offset,
                    last_fetched_epoch=step.last_fetched_epoch,
                    log_start_offset=followed.partition.log.log_start_offset,
                    leader_epoch=state.leader_epoch,
                    max_bytes=self._settings.partition_max_bytes,
                ),
            )
            return
        self._session.forget(key)
        if isinstance(step, Stopped):
            self._pending.pop(key, None)
            self._refusals.note(key, step, step.error)
        else:
            self._pending[key] = followed

    def _refuse(self, followed: FollowedPartition, code: int) -> None:
        asked, error = followed.state.step, _error(code)
        followed.on_refused(error)
        if not followed.state.is_stopped:
            self._refusals.note(followed.key, asked, error)

    def _is_followed(self, followed: FollowedPartition) -> bool:
        return self._followed.get(followed.key) is followed

    # --- everything but fetching ---

    async def _prepare(self) -> None:
        """Truncate and ask until every partition that is not pausing can fetch."""
        while not self._is_closed:
            now_ms = self._clock.monotonic_ms()
            due = [followed for followed in self._pending.values() if followed.state.retry_at_ms <= now_ms]
            if not due or now_ms < self._paused_until_ms:
                return
            for followed in due:
                if not self._is_followed(followed):
                    continue  # it was removed while another log was truncated
                if followed.is_waiting_for_room:
                    followed.wait_for_room()  # its records would be dropped
                elif isinstance(followed.state.step, Fetch):
                    self._file(followed)  # its pause is over
                elif isinstance(followed.state.step, TruncateTo | RestartAt):
                    await followed.truncate()
                    if self._is_followed(followed):
                        self._file(followed)
            await self._ask_epochs(due)
            await self._ask_offsets(due, AskLatest)
            await self._ask_offsets(due, AskEarliest)

    async def _ask_epochs(self, partitions: Sequence[FollowedPartition]) -> None:
        asked = self._asked(partitions, AskEpoch)
        if not asked:
            return
        answers: dict[TopicPartition, EpochEndOffset] = {}
        try:
            answers = await self._leader.epochs(
                (key, followed.state.leader_epoch, step.epoch) for key, (followed, step) in asked.items()
            )
        except OSError as error:
            self._on_no_answer(error)
        for followed, answer in self._answered(asked, answers):
            if answer.error_code != ErrorCode.NONE:
                self._refuse(followed, answer.error_code)
            else:
                followed.state.on_epoch(answer.leader_epoch, answer.end_offset)
            self._file(followed)

    async def _ask_offsets(self, partitions: Sequence[FollowedPartition], kind: type[AskLatest | AskEarliest]) -> None:
        asked = self._asked(partitions, kind)
        if not asked:
            return
        timestamp = LATEST if kind is AskLatest else EARLIEST
        answers: dict[TopicPartition, ListOffsetsPartitionResponse] = {}
        try:
            answers = await self._leader.offsets(
                ((key, followed.state.leader_epoch) for key, (followed, _) in asked.items()), timestamp
            )
        except OSError as error:
            self._on_no_answer(error)
        for followed, answer in self._answered(asked, answers):
            offset = offset_in(answer)
            if answer.error_code != ErrorCode.NONE or offset < 0:
                self._refuse(followed, answer.error_code)
            elif timestamp == LATEST:
                followed.state.on_latest(offset)
            else:
                followed.state.on_earliest(offset, self._clock.monotonic_ms())
            self._file(followed)

    def _asked(
        self, partitions: Sequence[FollowedPartition], kind: type[S]
    ) -> dict[TopicPartition, tuple[FollowedPartition, S]]:
        """Return the partitions whose step is of this kind."""
        return {
            each.key: (each, each.state.step)
            for each in partitions
            if self._is_followed(each) and isinstance(each.state.step, kind)
        }

    def _answered(
        self, asked: dict[TopicPartition, tuple[FollowedPartition, S]], answers: dict[TopicPartition, A]
    ) -> Iterator[tuple[FollowedPartition, A]]:
        """Yield the partitions that still have the requested step, with their results; those without a result pause."""
        for key, (followed, step) in asked.items():
            if not self._is_followed(followed) or followed.state.step is not step:
                continue
            answer = answers.get(key)
            if answer is not None:
                yield followed, answer
            else:
                followed.state.on_no_answer(self._clock.monotonic_ms())
                self._file(followed)

    def _on_no_answer(self, error: OSError) -> None:
        if self._is_closed or isinstance(error, ConnectionReplaced):
            return
        level = logging.DEBUG if self._failures_count else logging.INFO
        logger.log(level, "source broker not reached: broker=%d error=%s", self.source_id, error)
        self._failures_count += 1
        self._paused_until_ms = self._clock.monotonic_ms() + self._settings.backoff_ms

    # --- fetching ---

    def _pause_throttled(self) -> None:
        """Leave out throttled partitions that lag, while their limit is exceeded."""
        if not self._quota.is_exceeded:
            return
        now_ms = self._clock.monotonic_ms()
        for key in list(self._session.wanted):
            followed = self._followed[key]
            if not followed.state.is_in_sync and self._quota.is_throttled(*key):
                self._session.forget(key)
                followed.state.retry_at_ms = now_ms + self._settings.backoff_ms
                self._pending[key] = followed

    async def _fetch(self, request: SessionRequest, wait_ms: int) -> None:
        self._is_fetching = True
        try:
            response = await self._leader.fetch(request, wait_ms)
        except OSError as error:
            self._session.on_no_answer()
            self._on_no_answer(error)
            return
        finally:
            self._is_fetching = False
        if self._failures_count:
            logger.info("source broker responds again: broker=%d failures=%d", self.source_id, self._failures_count)
            self._failures_count = 0
        now_ms = self._clock.monotonic_ms()
        self.requests_count += 1
        self._request_rate.record(1, now_ms)
        was_open = self._session.is_open
        if self._session.on_response(response.error_code, response.session_id):
            await self._process(response)
            return
        logger.info("fetch session ended: broker=%d error=%s", self.source_id, _error(response.error_code).name)
        if not was_open:
            self._paused_until_ms = now_ms + self._settings.backoff_ms  # a new session was refused as well

    async def _process(self, response: FetchResponse) -> None:
        slices = Slices(self._clock)
        unwritten: list[FollowedPartition] = []
        for topic in response.responses:
            name = topic.topic or self._session.topic_of(topic.topic_id)
            for row in topic.partitions:
                key = (name or "", row.partition_index)
                followed = self._followed.get(key)
                if followed is None or not self._session.is_sent(key):
                    continue  # not requested, or not followed any more
                await self._handle_partition(followed, row)
                if followed.is_writing:
                    unwritten.append(followed)
                elif self._is_followed(followed):
                    self._file(followed)
                await slices.yield_if_due()
        for followed in unwritten:
            await followed.await_idle()
            if self._is_followed(followed):
                followed.on_written()
                self._file(followed)
        self._send_log_starts()

    async def _handle_partition(self, followed: FollowedPartition, row: PartitionData) -> None:
        """Process one partition's part of a response."""
        state = followed.state
        if row.error_code != ErrorCode.NONE:
            self._refuse(followed, row.error_code)
        elif self._version.truncates_on_fetch and row.diverging_epoch.epoch >= 0:
            state.on_diverging(row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
        else:
            self._count(followed, await followed.append(row))

    def _count(self, followed: FollowedPartition, size_bytes: int) -> None:
        if not size_bytes:
            return
        self.bytes_count += size_bytes
        adding_replicas = followed.partition.assignment.adding_replicas
        self._metrics.copied(size_bytes, is_reassignment=self._settings.broker_id in adding_replicas)
        if self._quota.is_throttled(*followed.key):
            self._quota.record(size_bytes)

    def _on_shortened(self, partition: Partition) -> None:
        self._shortened[partition.topic, partition.partition] = None

    def _send_log_starts(self) -> None:
        """Send the log starts that have risen, mostly by retention, to the leader."""
        for key in self._shortened:
            if key in self._session.wanted:
                self._file(self._followed[key])
        self._shortened.clear()


def _error(code: int) -> ErrorCode:
    """Map an error code; one that a newer broker added becomes an unknown error."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
