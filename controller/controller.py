"""The controller of this broker: stands for election, and while it is elected runs the cluster.

    standing --(creates /controller, raises /controller_epoch)--> active --(loses either, or the session)--> standing

Rules:
- One ordered queue: watches, broker answers and requests become events, one event at a time, each to its end.
- What a term decides is fenced (see `controller.term`). Any doubt (epoch moved, session gone, a write without an
  answer) ends the term: the next one reads everything again. So does what the store refuses for good.
- A write of the election without an answer is looked up before anything is believed.
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
from controller import (
    controlled_shutdown,
    event_handlers,
    features,
    isr_changes,
    leader_elections,
    producer_ids,
    reassignment_execution,
    responses,
    topic_deletion,
)
from controller.claim import ControllerEpoch, claim, current_epoch
from controller.controller_context import ControllerContext
from controller.counts import ControllerCounts, count
from controller.event_queue import EventQueue
from controller.event_times import ControllerState, EventTimes
from controller.leader_election_rules import NO_LEADER, ElectionReason
from controller.requests.channels import BrokerChannel, Channels, ControlResponse
from controller.requests.request_batch import ControlRequest, Sender
from controller.term import ControllerMovedError, Term
from controller.watches import change_at
from metadata.admin.metadata_wait import wait_for_image
from metadata.admin.topic_admin import TIMED_OUT, Outcome
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
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.messages.update_metadata import UpdateMetadataResponse
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.randomness import Randomness
from runtime.reasons import reason_of
from runtime.tasks import TaskScope

T = TypeVar("T")

ELECTION_BACKOFF_S = 0.1  # after an election that the store did not answer
LAST_REQUESTS_PATIENCE_S = 1.0  # of a term that ends in good order
REFUSAL_BACKOFF_S = 1.0  # after the store has refused what a controller needs
CLOSE_PATIENCE_S = 2.0  # with a store that does not answer
FIRST_BALANCE_S = 5  # into a term; later as leader.imbalance.check.interval.seconds says

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """Who sits in this controller's chair, and how it reaches others. `connect` makes a channel to a broker. While this
    broker is not registered it does not stand: it would find itself dead."""

    broker_id: int
    inter_broker_listener: str
    connect: Callable[[BrokerRegistration], BrokerChannel]
    is_registered: Callable[[], bool] = lambda: True


class Controller:
    """Life: `start` once the broker is registered, `close` before the store; `retire` before the broker leaves the
    cluster, so that the next controller finds it gone."""

    def __init__(
        self,
        seat: ControllerIdentity,
        store: Store,
        metadata: MetadataCache,
        settings: Callable[[], BrokerSettings],
        *,
        clock: Clock,
        randomness: Randomness,
        tasks: TaskScope,
    ) -> None:
        self.broker_id = seat.broker_id
        self._seat = seat
        self._sender = Sender(seat.broker_id, seat.inter_broker_listener)
        self._store = store
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._tasks = tasks
        self._term: Term | None = None
        self.times = EventTimes(clock)
        self._events = EventQueue(self.times.stamp)
        self._runner: asyncio.Task[None] | None = None
        self._is_closed = False
        self._past_unclean_elections = 0
        self._balance_timer: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def epoch(self) -> int:
        """Of the term; 0 while not elected."""
        return 0 if self._term is None else self._term.context.epoch

    @property
    def context(self) -> ControllerContext | None:
        """What the active controller knows, to be read only; None while not elected."""
        return None if self._term is None else self._term.context

    def counts(self) -> ControllerCounts:
        """For gauges."""
        return ControllerCounts() if self._term is None else count(self._term.context)

    @property
    def unclean_elections_count(self) -> int:
        """Of all terms of this controller."""
        return self._past_unclean_elections + (0 if self._term is None else self._term.unclean_elections_count)

    @property
    def event_queue_size(self) -> int:
        return len(self._events)

    def request_queue_sizes(self) -> dict[int, int]:
        """Control requests that wait, by broker."""
        return {} if self._term is None else self._term.channels.queue_sizes()

    async def start(self) -> None:
        """Stand for election. Returns when there is a controller, this broker or another."""
        self._store.subscribe(self._on_session)
        with self.times.measured(ControllerState.CONTROLLER_CHANGE):
            await self._stand_again()
        self._runner = self._tasks.spawn(self._run(), name="controller events")

    async def wait_until_brokers_updated(self) -> None:
        """Return when the brokers have answered what this controller has decided; at once when another one decides."""
        if self._term is not None:
            await self._term.channels.idle()

    def on_registered(self) -> None:
        """This broker has a place in the cluster, perhaps again."""
        if self._runner is not None and self._term is None:
            self._events.put(ControllerState.CONTROLLER_CHANGE, "", self._stand)

    async def retire(self) -> None:
        """Decide nothing more. What was decided still reaches the brokers, as far as they take it in a bounded time: the
        next controller would have to find out and tell them again."""
        self._is_closed = True
        self._events.wake()
        if self._runner is not None:
            await asyncio.wait([self._runner], timeout=CLOSE_PATIENCE_S)
            if not self._runner.done():  # the store is silent: what is under way is as after a crash
                logger.info("controller resigns during an event")
                self._runner.cancel()
                await asyncio.wait([self._runner])
        if self._term is not None:
            try:
                async with asyncio.timeout(LAST_REQUESTS_PATIENCE_S):
                    await self.wait_until_brokers_updated()
            except TimeoutError:
                logger.info("controller resigns with requests pending: queues=%s", self.request_queue_sizes())

    async def close(self) -> None:
        """Step down in good order."""
        await self.retire()
        await self._step_down()
        calls = self._events.take_calls()
        self._events.clear()
        for call in calls:
            await call.run()  # calls see that there is no term and answer NOT_CONTROLLER

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
                    await self._give_way(error)
                    await self._stand_again()

    async def _call(self, state: ControllerState, operation: Callable[[Term], Awaitable[T]]) -> T:
        """Run `operation` as an event of the term. Raises KafkaError(NOT_CONTROLLER) while not elected."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            if self._term is None:
                _refuse(answer, KafkaError(ErrorCode.NOT_CONTROLLER))
                return
            try:
                result = await operation(self._term)
            except KafkaError as error:
                _refuse(answer, error)
            except (ControllerMovedError, SessionExpiredError, ConnectionLossError, asyncio.CancelledError):
                _refuse(answer, KafkaError(ErrorCode.NOT_CONTROLLER))
                raise
            except FinalError:
                _refuse(answer, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                raise
            else:
                if not answer.done():
                    answer.set_result(result)

        if self._term is None or self._is_closed:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self._events.put(state, None, run)
        return await answer

    def _put_change(self, state: ControllerState, name: str, operation: Callable[[Term], Awaitable[object]]) -> None:
        """Something changed that only an elected controller minds."""

        async def run() -> None:
            if self._term is not None:
                await operation(self._term)

        self._events.put(state, name, run)

    # --- what it hears ---

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._resign()  # at once: nothing of the old session may be decided any more
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
                    self._put_answer(
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
                    self._put_answer(
                        ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
                        broker_id,
                        request,
                        lambda term: responses.on_leader_and_isr(term, broker_id, response),
                    )
            case _, UpdateMetadataResponse() if response.error_code != ErrorCode.NONE:
                logger.warning("broker refused UpdateMetadata: broker=%d error_code=%d", broker_id, response.error_code)

    def _put_answer(
        self,
        state: ControllerState,
        broker_id: int,
        request: ControlRequest,
        operation: Callable[[Term], Awaitable[None]],
    ) -> None:
        """What a broker has answered, if it still lives the life that was asked when the answer's turn comes: the next one
        is asked anew, and what the one before had refused would undo that."""

        async def of_this_life(term: Term) -> None:
            known = term.context.live_brokers.get(broker_id)
            if known is not None and known.epoch == request.broker_epoch:
                await operation(term)

        self._put_fact(state, of_this_life)

    def _put_fact(self, state: ControllerState, operation: Callable[[Term], Awaitable[None]]) -> None:
        """Something that follows from this term alone: a broker's answer, or what an answered request leads to."""
        asked_in = self._term

        async def run() -> None:
            if self._term is not None and self._term is asked_in:
                await operation(self._term)

        self._events.put(state, None, run)

    # --- election ---

    async def _stand_again(self) -> None:
        """After a doubt: give up what we may still hold, then stand like everybody else. The store may be silent for
        long: those who have asked something of the term that is over do not wait for it."""
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
                await self._give_way(error)
            else:
                return

    async def _give_way(self, refusal: FinalError) -> None:
        """The store refuses what a controller has to read or write, for its access list most often: another broker may be
        allowed more, and an operator may mend it."""
        logger.error(
            "store refuses what the controller needs, check its access lists: controller_epoch=%d error=%s",
            self.epoch,
            reason_of(refusal),
        )
        await self._step_down()
        await self._refuse_calls()
        await asyncio.sleep(REFUSAL_BACKOFF_S)

    async def _refuse_calls(self) -> None:
        """Those of a term that is over."""
        for call in self._events.take_calls():
            await call.run()

    async def _step_down(self) -> None:
        """The next controller need not wait for our session to end."""
        term = self._end_term()
        if term is not None:
            try:
                async with asyncio.timeout(CLOSE_PATIENCE_S):
                    await term.write(Delete(znodes.CONTROLLER))
            except (ControllerMovedError, StoreError, TimeoutError) as error:
                logger.info("controller node not removed: error=%s", reason_of(error))

    def _resign(self) -> None:
        term = self._end_term()
        if term is not None:
            logger.info("controller resigned: controller_epoch=%d", term.context.epoch)

    def _end_term(self) -> Term | None:
        """Nothing is sent any more, whatever is still under way."""
        if self._balance_timer is not None:
            self._balance_timer.cancel()
            self._balance_timer = None
        term, self._term = self._term, None
        if term is not None:
            self._past_unclean_elections += term.unclean_elections_count
            term.channels.close()
        return term

    async def _stand(self) -> None:
        """Become controller, or watch who is. A controller node of our own session without a term is taken over: its
        epoch is raised like anybody's. Our own claim sets the watch off as well: that event leaves the next one."""
        if not self._seat.is_registered():
            return  # `on_registered` comes back
        session = self._store.session()
        before = await current_epoch(session)
        stat = await session.exists(znodes.CONTROLLER, self._on_watch)
        if stat is not None and stat.ephemeral_owner != session.session_id:
            self._resign()
            return
        if stat is not None and self._term is not None and self._term.session is session:
            return
        node = znodes.encode_controller(self.broker_id, self._clock.wall_ms())
        won = await claim(session, node, before, is_seated=stat is not None)
        if won is None:
            self._events.put(
                ControllerState.CONTROLLER_CHANGE, "", self._stand
            )  # somebody moved first: look again who it is
        else:
            await self._begin_term(session, won)

    async def _begin_term(self, session: Session, won: ControllerEpoch) -> None:
        self._resign()
        logger.info("controller elected: broker=%d controller_epoch=%d", self.broker_id, won.epoch)
        version = InterBrokerVersion.parse(self._settings().inter_broker_protocol_version)
        term = Term(
            ControllerContext(epoch=won.epoch, epoch_version=won.version, version=version),
            session,
            Channels(self._seat.connect, self._tasks, self._on_response),
            self._sender,
            self._on_watch,
            self._settings,
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
        """The next look at the balance of leaders; a term that is over takes its timer with it."""
        if self._term is not None and self._settings().auto_leader_rebalance_enable:
            self._balance_timer = asyncio.get_running_loop().call_later(
                delay_s, lambda: self._put_change(ControllerState.AUTO_LEADER_BALANCE, "", self._balance)
            )

    async def _balance(self, term: Term) -> None:
        await leader_elections.balance_leaders(term)
        self._plan_balance(self._settings().leader_imbalance_check_interval_seconds)

    def on_unclean_election_enabled(self, topic: str | None = None) -> None:
        """unclean.leader.election.enable became true, of `topic` or (None) of the brokers."""
        state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        if topic is None:
            state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
        self._put_change(state, topic or "", lambda term: event_handlers.on_unclean_election_enabled(term, topic))

    # --- requests ---

    async def elect_leaders(
        self, wanted: Iterable[TopicPartition], reason: ElectionReason, timeout_ms: int
    ) -> dict[TopicPartition, Outcome]:
        """PREFERRED or UNCLEAN. Answers when this broker's metadata shows the new leaders.
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
        """Raises KafkaError(NOT_CONTROLLER)."""

        async def alter(term: Term) -> AlterPartitionResponse:
            response, granted = await isr_changes.alter(term, request, version)
            if any(key in term.context.reassigning for key in granted):
                # After the answer: the leader must not wait for it.
                self._put_fact(
                    ControllerState.ALTER_PARTITION_REASSIGNMENT,
                    lambda term: reassignment_execution.complete_where_in_sync(term, granted),
                )
            return response

        return await self._call(ControllerState.ISR_CHANGE, alter)

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """What the broker still leads. Raises KafkaError: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE."""
        return await self._call(
            ControllerState.CONTROLLED_SHUTDOWN,
            lambda term: controlled_shutdown.controlled_shutdown(term, broker_id, broker_epoch),
        )

    async def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, Outcome]:
        """The replicas that each partition shall have; None calls its reassignment off. Answers when it is noted, not
        when it is done. Raises KafkaError(NOT_CONTROLLER)."""
        return await self._call(
            ControllerState.ALTER_PARTITION_REASSIGNMENT, lambda term: reassignment_execution.alter(term, wanted)
        )

    async def list_reassignments(
        self, wanted: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Those under way, of `wanted` or all. Raises KafkaError(NOT_CONTROLLER)."""

        return await self._call(
            ControllerState.LIST_PARTITION_REASSIGNMENT, lambda term: reassignment_execution.under_way(term, wanted)
        )

    async def update_features(self, request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
        """Raises KafkaError(NOT_CONTROLLER)."""
        return await self._call(ControllerState.UPDATE_FEATURES, lambda term: features.update(term, request, version))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int | None = None) -> ProducerIdBlock:
        """`broker_epoch` is None for this very broker. Raises KafkaError: NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED,
        STALE_BROKER_EPOCH."""
        return await self._call(ControllerState.IDLE, lambda term: producer_ids.allocate(term, broker_id, broker_epoch))


def _refuse(answer: asyncio.Future[T], error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _leader(partition: PartitionImage | None) -> int:
    return NO_LEADER if partition is None else partition.leader
