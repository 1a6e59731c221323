"""The controller of this broker: it stands for election, and manages the cluster while it is elected.

    standing --(creates /controller, raises /controller_epoch)--> active --(loses either, or the session)--> standing

Rules:
- One ordered queue: watches, responses of brokers and requests become events, which run one at a time to completion.
- Writes of a term are fenced (see `controller.controller_term`). A changed epoch, a lost session, a write without response, or
  a final refusal by the store ends the term: the next one reads everything again.
- If the write of an election gets no response, the nodes are read to find its outcome.
Source: Kafka KafkaController.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from config.broker import BrokerSettings
from config.inter_broker_version import InterBrokerVersion
from controller import controlled_shutdown, features, isr_changes, producer_ids, reassignment_execution, topic_deletion
from controller.claim import ControllerEpoch, claim, current_epoch
from controller.controller_context import ControllerContext
from controller.controller_term import ControllerMovedError, CreateTopics, Term
from controller.counts import ControllerCounts, count
from controller.elections import leader_elections
from controller.elections.leader_election_rules import NO_LEADER, ElectionReason
from controller.events import event_handlers, responses
from controller.events.event_queue import EventQueue
from controller.events.event_times import ControllerState, EventTimes
from controller.events.watches import change_at
from controller.requests.channels import BrokerChannel, Channels, ControlResponse
from controller.requests.request_batch import ControlRequest, Sender
from metadata.admin.metadata_wait import wait_for_image
from metadata.admin.topic_requests import TIMED_OUT, Outcome
from metadata.image import MetadataCache, PartitionImage
from metadata.store import znodes
from metadata.store.port import (
    ConnectionLossError,
    Delete,
    FinalError,
    Session,
    SessionEvent,
    SessionExpiredError,
    Store,
    StoreError,
    WatchEvent,
)
from metadata.store.znodes import BrokerRegistration, ProducerIdBlock, ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.messages.update_metadata import UpdateMetadataResponse
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.distribution import Distribution
from runtime.error_texts import reason_of
from runtime.log_texts import counted
from runtime.randomness import Randomness
from runtime.tasks import TaskScope

T = TypeVar("T")

ELECTION_BACKOFF_S = 0.1  # after an election without a response of the store
LAST_REQUESTS_TIMEOUT_S = 1.0  # for the pending requests of a controller that stops
REFUSAL_BACKOFF_S = 1.0  # after the store has refused what a controller needs
CLOSE_TIMEOUT_S = 2.0  # for a store that does not respond
FIRST_BALANCE_S = 5  # after the election; then every leader.imbalance.check.interval.seconds

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """The broker of this controller, and how it reaches others. `connect` makes a channel to a broker. While the broker is
    not registered, the controller does not stand for election: it would treat its own broker as dead."""

    broker_id: int
    inter_broker_listener: str
    connect: Callable[[BrokerRegistration], BrokerChannel]
    is_registered: Callable[[], bool] = lambda: True


class Controller:
    """The controller. `start` when the broker is registered; `retire` before its registration is removed, so that the next
    controller sees the removal; `close` before the store."""

    def __init__(
        self,
        identity: ControllerIdentity,
        store: Store,
        metadata: MetadataCache,
        settings: Callable[[], BrokerSettings],
        *,
        clock: Clock,
        randomness: Randomness,
        tasks: TaskScope,
        create_topics: CreateTopics = lambda _names, _brokers: None,
    ) -> None:
        """`create_topics` is for internal topics that no client has asked for yet."""
        self.broker_id = identity.broker_id
        self._identity = identity
        self._sender = Sender(identity.broker_id, identity.inter_broker_listener)
        self._store = store
        self._metadata = metadata
        self._settings = settings
        self._create_topics = create_topics
        self._clock = clock
        self._randomness = randomness
        self._tasks = tasks
        self._term: Term | None = None
        self.times = EventTimes(clock)
        self._events = EventQueue(self.times.stamp)
        self._runner: asyncio.Task[None] | None = None
        self._is_closed = False
        self._stopping: set[int] = set()
        self._past_unclean_elections = 0
        self._balance_timer: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def epoch(self) -> int:
        """The controller epoch; 0 while not elected."""
        return 0 if self._term is None else self._term.context.epoch

    @property
    def context(self) -> ControllerContext | None:
        """The state of the active controller, read only; None while not elected."""
        return None if self._term is None else self._term.context

    def counts(self) -> ControllerCounts:
        """Return the values of gauges."""
        return ControllerCounts() if self._term is None else count(self._term.context)

    @property
    def unclean_elections_count(self) -> int:
        """Unclean elections in all terms of this controller."""
        return self._past_unclean_elections + (0 if self._term is None else self._term.unclean_elections_count)

    @property
    def event_queue_size(self) -> int:
        return len(self._events)

    def request_waits(self) -> dict[int, Distribution]:
        """Return for how long control requests were queued, by broker: none off the controller."""
        return {} if self._term is None else self._term.channels.waits()

    def request_queue_sizes(self) -> dict[int, int]:
        """Return the number of pending control requests by broker."""
        return {} if self._term is None else self._term.channels.queue_sizes()

    async def start(self) -> None:
        """Stand for election. Returns when there is a controller, this broker or another."""
        self._store.subscribe(self._on_session)
        with self.times.measured(ControllerState.CONTROLLER_CHANGE):
            await self._stand_again()
        self._runner = self._tasks.spawn(self._run(), name="controller events")

    async def wait_until_brokers_updated(self) -> None:
        """Wait until the brokers have responded to all control requests; returns immediately while not elected."""
        if self._term is not None:
            await self._term.channels.idle()

    def on_registered(self) -> None:
        """Stand for election: this broker is registered, perhaps again."""
        if self._runner is not None and self._term is None:
            self._events.put(ControllerState.CONTROLLER_CHANGE, "", self._stand)

    def broker_stops(self) -> None:
        """This broker has begun to stop; it may be, and become, the controller until it has."""
        self._stopping.add(self.broker_id)

    async def retire(self) -> None:
        """Process no more events. Pending control requests are still sent for a bounded time: otherwise the next controller
        would have to send them again. Brokers that stop as well need none."""
        if self._is_closed:
            return
        self._is_closed = True
        self._events.wake()
        if self._runner is not None:
            await asyncio.wait([self._runner], timeout=CLOSE_TIMEOUT_S)
            if not self._runner.done():  # the store does not respond: the event ends as in a crash
                logger.info("controller resigns during an event")
                self._runner.cancel()
                await asyncio.wait([self._runner])
        if self._term is not None:
            for broker_id in self._term.context.shutting_down - {self.broker_id}:
                self._term.channels.remove(broker_id)
            try:
                async with asyncio.timeout(LAST_REQUESTS_TIMEOUT_S):
                    await self.wait_until_brokers_updated()
            except TimeoutError:
                pending = {broker_id: size for broker_id, size in self.request_queue_sizes().items() if size}
                logger.info("controller resigns with requests pending: queues=%s", counted(pending))

    async def close(self) -> None:
        """Retire, and remove /controller so that another broker is elected immediately."""
        await self.retire()
        await self._resign_in_store()
        calls = self._events.take_calls()
        self._events.clear()
        for call in calls:
            await call.run()  # without a term, calls fail with NOT_CONTROLLER

    # --- the queue ---

    async def _run(self) -> None:
        while not self._is_closed:
            event = self._events.pop()
            if event is None:
                await self._events.wait()
                continue
            try:
                with self.times.measured(event.state, event.queued_ms):
                    await event.run()
            except (ControllerMovedError, SessionExpiredError, ConnectionLossError) as error:
                logger.warning("controller term ended: controller_epoch=%d error=%s", self.epoch, reason_of(error))
                with self.times.measured(ControllerState.CONTROLLER_CHANGE):
                    await self._stand_again()
            except FinalError as error:
                with self.times.measured(ControllerState.CONTROLLER_CHANGE):
                    await self._back_off(error)
                    await self._stand_again()

    async def _call(self, state: ControllerState, operation: Callable[[Term], Awaitable[T]]) -> T:
        """Run `operation` as an event of the term. Raises KafkaError(NOT_CONTROLLER) while not elected."""
        response: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            if self._term is None:
                _refuse(response, KafkaError(ErrorCode.NOT_CONTROLLER))
                return
            try:
                result = await operation(self._term)
            except KafkaError as error:
                _refuse(response, error)
            except (ControllerMovedError, SessionExpiredError, ConnectionLossError, asyncio.CancelledError):
                _refuse(response, KafkaError(ErrorCode.NOT_CONTROLLER))
                raise
            except FinalError:
                _refuse(response, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                raise
            else:
                if not response.done():
                    response.set_result(result)

        if self._term is None or self._is_closed:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self._events.put(state, None, run)
        return await response

    def _put_change(self, state: ControllerState, name: str, operation: Callable[[Term], Awaitable[object]]) -> None:
        """Queue an event about a change that concerns only an elected controller."""

        async def run() -> None:
            if self._term is not None:
                await operation(self._term)

        self._events.put(state, name, run)

    # --- notifications ---

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._resign()  # immediately: nothing may be decided under the old session
        elif event is SessionEvent.CONNECTED and self._term is None:
            self._events.put(ControllerState.CONTROLLER_CHANGE, "", self._stand)

    def _on_watch(self, event: WatchEvent) -> None:
        if event.path == znodes.CONTROLLER:
            self._events.put(ControllerState.CONTROLLER_CHANGE, "", self._stand)
        elif (change := change_at(event.path, self._randomness)) is not None:
            self._put_change(change.state, change.name, change.operation)

    def _on_response(self, broker_id: int, request: ControlRequest, response: ControlResponse) -> None:
        match request, response:
            case StopReplicaRequest(), StopReplicaResponse():
                deleted, failed = responses.deletion_results(broker_id, request, response)
                if deleted or failed:
                    self._put_response(
                        ControllerState.TOPIC_DELETION,
                        broker_id,
                        request,
                        lambda term: topic_deletion.on_replicas_deleted(term, deleted, failed),
                    )
            case LeaderAndIsrRequest(), LeaderAndIsrResponse():
                if response.error_code != ErrorCode.NONE:
                    logger.warning(
                        "broker refused LeaderAndIsr: broker=%d error_code=%d", broker_id, response.error_code
                    )
                elif self._term is not None and responses.is_of_interest(self._term.context, broker_id, response):
                    self._put_response(
                        ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
                        broker_id,
                        request,
                        lambda term: responses.on_leader_and_isr(term, broker_id, response),
                    )
            case _, UpdateMetadataResponse() if response.error_code != ErrorCode.NONE:
                logger.warning("broker refused UpdateMetadata: broker=%d error_code=%d", broker_id, response.error_code)

    def _put_response(
        self,
        state: ControllerState,
        broker_id: int,
        request: ControlRequest,
        operation: Callable[[Term], Awaitable[None]],
    ) -> None:
        """Queue the handling of a response. It is dropped if the broker has registered again before it is handled: the
        requests were sent again then, and an old error must not override them."""

        async def of_this_registration(term: Term) -> None:
            known = term.context.live_brokers.get(broker_id)
            if known is not None and known.epoch == request.broker_epoch:
                await operation(term)

        self._put_for_term(state, of_this_registration)

    def _put_for_term(self, state: ControllerState, operation: Callable[[Term], Awaitable[None]]) -> None:
        """Queue an event that is valid only in this term: a broker's response, or what follows a request."""
        current = self._term

        async def run() -> None:
            if self._term is not None and self._term is current:
                await operation(self._term)

        self._events.put(state, None, run)

    # --- election ---

    async def _stand_again(self) -> None:
        """End the term, if any, and stand for election. The store may not respond for long: calls of the ended term are
        refused before."""
        self._resign()
        await self._refuse_calls()
        while not self._is_closed:
            try:
                await self._stand()
            except (SessionExpiredError, ConnectionLossError, ControllerMovedError) as error:
                logger.info("controller election not confirmed, retrying: error=%s", reason_of(error))
                self._resign()
                await asyncio.sleep(ELECTION_BACKOFF_S)
            except FinalError as error:
                await self._back_off(error)
            else:
                return

    async def _back_off(self, refusal: FinalError) -> None:
        """Resign and pause: the store refuses what a controller needs to read or write, usually by its access lists. Another
        broker may have access, or an operator may grant it."""
        logger.error(
            "store refuses what the controller needs, check its access lists: controller_epoch=%d error=%s",
            self.epoch,
            reason_of(refusal),
        )
        await self._resign_in_store()
        await self._refuse_calls()
        await asyncio.sleep(REFUSAL_BACKOFF_S)

    async def _refuse_calls(self) -> None:
        """Refuse the queued calls of a term that has ended."""
        for call in self._events.take_calls():
            await call.run()

    async def _resign_in_store(self) -> None:
        """Resign, and remove /controller: the next election need not wait for the end of this session."""
        term = self._end_term()
        if term is not None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await term.write(Delete(znodes.CONTROLLER))
            except (ControllerMovedError, StoreError, TimeoutError) as error:
                logger.info("controller node not removed: error=%s", reason_of(error))

    def _resign(self) -> None:
        term = self._end_term()
        if term is not None:
            logger.info("controller resigned: controller_epoch=%d", term.context.epoch)

    def _end_term(self) -> Term | None:
        """End the term and close its channels; pending requests are dropped."""
        if self._balance_timer is not None:
            self._balance_timer.cancel()
            self._balance_timer = None
        term, self._term = self._term, None
        if term is not None:
            self._past_unclean_elections += term.unclean_elections_count
            term.channels.close()
        return term

    async def _stand(self) -> None:
        """Become controller, or watch /controller. If the node is of this session and there is no term, the epoch is raised
        and the term begins. The claim itself triggers the watch, too: its event sets the next one."""
        if not self._identity.is_registered():
            return  # `on_registered` stands again
        session = self._store.session()
        before = await current_epoch(session)
        stat = await session.exists(znodes.CONTROLLER, self._on_watch)
        if stat is not None and stat.ephemeral_owner != session.session_id:
            self._resign()
            return
        if stat is not None and self._term is not None and self._term.session is session:
            return
        node = znodes.encode_controller(self.broker_id, self._clock.wall_ms())
        won = await claim(session, node, before, has_node=stat is not None)
        if won is None:
            self._events.put(
                ControllerState.CONTROLLER_CHANGE, "", self._stand
            )  # another broker was first: read again which
        else:
            await self._begin_term(session, won)

    async def _begin_term(self, session: Session, won: ControllerEpoch) -> None:
        self._resign()
        logger.info("controller elected: broker=%d controller_epoch=%d", self.broker_id, won.epoch)
        version = InterBrokerVersion.parse(self._settings().inter_broker_protocol_version)
        term = Term(
            ControllerContext(epoch=won.epoch, epoch_version=won.version, version=version, stopping=self._stopping),
            session,
            Channels(self._identity.connect, self._tasks, self._on_response, self._clock),
            self._sender,
            self._on_watch,
            self._settings,
            self._create_topics,
            self._clock,
        )
        self._term = term
        try:
            await event_handlers.take_over(term, self._randomness)
            self._plan_balance(FIRST_BALANCE_S)
        except ControllerMovedError:
            logger.warning("controller replaced during its election: controller_epoch=%d", won.epoch)
            self._resign()
            self._events.put(ControllerState.CONTROLLER_CHANGE, "", self._stand)

    # --- balance ---

    def _plan_balance(self, delay_s: float) -> None:
        """Schedule the next check of the balance of leaders; the end of the term cancels it."""
        if self._term is not None and self._settings().auto_leader_rebalance_enable:
            self._balance_timer = asyncio.get_running_loop().call_later(
                delay_s, lambda: self._put_change(ControllerState.AUTO_LEADER_BALANCE, "", self._balance)
            )

    async def _balance(self, term: Term) -> None:
        await leader_elections.balance_leaders(term)
        self._plan_balance(self._settings().leader_imbalance_check_interval_seconds)

    def on_unclean_election_enabled(self, topic: str | None = None) -> None:
        """Elect leaders where unclean.leader.election.enable became true: of `topic`, or (None) of the brokers."""
        state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        if topic is None:
            state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
        self._put_change(state, topic or "", lambda term: event_handlers.on_unclean_election_enabled(term, topic))

    # --- requests ---

    async def elect_leaders(
        self, wanted: Iterable[TopicPartition], reason: ElectionReason, timeout_ms: int
    ) -> dict[TopicPartition, Outcome]:
        """Elect leaders for `reason` PREFERRED or UNCLEAN; return when this broker's metadata has the new leaders.
        Raises KafkaError(NOT_CONTROLLER)."""
        keys = list(dict.fromkeys(wanted))
        outcomes, elected = await self._call(
            ControllerState.MANUAL_LEADER_BALANCE, lambda term: leader_elections.elect(term, keys, reason)
        )
        if elected and timeout_ms > 0:
            await wait_for_image(
                self._metadata,
                lambda image: all(_leader(image.partition(*key)) == elected[key] for key in elected),
                timeout_ms,
            )
        image = self._metadata.image
        for key, leader in elected.items():
            is_shown = _leader(image.partition(*key)) == leader
            outcomes[key] = Outcome() if is_shown else TIMED_OUT
        return outcomes

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Change ISRs as a leader requests. Raises KafkaError(NOT_CONTROLLER)."""

        async def alter(term: Term) -> AlterPartitionResponse:
            response, granted = await isr_changes.alter(term, request, version)
            if any(key in term.context.reassigning for key in granted):
                # After the response: the leader must not wait for it.
                self._put_for_term(
                    ControllerState.ALTER_PARTITION_REASSIGNMENT,
                    lambda term: reassignment_execution.complete_where_in_sync(term, granted),
                )
            return response

        return await self._call(ControllerState.ISR_CHANGE, alter)

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move the leaderships of a broker; return the partitions that it still leads. Raises KafkaError: NOT_CONTROLLER,
        STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE."""
        return await self._call(
            ControllerState.CONTROLLED_SHUTDOWN,
            lambda term: controlled_shutdown.controlled_shutdown(term, broker_id, broker_epoch),
        )

    async def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, Outcome]:
        """Set the target replicas of each partition; None cancels its reassignment. Returns when the reassignments are
        stored, not when they are complete. Raises KafkaError(NOT_CONTROLLER)."""
        return await self._call(
            ControllerState.ALTER_PARTITION_REASSIGNMENT, lambda term: reassignment_execution.alter(term, wanted)
        )

    async def list_reassignments(
        self, wanted: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the ongoing reassignments, of `wanted` or all. Raises KafkaError(NOT_CONTROLLER)."""

        return await self._call(
            ControllerState.LIST_PARTITION_REASSIGNMENT, lambda term: reassignment_execution.ongoing(term, wanted)
        )

    async def update_features(self, request: UpdateFeaturesRequest, version: int) -> features.Updated:
        """Update finalized features. Raises KafkaError(NOT_CONTROLLER)."""
        return await self._call(
            ControllerState.UPDATE_FEATURES,
            lambda term: features.update(term, request, version, self._identity.broker_id),
        )

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int | None = None) -> ProducerIdBlock:
        """Allocate a block of producer ids. `broker_epoch` is None for this broker. Raises KafkaError: NOT_CONTROLLER,
        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
        return await self._call(ControllerState.IDLE, lambda term: producer_ids.allocate(term, broker_id, broker_epoch))


def _refuse(response: asyncio.Future[T], error: KafkaError) -> None:
    if not response.done():
        response.set_exception(error)


def _leader(partition: PartitionImage | None) -> int:
    return NO_LEADER if partition is None else partition.leader
