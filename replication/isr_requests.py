"""Sends the ISR changes that leaders request to the controller, or in old clusters writes them to the store.

    partitions --submit--> one change a partition --all of them in one request--> controller
                               ^------- not answered, or the whole request refused: after a pause -------'

Two implementations of one interface (`IsrChanges`): `IsrRequests` sends AlterPartition (inter.broker.protocol.version 2.7-IV2
and later); `IsrWrites` sets the partition's state node and, some seconds later, notifies the controller of the partitions.

Rules: one request or write is under way at a time; a task runs only while changes wait. A change that its partition has
withdrawn (a LeaderAndIsr came, leadership ended) is dropped unsent, and a response to it has no effect.
Invariants: at most one change of a partition waits; nothing is lost while the controller cannot be reached.
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
from replication.assignment import PartitionAssignment
from replication.leader import IsrChange, IsrResponse
from runtime.clock import Clock
from runtime.error_texts import reason_of
from runtime.log_texts import counted, listed
from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

RETRY_PAUSE_MS = 50
# The maximum number of partitions in one request; the others follow in the next.
CHANGES_PER_REQUEST_MAX = 10_000
TOPIC_IDS_VERSION = 2
BROKER_EPOCHS_VERSION = 3
# The broker epoch of every ISR member (KIP-903) in requests to a controller in ZooKeeper mode.
NO_MEMBER_EPOCH = -1
# The controller reads every state node that it is notified of, so notifications are batched.
ANNOUNCE_QUIET_MS = 5_000
ANNOUNCE_AFTER_MS = 60_000
ANNOUNCE_CHECK_MS = 2_500


class AlterPartitionChannel(Protocol):
    """The connection to the current controller, whichever broker it is."""

    async def send(self, request: Request, version: int, response_type: type[R]) -> R:
        """Send a request and return the response. Raises OSError, or KafkaError when there is no controller."""


class IsrWriter(Protocol):
    """The store as leaders write to it in clusters without AlterPartition."""

    async def write(
        self, topic: str, partition: int, change: IsrChange, *, leader_id: int, controller_epoch: int
    ) -> int | None:
        """Set the partition's state if its version is still `change.partition_epoch`. Returns the new version, None when
        another write came first. Raises OSError when the outcome is unknown."""

    async def announce(self, partitions: Sequence[TopicPartition]) -> None:
        """Notify the controller that the states of `partitions` have changed (`/isr_change_notification`). Raises OSError."""


class IsrOwner(Protocol):
    """A partition that requests ISR changes."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def assignment(self) -> PartitionAssignment: ...

    def wants(self, change: IsrChange) -> bool: ...

    def on_isr_response(self, change: IsrChange, answer: IsrResponse) -> None:
        """Called with the outcome of `change`. May submit the next change."""


class IsrChanges(Protocol):
    """Accepts ISR changes."""

    def submit(self, owner: IsrOwner, change: IsrChange) -> None: ...


class NoIsrChanges:
    """For a broker without other brokers: its leaders never request a change."""

    def submit(self, owner: IsrOwner, change: IsrChange) -> None:
        raise AssertionError(
            f"{owner.topic}-{owner.partition} requests {change} but there is no controller to send it to"
        )


class IsrChangeRequest:
    """A change that waits to be sent, and the partition that requested it."""

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

    def complete(self, answer: IsrResponse) -> None:
        self.owner.on_isr_response(self.change, answer)


class _IsrChangeQueue(ABC):
    """The waiting changes, and the one task that sends them."""

    def __init__(self, tasks: TaskScope, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._waiting: dict[TopicPartition, IsrChangeRequest] = {}
        self._is_running = False

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, owner: IsrOwner, change: IsrChange) -> None:
        """Add a change. A newer change of the same partition replaces one that was not sent yet."""
        change_request = IsrChangeRequest(owner, change)
        self._waiting[change_request.key] = change_request
        if not self._is_running and not self._tasks.is_closed:
            self._is_running = True
            self._tasks.spawn(self._run(), name=self._name)

    async def _run(self) -> None:
        try:
            while self._waiting or self._has_more_to_do:
                await self._step()
        finally:
            self._is_running = False

    @property
    def _has_more_to_do(self) -> bool:
        return False

    @abstractmethod
    async def _step(self) -> None:
        """Send some changes, or wait a little. Must await something that takes time when it cannot send."""

    def _take(self, count_max: int) -> list[IsrChangeRequest]:
        """Remove and return the oldest changes that are still wanted, and drop the others."""
        keys = list(islice(self._waiting, count_max))
        taken = [self._waiting.pop(key) for key in keys]
        return [change_request for change_request in taken if change_request.is_wanted]

    def _put_back(self, change_requests: Sequence[IsrChangeRequest]) -> None:
        for change_request in change_requests:
            self._waiting.setdefault(change_request.key, change_request)


class IsrRequests(_IsrChangeQueue):
    """Sends AlterPartition to the controller. `version` is the highest version that may be sent, `broker_epoch` that of this
    broker."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        channel: AlterPartitionChannel,
        tasks: TaskScope,
        *,
        version: int = 3,
    ) -> None:
        super().__init__(tasks, "isr requests")
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._version = version

    async def _step(self) -> None:
        change_requests = self._take(CHANGES_PER_REQUEST_MAX)
        if not change_requests:
            return
        request, version = self._request(change_requests)
        try:
            response = await self._channel.send(request, version, AlterPartitionResponse)
        except (OSError, KafkaError) as failure:
            logger.info(
                "AlterPartition not answered, retrying: partitions=%d error=%s",
                len(change_requests),
                reason_of(failure),
            )
            self._put_back(change_requests)
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        if response.error_code != ErrorCode.NONE:
            error = error_of(response.error_code)
            logger.warning("AlterPartition refused, retrying: partitions=%d error=%s", len(change_requests), error.name)
            self._put_back(change_requests)
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        if not self._deliver(change_requests, _rows(response, version)):
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    def _request(self, change_requests: Sequence[IsrChangeRequest]) -> tuple[AlterPartitionRequest, int]:
        """Build the request and choose its version: one without topic ids when some topic has none."""
        version = self._version
        if any(change_request.owner.topic_id == ZERO_UUID for change_request in change_requests):
            version = min(version, TOPIC_IDS_VERSION - 1)
        topics: dict[str, RequestTopicData] = {}
        for change_request in change_requests:
            topic = topics.get(change_request.owner.topic)
            if topic is None:
                topic = topics[change_request.owner.topic] = RequestTopicData(
                    topic_name=change_request.owner.topic, topic_id=change_request.owner.topic_id, partitions=[]
                )
            topic.partitions.append(self._row(change_request, version))
        return (
            AlterPartitionRequest(
                broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
            ),
            version,
        )

    def _row(self, change_request: IsrChangeRequest, version: int) -> RequestPartitionData:
        change = change_request.change
        row = RequestPartitionData(
            partition_index=change_request.owner.partition,
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
        self, change_requests: Sequence[IsrChangeRequest], rows: dict[tuple[str | bytes, int], ResponsePartitionData]
    ) -> bool:
        """Pass the responses to the partitions; returns whether every change succeeded. A change without a response waits for
        the next request."""
        all_done = True
        outcomes: Counter[ErrorCode] = Counter()
        for change_request in change_requests:
            owner = change_request.owner
            row = rows.get((owner.topic_id, owner.partition)) or rows.get((owner.topic, owner.partition))
            if row is None:
                self._put_back([change_request])
                all_done = False
                continue
            answer = _answer(row)
            outcomes[answer.error] += 1
            all_done = all_done and answer.error == ErrorCode.NONE
            change_request.complete(answer)
        logger.info(
            "ISR changes answered: partitions=%d outcomes=%s example=%s-%d isr=%s",
            len(change_requests), counted({error.name: count for error, count in outcomes.items()}),
            *change_requests[0].key, listed(change_requests[0].change.isr),
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
        self._has_request = asyncio.Event()

    def submit(self, owner: IsrOwner, change: IsrChange) -> None:
        super().submit(owner, change)
        self._has_request.set()

    @property
    def _has_more_to_do(self) -> bool:
        return bool(self._changed)

    async def _wait_for_request(self, patience_ms: int) -> None:
        """Wait at most `patience_ms` for a change: written states wait to be announced, a change is sent immediately."""
        self._has_request.clear()
        if self._waiting:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                await self._has_request.wait()

    async def _step(self) -> None:
        for change_request in self._take(1):
            await self._write(change_request)
        if self._changed:
            await self._announce_if_due()
            await self._wait_for_request(ANNOUNCE_CHECK_MS)

    async def _write(self, change_request: IsrChangeRequest) -> None:
        change, owner = change_request.change, change_request.owner
        try:
            partition_epoch = await self._writer.write(
                owner.topic,
                owner.partition,
                change,
                leader_id=self._broker_id,
                controller_epoch=owner.assignment.controller_epoch,
            )
        except OSError as error:
            logger.info(
                "ISR not written, retrying: topic=%s partition=%d error=%s", *change_request.key, reason_of(error)
            )
            self._put_back([change_request])
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            return
        if partition_epoch is None:
            change_request.complete(IsrResponse(ErrorCode.INVALID_UPDATE_VERSION))
            return
        self._changed[change_request.key] = None
        self._changed_ms = self._clock.monotonic_ms()
        change_request.complete(IsrResponse(ErrorCode.NONE, change.leader_epoch, change.isr, partition_epoch))

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
    """Index the rows by topic id (below v2 by topic name) and partition."""
    by_id = version >= TOPIC_IDS_VERSION
    return {
        (topic.topic_id if by_id else topic.topic_name, row.partition_index): row
        for topic in response.topics
        for row in topic.partitions
    }


def _answer(row: ResponsePartitionData) -> IsrResponse:
    return IsrResponse(error_of(row.error_code), row.leader_epoch, tuple(row.isr), row.partition_epoch)


def error_of(code: int) -> ErrorCode:
    """Map an error code; one that is not in our table (a newer controller's) becomes an unknown error."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
