"""The controller of this broker: stands for election, and while it is elected runs the cluster.

    standing --(creates /controller, raises /controller_epoch)--> active --(loses either, or the session)--> standing

Rules:
- One ordered queue: watches, broker answers and requests become events, one event at a time, each to its end. A watch
  that waits already is not queued twice.
- What a term decides is fenced (see `controller.term`). Any doubt (epoch moved, session gone, a write without an
  answer) ends the term: the next one reads everything again.
- A write of the election without an answer is looked up before anything is believed.
Source: Kafka KafkaController, ControllerEventManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from config.broker import BrokerSettings
from controller import changes, deletion, producer_ids, znodes
from controller.admin import TIMED_OUT, Outcome, ReplicationPolicy, TopicAdmin
from controller.channels import BrokerChannel, Channels, ControlResponse
from controller.context import ControllerContext, Replica, TopicPartition
from controller.election import NO_LEADER, ElectionReason
from controller.requests import ControlRequest, Sender
from controller.store import (
    BadVersionError,
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Session,
    SessionEvent,
    SessionExpiredError,
    SetData,
    Stat,
    Store,
    Tree,
    WatchEvent,
)
from controller.term import ControllerMovedError, Term
from controller.waiting import image_shows
from controller.znodes import BrokerRegistration, ProducerIdBlock
from metadata.image import MetadataCache, PartitionImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from runtime.clock import Clock
from runtime.randomness import Randomness
from runtime.tasks import TaskScope

T = TypeVar("T")

ELECTION_BACKOFF_S = 0.1  # after an election that the store did not answer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Event:
    """`key` is not None for events that need not wait twice."""

    key: tuple[str, str] | None
    run: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ControllerSeat:
    """Who sits in this controller's chair, and how it reaches others. `connect` makes a channel to a broker."""

    broker_id: int
    inter_broker_listener: str
    connect: Callable[[BrokerRegistration], BrokerChannel]


class Controller:
    """Life: `start` once the broker is registered, `close` before the store. `topics` serves admin requests."""

    def __init__(
        self,
        seat: ControllerSeat,
        store: Store,
        metadata: MetadataCache,
        settings: Callable[[], BrokerSettings],
        policy: ReplicationPolicy,
        *,
        clock: Clock,
        randomness: Randomness,
        tasks: TaskScope,
    ) -> None:
        self.broker_id = seat.broker_id
        self.topics = TopicAdmin(store, metadata, settings, randomness, policy)
        self.producer_ids = producer_ids.ProducerIds(lambda: self.allocate_producer_ids(seat.broker_id))
        self._seat = seat
        self._sender = Sender(seat.broker_id, seat.inter_broker_listener)
        self._store = store
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._tasks = tasks
        self._term: Term | None = None
        self._events: deque[_Event] = deque()
        self._queued: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._is_closed = False

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

    async def start(self) -> None:
        """Stand for election. Returns when there is a controller, this broker or another."""
        self._store.subscribe(self._on_session)
        await self._stand_again()
        self._runner = self._tasks.spawn(self._run(), name="controller events")

    async def close(self) -> None:
        """Step down in good order: the next controller need not wait for our session to end."""
        self._is_closed = True
        self._wake.set()
        if self._runner is not None:
            await asyncio.wait([self._runner])
        term, self._term = self._term, None
        if term is not None:
            term.channels.close()
            try:
                await term.write(Delete(znodes.CONTROLLER))
            except (ControllerMovedError, NoNodeError, SessionExpiredError, ConnectionLossError) as error:
                log.info("stepped down without a word error=%r", error)
        for event in self._drop_events():
            await event.run()  # calls see that there is no term and answer NOT_CONTROLLER

    # --- the queue ---

    def _put(self, key: tuple[str, str] | None, run: Callable[[], Awaitable[None]]) -> None:
        if key is not None:
            if key in self._queued:
                return
            self._queued.add(key)
        self._events.append(_Event(key, run))
        self._wake.set()

    def _drop_events(self) -> list[_Event]:
        """Empty the queue; returns the calls in it, which somebody waits for."""
        calls = [event for event in self._events if event.key is None]
        self._events.clear()
        self._queued.clear()
        return calls

    async def _run(self) -> None:
        while not self._is_closed:
            if not self._events:
                self._wake.clear()
                await self._wake.wait()
                continue
            event = self._events.popleft()
            if event.key is not None:
                self._queued.discard(event.key)
            try:
                await event.run()
            except (ControllerMovedError, SessionExpiredError, ConnectionLossError) as error:
                log.warning("controller term over epoch=%d error=%r", self.epoch, error)
                await self._stand_again()

    async def _call(self, operation: Callable[[Term], Awaitable[T]]) -> T:
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
            except (ControllerMovedError, SessionExpiredError, ConnectionLossError):
                _refuse(answer, KafkaError(ErrorCode.NOT_CONTROLLER))
                raise
            else:
                if not answer.done():
                    answer.set_result(result)

        if self._term is None or self._is_closed:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self._put(None, run)
        return await answer

    def _put_change(self, key: tuple[str, str], operation: Callable[[Term], Awaitable[None]]) -> None:
        """Something changed that only an elected controller minds."""

        async def run() -> None:
            if self._term is not None:
                await operation(self._term)

        self._put(key, run)

    # --- what it hears ---

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._resign()  # at once: nothing of the old session may be decided any more
        elif event is SessionEvent.CONNECTED and self._term is None:
            self._put(("stand", ""), self._stand)

    def _on_watch(self, event: WatchEvent) -> None:
        is_enabled = self._settings().delete_topic_enable
        name = event.path.rpartition("/")[2]
        match event.path:
            case znodes.CONTROLLER:
                self._put(("stand", ""), self._stand)
            case znodes.BROKER_IDS:
                self._put_change(("brokers", ""), changes.on_brokers_changed)
            case znodes.TOPICS:
                self._put_change(("topics", ""), lambda term: changes.on_topics_changed(term, self._randomness))
            case znodes.DELETE_TOPICS:
                self._put_change(
                    ("deletions", ""), lambda term: changes.on_deletions_wished(term, is_enabled=is_enabled)
                )
            case path if path.startswith(znodes.BROKER_IDS):
                self._put_change(("broker", name), lambda term: changes.on_broker_modified(term, int(name)))
            case path if path.startswith(znodes.TOPICS):
                self._put_change(("topic", name), lambda term: changes.on_topic_modified(term, name))

    def _on_response(self, broker_id: int, request: ControlRequest, response: ControlResponse) -> None:
        match request, response:
            case StopReplicaRequest(), StopReplicaResponse():
                deleted, failed = _deletion_results(broker_id, request, response)
                if deleted or failed:
                    self._put_fact(lambda term: deletion.on_replicas_deleted(term, deleted, failed))
            case LeaderAndIsrRequest(), LeaderAndIsrResponse():
                if response.error_code != ErrorCode.NONE:
                    log.warning("broker refused LeaderAndIsr broker=%d error=%d", broker_id, response.error_code)
                elif any(row.error_code for topic in response.topics for row in topic.partition_errors):
                    self._put_fact(lambda term: _on_partition_errors(term, broker_id, response))

    def _put_fact(self, operation: Callable[[Term], Awaitable[None]]) -> None:
        """A broker's answer; it counts for the term in which it was asked."""
        asked_in = self._term

        async def run() -> None:
            if self._term is not None and self._term is asked_in:
                await operation(self._term)

        self._put(None, run)

    # --- election ---

    async def _stand_again(self) -> None:
        """After a doubt: give up what we may still hold, then stand like everybody else."""
        self._resign()
        while not self._is_closed:
            try:
                await self._stand()
            except (SessionExpiredError, ConnectionLossError, ControllerMovedError) as error:
                log.info("election without an answer error=%r", error)
                self._resign()
                await asyncio.sleep(ELECTION_BACKOFF_S)
            else:
                return

    def _resign(self) -> None:
        term, self._term = self._term, None
        if term is not None:
            log.info("resigned epoch=%d", term.context.epoch)
            term.channels.close()

    async def _stand(self) -> None:
        """Become controller, or watch who is. A controller node of our own session without a term is taken over: its
        epoch is raised like anybody's. Our own claim sets the watch off as well: that event leaves the next one."""
        session = self._store.session()
        stat = await session.exists(znodes.CONTROLLER, self._on_watch)
        if stat is not None and stat.ephemeral_owner != session.session_id:
            self._resign()
            return
        if stat is not None and self._term is not None and self._term.session is session:
            return
        epoch_data, epoch_stat = await _controller_epoch(session)
        epoch = znodes.decode_controller_epoch(epoch_data) + 1
        node = znodes.encode_controller(self.broker_id, self._clock.wall_ms())
        claim = Create(znodes.CONTROLLER, node, ephemeral=True) if stat is None else SetData(znodes.CONTROLLER, node)
        try:
            results = await session.multi(
                [claim, SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), epoch_stat.version)]
            )
            written = results[1]
            assert isinstance(written, Stat)
            epoch_version = written.version
        except (NodeExistsError, BadVersionError, NoNodeError):
            self._put(("stand", ""), self._stand)  # somebody moved first: look again who it is
            return
        except ConnectionLossError:
            found = await _won_epoch(session, epoch)
            if found is None:
                raise
            epoch_version = found
        await self._begin_term(session, epoch, epoch_version)

    async def _begin_term(self, session: Session, epoch: int, epoch_version: int) -> None:
        self._resign()
        log.info("elected controller broker=%d epoch=%d", self.broker_id, epoch)
        term = Term(
            ControllerContext(epoch=epoch, epoch_version=epoch_version),
            session,
            Channels(self._seat.connect, self._tasks, self._on_response),
            self._sender,
            self._on_watch,
            is_unclean_allowed=self._settings().unclean_leader_election_enable,
        )
        self._term = term
        try:
            await changes.take_over(term, self._randomness, is_deletion_enabled=self._settings().delete_topic_enable)
        except ControllerMovedError:
            log.warning("deposed while taking over epoch=%d", epoch)
            self._resign()
            self._put(("stand", ""), self._stand)

    # --- requests ---

    async def elect_leaders(
        self, wanted: Iterable[TopicPartition], reason: ElectionReason, timeout_ms: int
    ) -> dict[TopicPartition, Outcome]:
        """PREFERRED or UNCLEAN. Answers when this broker's metadata shows the new leaders.
        Raises KafkaError(NOT_CONTROLLER)."""
        keys = list(dict.fromkeys(wanted))
        outcomes, elected = await self._call(lambda term: _elect(term, keys, reason))
        if elected and timeout_ms > 0:
            await image_shows(
                self._metadata,
                lambda image: all(_leader(image.partition(*key)) == elected[key] for key in elected),
                timeout_ms,
            )
        image = self._metadata.image
        for key, leader in elected.items():
            is_shown = _leader(image.partition(*key)) == leader
            outcomes[key] = Outcome() if is_shown else TIMED_OUT
        return outcomes

    async def allocate_producer_ids(self, broker_id: int) -> ProducerIdBlock:
        """Raises KafkaError(NOT_CONTROLLER)."""

        async def allocate(term: Term) -> ProducerIdBlock:
            return await producer_ids.allocate_block(term.session, broker_id)

        return await self._call(allocate)


def _refuse(answer: asyncio.Future[T], error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error)


async def _controller_epoch(session: Tree) -> tuple[bytes, Stat]:
    try:
        return await session.get(znodes.CONTROLLER_EPOCH)
    except NoNodeError:
        first = znodes.encode_controller_epoch(znodes.INITIAL_CONTROLLER_EPOCH)
    try:
        await session.create(znodes.CONTROLLER_EPOCH, first)
    except NodeExistsError:
        log.debug("another broker made the controller epoch")
    return await session.get(znodes.CONTROLLER_EPOCH)


async def _won_epoch(session: Session, epoch: int) -> int | None:
    """After a claim without an answer: the version of the epoch node if the claim was carried out, None if not."""
    stat = await session.exists(znodes.CONTROLLER)
    data, epoch_stat = await session.get(znodes.CONTROLLER_EPOCH)
    is_ours = stat is not None and stat.ephemeral_owner == session.session_id
    return epoch_stat.version if is_ours and znodes.decode_controller_epoch(data) == epoch else None


def _leader(partition: PartitionImage | None) -> int:
    return NO_LEADER if partition is None else partition.leader


async def _elect(
    term: Term, wanted: list[TopicPartition], reason: ElectionReason
) -> tuple[dict[TopicPartition, Outcome], dict[TopicPartition, int]]:
    """(outcomes that are settled, leaders that were elected)."""
    context = term.context
    outcomes: dict[TopicPartition, Outcome] = {}
    electable: list[TopicPartition] = []
    for key in wanted:
        state = context.leadership.get(key)
        if state is None:
            outcomes[key] = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        elif context.is_being_deleted(key[0]):
            outcomes[key] = Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        elif _needs_election(context, key, state.leader, reason):
            electable.append(key)
        else:
            outcomes[key] = Outcome(ErrorCode.ELECTION_NOT_NEEDED, "The partition has the leader that it should have.")
    elections = await term.elect(electable, reason)
    is_preferred = reason is ElectionReason.PREFERRED
    failure = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    for key, message in elections.failures.items():
        outcomes[key] = Outcome(failure, f"Failed to elect leader for partition {key[0]}-{key[1]}: {message}")
    return outcomes, {key: state.leader for key, state in elections.elected.items()}


def _needs_election(context: ControllerContext, key: TopicPartition, leader: int, reason: ElectionReason) -> bool:
    if reason is ElectionReason.PREFERRED:
        return leader != context.assignment(key).replicas[0]
    return leader == NO_LEADER or not context.is_live(leader)


def _deletion_results(
    broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
) -> tuple[list[Replica], list[Replica]]:
    """Which replicas of those that were to be deleted were, and which were not."""
    failed_rows = {(row.topic_name, row.partition_index) for row in response.partition_errors if row.error_code}
    everything_failed = response.error_code != ErrorCode.NONE
    deleted: list[Replica] = []
    failed: list[Replica] = []
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.delete_partition:
                key = (topic.topic_name, state.partition_index)
                (failed if everything_failed or key in failed_rows else deleted).append((*key, broker_id))
    return deleted, failed


async def _on_partition_errors(term: Term, broker_id: int, response: LeaderAndIsrResponse) -> None:
    """A replica whose log directory failed is offline until its broker says otherwise."""
    context = term.context
    offline = context.offline_directories.setdefault(broker_id, set())
    newly: list[Replica] = []
    for topic in response.topics:
        name = context.names_by_id.get(topic.topic_id)
        if name is None:
            continue
        for row in topic.partition_errors:
            key = (name, row.partition_index)
            if row.error_code == ErrorCode.KAFKA_STORAGE_ERROR and key not in offline:
                offline.add(key)
                newly.append((*key, broker_id))
            elif row.error_code == ErrorCode.NONE:
                offline.discard(key)
    if newly:
        log.warning("replicas offline broker=%d count=%d first=%s", broker_id, len(newly), newly[:1])
        await changes.take_replicas_down(term, newly)
