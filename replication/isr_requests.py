"""Carrying leaders' wishes for another ISR to whoever keeps it: the controller, or in old clusters the store itself.

    partitions --submit--> wishes, one a partition --all of them in one request--> controller
                               ^------- not answered, or the whole request refused: after a pause -------'

Two ways, one interface (`IsrChanges`): `IsrRequests` sends AlterPartition (inter.broker.protocol.version 2.7-IV2 and
later); `IsrWrites` sets the partition's state node and, some seconds later, tells the controller which ones.

Rules: one request or write is under way at a time; a task runs only while there are wishes. A wish that its partition no
longer holds (a LeaderAndIsr came, leadership ended) is dropped unsent, and an answer to it changes nothing.
Invariants: at most one wish a partition waits; nothing is lost while the controller cannot be reached.
Source: Kafka DefaultAlterPartitionManager, ZkAlterPartitionManager, Partition.addBrokerEpochToIsr; KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol, TypeVar

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from replication.leader import IsrAnswer, IsrChange
from runtime.clock import Clock
from runtime.reasons import reason_of
from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

RETRY_PAUSE_MS = 50
# So many partitions stand in one request at most; the rest follow in the next.
WISHES_PER_REQUEST_MAX = 10_000
TOPIC_IDS_VERSION = 2
BROKER_EPOCHS_VERSION = 3
# All that leaders say of members' broker epochs (KIP-903) to a controller in ZooKeeper mode.
NO_MEMBER_EPOCH = -1
# A controller that is told of changed state nodes reads them all: changes are gathered for it.
ANNOUNCE_QUIET_MS = 5_000
ANNOUNCE_AFTER_MS = 60_000
ANNOUNCE_CHECK_MS = 2_500


class AlterPartitionChannel(Protocol):
    """The way to the controller of now, wherever it is."""

    async def send(self, request: Request, version: int, response_type: type[R]) -> R:
        """Raises OSError, or KafkaError when there is no controller."""


class IsrWriter(Protocol):
    """The store, as leaders write to it where there is no AlterPartition yet."""

    async def write(
        self, topic: str, partition: int, change: IsrChange, *, leader_id: int, controller_epoch: int
    ) -> int | None:
        """Set the partition's state if its version is still `change.partition_epoch`; the new version, None when another
        was faster. Raises OSError when the outcome is not known."""

    async def announce(self, partitions: Sequence[TopicPartition]) -> None:
        """Tell the controller whose states have changed (`/isr_change_notification`). Raises OSError."""


class IsrOwner(Protocol):
    """A partition, as far as its wish goes."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def controller_epoch(self) -> int: ...

    def wants(self, change: IsrChange) -> bool: ...

    def on_isr_answer(self, change: IsrChange, answer: IsrAnswer) -> None:
        """May submit the next wish."""


class IsrChanges(Protocol):
    """Who takes wishes."""

    def submit(self, owner: IsrOwner, change: IsrChange) -> None: ...


class NoIsrChanges:
    """For a broker that has no others beside it: no leader there ever wishes for anything."""

    def submit(self, owner: IsrOwner, change: IsrChange) -> None:
        raise AssertionError(f"{owner.topic}-{owner.partition} wishes for {change} and nobody is there to ask")


class IsrChangeRequest:
    """What waits for one partition."""

    __slots__ = ("change", "owner")

    def __init__(self, owner: IsrOwner, change: IsrChange) -> None:
        self.owner = owner
        self.change = change

    @property
    def key(self) -> TopicPartition:
        return (self.owner.topic, self.owner.partition)

    @property
    def is_wanted(self) -> bool:
        return self.owner.wants(self.change)

    def answer(self, answer: IsrAnswer) -> None:
        self.owner.on_isr_answer(self.change, answer)


class _IsrChangeQueue(ABC):
    """Wishes and the one task that carries them."""

    def __init__(self, tasks: TaskScope, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._wishes: dict[TopicPartition, IsrChangeRequest] = {}
        self._is_running = False

    def __len__(self) -> int:
        return len(self._wishes)

    def submit(self, owner: IsrOwner, change: IsrChange) -> None:
        """Fits `IsrChanges`. A newer wish of the same partition replaces one that was not sent yet."""
        wish = IsrChangeRequest(owner, change)
        self._wishes[wish.key] = wish
        if not self._is_running and not self._tasks.is_closed:
            self._is_running = True
            self._tasks.spawn(self._run(), name=self._name)

    async def _run(self) -> None:
        try:
            while self._wishes or self._has_more_to_do:
                await self._step()
        finally:
            self._is_running = False

    @property
    def _has_more_to_do(self) -> bool:
        return False

    @abstractmethod
    async def _step(self) -> None:
        """Carry some wishes, or wait a little. Must await something that takes time when it cannot."""

    def _take(self, count_max: int) -> list[IsrChangeRequest]:
        """The oldest wishes that still hold; the others are forgotten."""
        keys = list(islice(self._wishes, count_max))
        taken = [self._wishes.pop(key) for key in keys]
        return [wish for wish in taken if wish.is_wanted]

    def _put_back(self, wishes: Sequence[IsrChangeRequest]) -> None:
        for wish in wishes:
            self._wishes.setdefault(wish.key, wish)


class IsrRequests(_IsrChangeQueue):
    """Asks the controller. `version` is the highest AlterPartition version that may be sent, `broker_epoch` our own."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        line: AlterPartitionChannel,
        tasks: TaskScope,
        *,
        version: int = 3,
    ) -> None:
        super().__init__(tasks, "isr requests")
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._line = line
        self._version = version

    async def _step(self) -> None:
        wishes = self._take(WISHES_PER_REQUEST_MAX)
        if not wishes:
            return
        request, version = self._request(wishes)
        try:
            response = await self._line.send(request, version, AlterPartitionResponse)
        except (OSError, KafkaError) as failure:
            logger.info(
                "AlterPartition not answered, retrying: partitions=%d error=%s", len(wishes), reason_of(failure)
            )
            self._put_back(wishes)
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        if response.error_code != ErrorCode.NONE:
            error = error_of(response.error_code)
            logger.warning("AlterPartition refused, retrying: partitions=%d error=%s", len(wishes), error.name)
            self._put_back(wishes)
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        if not self._deliver(wishes, _rows(response, version)):
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    def _request(self, wishes: Sequence[IsrChangeRequest]) -> tuple[AlterPartitionRequest, int]:
        """The request and its version: one without topic ids when some topic has none."""
        version = self._version
        if any(wish.owner.topic_id == ZERO_UUID for wish in wishes):
            version = min(version, TOPIC_IDS_VERSION - 1)
        topics: dict[str, RequestTopicData] = {}
        for wish in wishes:
            topic = topics.get(wish.owner.topic)
            if topic is None:
                topic = topics[wish.owner.topic] = RequestTopicData(
                    topic_name=wish.owner.topic, topic_id=wish.owner.topic_id, partitions=[]
                )
            topic.partitions.append(self._row(wish, version))
        return (
            AlterPartitionRequest(
                broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
            ),
            version,
        )

    def _row(self, wish: IsrChangeRequest, version: int) -> RequestPartitionData:
        change = wish.change
        row = RequestPartitionData(
            partition_index=wish.owner.partition,
            leader_epoch=change.leader_epoch,
            partition_epoch=change.partition_epoch,
        )
        if version < BROKER_EPOCHS_VERSION:
            row.new_isr = list(change.isr)
            return row
        row.new_isr_with_epochs = [
            BrokerState(broker_id=broker_id, broker_epoch=NO_MEMBER_EPOCH) for broker_id in change.isr
        ]
        return row

    def _deliver(
        self, wishes: Sequence[IsrChangeRequest], rows: dict[tuple[str | bytes, int], ResponsePartitionData]
    ) -> bool:
        """Hand out the answers; whether every wish was fulfilled. One without an answer waits for the next request."""
        all_done = True
        outcomes: Counter[ErrorCode] = Counter()
        for wish in wishes:
            owner = wish.owner
            row = rows.get((owner.topic_id, owner.partition)) or rows.get((owner.topic, owner.partition))
            if row is None:
                self._put_back([wish])
                all_done = False
                continue
            answer = _answer(row)
            outcomes[answer.error] += 1
            all_done = all_done and answer.error == ErrorCode.NONE
            wish.answer(answer)
        logger.info(
            "ISR changes answered: partitions=%d outcomes=%s example=%s-%d isr=%s",
            len(wishes), {error.name: count for error, count in outcomes.items()}, *wishes[0].key,
            list(wishes[0].change.isr),
        )  # fmt: skip
        return all_done


class IsrWrites(_IsrChangeQueue):
    """Writes the store: for clusters whose `inter.broker.protocol.version` is below 2.7-IV2."""

    def __init__(self, broker_id: int, writer: IsrWriter, clock: Clock, tasks: TaskScope) -> None:
        super().__init__(tasks, "isr writes")
        self._broker_id = broker_id
        self._writer = writer
        self._clock = clock
        self._changed: dict[TopicPartition, None] = {}
        self._changed_ms = 0
        self._announced_ms = clock.monotonic_ms()
        self._has_wish = asyncio.Event()

    def submit(self, owner: IsrOwner, change: IsrChange) -> None:
        super().submit(owner, change)
        self._has_wish.set()

    @property
    def _has_more_to_do(self) -> bool:
        return bool(self._changed)

    async def _until_next_wish(self, patience_ms: int) -> None:
        """So long at most: what was written may wait to be announced, a wish waits for nothing."""
        self._has_wish.clear()
        if self._wishes:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                await self._has_wish.wait()

    async def _step(self) -> None:
        for wish in self._take(1):
            await self._write(wish)
        if self._changed:
            await self._announce_if_due()
            await self._until_next_wish(ANNOUNCE_CHECK_MS)

    async def _write(self, wish: IsrChangeRequest) -> None:
        change, owner = wish.change, wish.owner
        try:
            partition_epoch = await self._writer.write(
                owner.topic,
                owner.partition,
                change,
                leader_id=self._broker_id,
                controller_epoch=owner.controller_epoch,
            )
        except OSError as error:
            logger.info("ISR not written, retrying: topic=%s partition=%d error=%s", *wish.key, reason_of(error))
            self._put_back([wish])
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        if partition_epoch is None:
            wish.answer(IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION))
            return
        self._changed[wish.key] = None
        self._changed_ms = self._clock.monotonic_ms()
        wish.answer(IsrAnswer(ErrorCode.NONE, change.leader_epoch, change.isr, partition_epoch))

    async def _announce_if_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._changed_ms < ANNOUNCE_QUIET_MS and now_ms - self._announced_ms < ANNOUNCE_AFTER_MS:
            return
        changed, self._changed = self._changed, {}
        try:
            await self._writer.announce(list(changed))
        except OSError as error:
            logger.info("ISR changes not announced, retrying: partitions=%d error=%s", len(changed), reason_of(error))
            self._changed = changed | self._changed
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        self._announced_ms = now_ms


def _rows(response: AlterPartitionResponse, version: int) -> dict[tuple[str | bytes, int], ResponsePartitionData]:
    """By topic id, below v2 by topic name, and partition."""
    by_id = version >= TOPIC_IDS_VERSION
    return {
        (topic.topic_id if by_id else topic.topic_name, row.partition_index): row
        for topic in response.topics
        for row in topic.partitions
    }


def _answer(row: ResponsePartitionData) -> IsrAnswer:
    return IsrAnswer(error_of(row.error_code), row.leader_epoch, tuple(row.isr), row.partition_epoch)


def error_of(code: int) -> ErrorCode:
    """A code that is not in our table (a newer controller's) says no more than that something failed."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
