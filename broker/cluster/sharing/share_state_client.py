r"""Asks share coordinators for what is stored of share partitions, and has them store what changes.

    group coordinator, leaders of partitions --> the coordinator in this process
                                             \-> a queue of each other broker --> one request at a time

Rules: the leader of the key's partition of `__share_group_state` is the coordinator. What may pass (a coordinator that moves or
loads, replicas that lack, a connection that breaks) is asked again for `limit_ms`; every operation may be done twice.
The changes of one share partition are stored in their order: one is written at a time, what comes meanwhile is written together
afterwards, and fails with the one before it, on which it builds.
Invariants: each operation gets one outcome; when the client is closed, COORDINATOR_NOT_AVAILABLE.
Source: KIP-932; Kafka DefaultStatePersister, PersisterStateManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.cluster.sharing.state_requests import StateAsk, state_outcomes, state_request
from coordinator.runtime.partitioner import partition_for
from coordinator.share.batches import KeptBatch
from coordinator.share.outcomes import ShareOperation, ShareOutcome, refused
from coordinator.share.shard import StateWrite
from coordinator.share.state import FIRST_EPOCH, ShareKey, Snapshot
from metadata.image import SHARE_GROUP_STATE_TOPIC
from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import (
    NO_DELIVERY_COMPLETE_COUNT,
    NO_START_OFFSET,
    DeliveryState,
    StateBatch,
    share_key,
)
from replication.sharing.share_partition import StoredShare
from runtime.rare_lines import RareLines
from runtime.slices import Slices

if TYPE_CHECKING:
    from client.event_loop.broker_client import BrokerClient
    from coordinator.share_coordinator import ShareCoordinator
    from metadata.image import ClusterImage, MetadataCache
    from runtime.clock import Clock
    from runtime.tasks import TaskScope
    from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS = 20
LONGEST_PAUSE_MS = 500
ROWS_PER_REQUEST = 1_000
_MAY_PASS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_ENDED_STATES = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})

Place = tuple[bytes, int]
"""A topic id and a partition."""


class StateSummary(NamedTuple):
    """Where a share partition is. A start offset of -1: nothing was read of it; a count of -1: not known."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


_NOTHING_STORED = StateSummary(FIRST_EPOCH, FIRST_EPOCH, NO_START_OFFSET, NO_DELIVERY_COMPLETE_COUNT)


class _Lane:
    """What waits for one other broker."""

    def __init__(self, client: BrokerClient) -> None:
        self.client = client
        self.waiting: dict[tuple[ShareOperation, str], list[StateAsk]] = {}
        """By operation and group, those that have waited longest first: each is a request."""
        self.is_in_flight = False

    def add(self, ask: StateAsk) -> None:
        self.waiting.setdefault((ask.operation, ask.key.group_id), []).append(ask)

    def take(self) -> list[StateAsk]:
        """Take what goes into the next request, which names no share partition twice."""
        kind = next(iter(self.waiting))
        asked = self.waiting.pop(kind)
        taken: dict[ShareKey, StateAsk] = {}
        for ask in asked[:ROWS_PER_REQUEST]:
            taken.setdefault(ask.key, ask)
        if len(taken) < len(asked):
            self.waiting[kind] = [ask for ask in asked if taken.get(ask.key) is not ask]
        return list(taken.values())

    def take_all(self) -> list[StateAsk]:
        waiting, self.waiting = self.waiting, {}
        return [ask for asked in waiting.values() for ask in asked]


class ShareStateClient:
    """Implements `replication.sharing.dependencies.ShareStates` and `coordinator.group.share.state_keeping.StateKeeper`. Owned
    by the broker; `close` before its tasks end.

    `local` is the coordinator of this broker, `connect` makes a client for another one, `ensure_topic` starts to create the
    internal topic.
    """

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        local: ShareCoordinator,
        connect: Callable[[int], BrokerClient],
        ensure_topic: Callable[[str], None],
        *,
        clock: Clock,
        timer: Timer,
        tasks: TaskScope,
        limit_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._local = local
        self._connect = connect
        self._ensure_topic = ensure_topic
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._limit_ms = limit_ms
        self._lines = RareLines(clock)
        self._lanes: dict[int, _Lane] = {}
        self._pausing: dict[StateAsk, TimerEntry] = {}
        self._writes: dict[ShareKey, list[StateAsk]] = {}
        """By share partition with a write under way, those that wait for its end."""
        self._is_closed = False
        metadata.subscribe(self._on_image)

    def close(self) -> None:
        self._is_closed = True
        self._metadata.unsubscribe(self._on_image)
        waiting = list(self._pausing)
        for entry in self._pausing.values():
            entry.cancel()
        self._pausing.clear()
        for broker_id in list(self._lanes):
            waiting += self._leave(broker_id)
        for ask in waiting:
            self._end(ask, refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # --- leaders of partitions -------------------------------------------------------------------------------------

    async def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> StoredShare:
        """Implement `ShareStates.read`. Raises KafkaError."""
        key = ShareKey(group_id, topic_id, partition)
        ask = StateAsk(ShareOperation.READ, key, self._until_ms(), leader_epoch=leader_epoch)
        [outcome] = await self._all([ask])
        if outcome.error is not ErrorCode.NONE:
            raise KafkaError(outcome.error, outcome.message)
        assert outcome.snapshot is not None
        return _stored(outcome.snapshot)

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Implement `ShareStates.write`."""
        key = ShareKey(group_id, topic_id, partition)
        ask = StateAsk(
            ShareOperation.WRITE, key, self._until_ms(), lambda outcome: done(outcome.error), state_epoch, leader_epoch,
            start_offset, delivery_complete_count,
            tuple([KeptBatch(first, last, count, state) for first, last, state, count in batches]),
        )  # fmt: skip
        following = self._writes.get(key)
        if following is None:
            self._writes[key] = []
            self._write([ask])
        else:
            following.append(ask)

    def _write(self, asked: list[StateAsk]) -> None:
        """Write the changes of one share partition together; the last of them is where it stands now."""
        last = asked[-1]
        batches = last.batches if len(asked) == 1 else tuple(batch for ask in asked for batch in ask.batches)
        self._begin(
            StateAsk(
                last.operation, last.key, last.until_ms, partial(self._on_written, asked), last.state_epoch,
                last.leader_epoch, last.start_offset, last.delivery_complete_count, batches,
            )
        )  # fmt: skip

    def _on_written(self, asked: list[StateAsk], outcome: ShareOutcome) -> None:
        key = asked[0].key
        for ask in asked:
            ask.done(outcome)
        following = self._writes.pop(key)
        if outcome.error is not ErrorCode.NONE:
            for ask in following:
                ask.done(outcome)
        elif following:
            self._writes[key] = []
            self._write(following)

    # --- the group coordinator -------------------------------------------------------------------------------------

    async def initialize(self, group_id: str, rows: Collection[tuple[bytes, int, int, int]]) -> dict[Place, ErrorCode]:
        """Give share partitions their first state; rows of topic id, partition, state epoch, start offset."""
        until_ms = self._until_ms()
        asked = [
            StateAsk(
                ShareOperation.INITIALIZE, ShareKey(group_id, topic_id, partition), until_ms,
                state_epoch=state_epoch, start_offset=start_offset,
            )
            for topic_id, partition, state_epoch, start_offset in rows
        ]  # fmt: skip
        return _errors(asked, await self._all(asked))

    async def read_summary(
        self, group_id: str, rows: Collection[tuple[bytes, int, int]]
    ) -> dict[Place, StateSummary | ErrorCode]:
        """Return where share partitions are; rows of topic id, partition, leader epoch."""
        until_ms = self._until_ms()
        asked = [
            StateAsk(
                ShareOperation.SUMMARY, ShareKey(group_id, topic_id, partition), until_ms, leader_epoch=leader_epoch
            )
            for topic_id, partition, leader_epoch in rows
        ]
        found: dict[Place, StateSummary | ErrorCode] = {}
        for ask, (error, _, snapshot) in zip(asked, await self._all(asked), strict=True):
            place = ask.key.topic_id, ask.key.partition
            found[place] = error if error is not ErrorCode.NONE else _summary(snapshot)
        return found

    async def delete(self, group_id: str, rows: Collection[Place]) -> dict[Place, ErrorCode]:
        """Delete what is stored of share partitions."""
        until_ms = self._until_ms()
        asked = [
            StateAsk(ShareOperation.DELETE, ShareKey(group_id, topic_id, partition), until_ms)
            for topic_id, partition in rows
        ]
        return _errors(asked, await self._all(asked))

    async def _all(self, asked: list[StateAsk]) -> list[ShareOutcome]:
        """Ask at once for all; return their outcomes in the same order."""
        outcomes: list[ShareOutcome | None] = [None] * len(asked)
        left = len(asked)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def put(index: int, outcome: ShareOutcome) -> None:
            nonlocal left
            outcomes[index] = outcome
            left -= 1
            if not left and not ended.done():  # the caller may be cancelled
                ended.set_result(None)

        slices = Slices(self._clock)
        for index, ask in enumerate(asked):
            ask.done = partial(put, index)
            self._begin(ask)
            await slices.yield_if_due()
        if asked:
            await ended
        return [outcome for outcome in outcomes if outcome is not None]

    # --- one operation ---------------------------------------------------------------------------------------------

    def _until_ms(self) -> int:
        return self._clock.monotonic_ms() + self._limit_ms

    def _begin(self, ask: StateAsk) -> None:
        if self._is_closed:
            ask.done(refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        coordinator = self._coordinator_of(ask.key)
        if coordinator is None:
            self._end(ask, refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif coordinator == self._broker_id:
            self._ask_here(ask)
        else:
            lane = self._lanes.get(coordinator)
            if lane is None:
                lane = self._lanes[coordinator] = _Lane(self._connect(coordinator))
            lane.add(ask)
            self._send(coordinator, lane)

    def _coordinator_of(self, key: ShareKey) -> int | None:
        """Return the live leader of the key's partition of `__share_group_state`, or None."""
        image = self._metadata.image
        count = image.partitions_count(SHARE_GROUP_STATE_TOPIC)
        if count is None:
            self._ensure_topic(SHARE_GROUP_STATE_TOPIC)
            return None
        found = image.partition(SHARE_GROUP_STATE_TOPIC, partition_for(share_key(*key), count))
        return None if found is None or found.leader not in image.brokers else found.leader

    def _ask_here(self, ask: StateAsk) -> None:
        end = partial(self._end, ask)
        match ask.operation:
            case ShareOperation.WRITE:
                change = StateWrite(
                    ask.state_epoch, ask.leader_epoch, ask.start_offset, ask.delivery_complete_count, ask.batches
                )
                self._local.write(ask.key, change, end)
            case ShareOperation.READ:
                self._local.read(ask.key, ask.leader_epoch, end)
            case ShareOperation.SUMMARY:
                self._local.read_summary(ask.key, end)
            case ShareOperation.INITIALIZE:
                self._local.initialize(ask.key, ask.state_epoch, ask.start_offset, end)
            case ShareOperation.DELETE:
                self._local.delete(ask.key, end)

    def _end(self, ask: StateAsk, outcome: ShareOutcome) -> None:
        """Pass an outcome on, unless the operation is to be tried again."""
        error = outcome.error
        if error is ErrorCode.NONE or not self._may_pass(ask, error):
            ask.done(outcome)
            return
        if self._is_closed or self._clock.monotonic_ms() >= ask.until_ms:
            left_out = None if self._is_closed else self._lines.left_out((ask.operation, error))
            if left_out is not None:
                logger.warning(
                    "share coordinator not reached in time: group=%s partition=%d change=%s left_out=%d error=%s",
                    *(ask.key.group_id, ask.key.partition, ask.operation.value, left_out, error.name),
                )
            ask.done(outcome)
            return
        pause_ms = min(FIRST_PAUSE_MS << min(ask.attempts, 10), LONGEST_PAUSE_MS)
        ask.attempts += 1
        self._pausing[ask] = self._timer.schedule(pause_ms, partial(self._try_again, ask))

    def _may_pass(self, ask: StateAsk, error: ErrorCode) -> bool:
        if (
            error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ):  # the other broker may learn of a new topic later than this one
            return ask.key.topic_id in self._metadata.image.names_by_id
        return error in _MAY_PASS

    def _try_again(self, ask: StateAsk) -> None:
        del self._pausing[ask]
        self._begin(ask)

    # --- other brokers ---------------------------------------------------------------------------------------------

    def _send(self, broker_id: int, lane: _Lane) -> None:
        if not lane.is_in_flight and not self._tasks.is_closed:
            lane.is_in_flight = True
            self._tasks.spawn(self._exchange(broker_id, lane), name=f"share states at broker {broker_id}")

    async def _exchange(self, broker_id: int, lane: _Lane) -> None:
        """Send requests to one broker until nothing waits for it. What a bug interrupts is answered, and the lane goes on."""
        try:
            while lane.waiting:
                await self._ask_other(broker_id, lane)
        finally:
            lane.is_in_flight = False
            if lane.waiting:
                self._send(broker_id, lane)

    async def _ask_other(self, broker_id: int, lane: _Lane) -> None:
        asked = lane.take()
        outcomes = [refused(ErrorCode.UNKNOWN_SERVER_ERROR)] * len(asked)
        try:
            request, version, response_type = state_request(asked[0].operation, asked)
            response = await lane.client.send(request, version, response_type)
            outcomes = state_outcomes(asked[0].operation, asked, response)
        except OSError as error:
            logger.debug("share states not answered: broker=%d error=%s", broker_id, error)
            outcomes = [refused(ErrorCode.NETWORK_EXCEPTION)] * len(asked)
        finally:
            for ask, outcome in zip(asked, outcomes, strict=True):
                self._end(ask, outcome)

    def _leave(self, broker_id: int) -> list[StateAsk]:
        """Close the connection to a broker; return what has not been sent to it."""
        lane = self._lanes.pop(broker_id)
        lane.client.close()
        return lane.take_all()

    def _on_image(self, image: ClusterImage) -> None:
        for broker_id in self._lanes.keys() - image.brokers.keys():
            for ask in self._leave(broker_id):
                self._end(ask, refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _errors(asked: Sequence[StateAsk], outcomes: Sequence[ShareOutcome]) -> dict[Place, ErrorCode]:
    return {(ask.key.topic_id, ask.key.partition): outcome.error for ask, outcome in zip(asked, outcomes, strict=True)}


def _summary(snapshot: Snapshot | None) -> StateSummary:
    if snapshot is None:
        return _NOTHING_STORED
    return StateSummary(
        snapshot.state_epoch, snapshot.leader_epoch, snapshot.start_offset, snapshot.delivery_complete_count
    )


def _stored(snapshot: Snapshot) -> StoredShare:
    """What a leader begins with. Its response does not tell the records that are done with: they are those of its batches.
    Raises KafkaError for a state of records that this broker does not know."""
    try:
        batches = [
            StateBatch(first, last, DeliveryState(state), count) for first, last, count, state in snapshot.batches
        ]
    except ValueError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The stored state of a share partition: {error}") from error
    ended = sum(last - first + 1 for first, last, state, _ in batches if state in _ENDED_STATES)
    return StoredShare(snapshot.state_epoch, snapshot.start_offset, ended, batches)
