"""One controller's term: it executes what the pure state machines decide.

A term lasts from an election to the resignation. It has the context, the session of the election, and the channels. Its steps
read and write state nodes, then change the phases, then send requests; each returns when the store has accepted its writes.

Rules: every write carries a check of /controller_epoch, so a controller that was replaced changes nothing:
ControllerMovedError. Every operation goes to the session of the election: SessionExpiredError when that is over. Either ends
the term. Long steps yield to the event loop (`runtime.slices`); the controller's events remain in order, since a step is one
event. State nodes that only the controller writes are not read before they are written (`known_states`): it knows their
content, and the version of each write verifies it.
Source: Kafka KafkaController, ZkPartitionStateMachine, ZkReplicaStateMachine, KafkaZkClient (controller epoch checks).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from config.broker import BrokerSettings
from config.java_values import java_trim
from controller import internal_topics, partition_state_machine, replica_state_machine
from controller.controller_context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from controller.elections.leader_election_rules import ElectionReason
from controller.leaderless_log import log_leaderless
from controller.partition_state_machine import StateWrites
from controller.requests.channels import Channels
from controller.requests.request_batch import RequestBatch, Sender
from metadata.store import znodes
from metadata.store.node_reading import decoded
from metadata.store.port import (
    BadVersionError,
    Check,
    Create,
    FinalError,
    NodeExistsError,
    NoNodeError,
    Operation,
    OperationResult,
    RefusedError,
    Session,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
)
from metadata.store.znodes import PartitionState, ReplicaAssignment, TopicRegistration
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.error_texts import reason_of
from runtime.log_texts import listed
from runtime.slices import Slices

T = TypeVar("T")

READS_STEP = 500  # state nodes that are decoded before the event loop continues
NEW_PARTITIONS_STEP = 200
CHANGES_STEP = 200  # partitions whose leader or ISR changes in one batch of requests
MOVES_STEP = 200
WRITES_STEP = 200  # transactions in flight
UNCLEAN_ELECTION = "unclean.leader.election.enable"

logger = logging.getLogger(__name__)


class ControllerMovedError(Exception):
    """Another broker has become controller: this term is over."""


@dataclass(slots=True)
class ElectionResult:
    """The result of elections: the new state of each partition, or the reason why it has none."""

    elected: dict[TopicPartition, PartitionState]
    failures: dict[TopicPartition, str]


@dataclass(slots=True)
class WrittenStates:
    """The result of writing the states of a plan: each of its partitions is in one of these."""

    written: dict[TopicPartition, PartitionState]
    """With their new partition epochs."""
    again: list[TopicPartition]
    """Changed meanwhile: to be read and decided again."""
    refused: dict[TopicPartition, FinalError]
    """Finally refused by the store: these partitions do not change."""


CreateTopics = Callable[[Sequence[str], frozenset[int]], None]
"""Begins to create internal topics as soon as this broker knows these brokers."""


class Term:
    """The steps of the elected controller. Each raises ControllerMovedError or SessionExpiredError when the term has ended."""

    def __init__(
        self,
        context: ControllerContext,
        session: Session,
        channels: Channels,
        sender: Sender,
        watch: Watch,
        settings: Callable[[], BrokerSettings],
        create_topics: CreateTopics,
        clock: Clock,
    ) -> None:
        self.context = context
        self.session = session
        self.channels = channels
        self.watch = watch
        self.unclean_elections_count = 0
        self._sender = sender
        self._settings = settings
        self._create_topics = create_topics
        self._slices = Slices(clock)

    @property
    def settings(self) -> BrokerSettings:
        return self._settings()

    async def yield_if_due(self) -> None:
        """Yield to the event loop if this work has used its slice."""
        await self._slices.yield_if_due()

    def create_internal_topics(self) -> None:
        """Begin to create those that are missing and have enough brokers. The watch of the topics notifies of them."""
        names = internal_topics.topics_to_create(self.context, self.settings)
        if names:
            self._create_topics(names, frozenset(self.context.live_brokers))

    # Sending.

    def new_batch(self) -> RequestBatch:
        return RequestBatch(self.context, self._sender)

    async def send(self, batch: RequestBatch) -> None:
        for parcel in batch.build_in_steps():
            if parcel is not None:
                self.channels.send(*parcel)
            await self.yield_if_due()

    async def send_metadata(self, broker_ids: Iterable[int], topic_partitions: Iterable[TopicPartition] = ()) -> None:
        batch = self.new_batch()
        batch.add_update_metadata(broker_ids, topic_partitions)
        await self.send(batch)

    # Fenced writes.

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        """Write transactions, each atomically and with a check of the controller epoch. Raises ControllerMovedError."""
        fence = Check(znodes.CONTROLLER_EPOCH, self.context.epoch_version)
        results: list[list[OperationResult] | StoreError] = []
        for start in range(0, len(transactions), WRITES_STEP):
            step = [[fence, *transaction] for transaction in transactions[start : start + WRITES_STEP]]
            for outcome in await self.session.write_many(step):
                if not isinstance(outcome, StoreError):
                    results.append(outcome[1:])
                elif outcome.operation_index == 0:
                    raise ControllerMovedError(f"epoch {self.context.epoch} is no longer the controller's")
                else:
                    results.append(outcome)
        return results

    async def write(self, *operations: Operation) -> list[OperationResult]:
        [outcome] = await self.write_many([operations])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    # Partitions.

    async def read_states(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Read the state nodes that exist."""
        keys = list(topic_partitions)
        states: dict[TopicPartition, PartitionState] = {}
        for start in range(0, len(keys), READS_STEP):
            step = keys[start : start + READS_STEP]
            nodes = await self.session.read_many([znodes.state_path(*key) for key in step])
            for key, node in zip(step, nodes, strict=True):
                if node is not None:
                    state = decoded(znodes.state_path(*key), partial(PartitionState.decode, node[0], node[1].version))
                    if state is not None:
                        states[key] = state
            await self.yield_if_due()
        return states

    async def known_states(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Return the states that this controller knows; read those it does not, or all if leaders write them, too."""
        keys = list(topic_partitions)
        known = self.context.leadership if self.context.version.supports_alter_partition else {}
        states = {key: known[key] for key in keys if key in known}
        return states | await self.read_states(key for key in keys if key not in states)

    async def create_partitions(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Create partitions and bring them online (KafkaController.onNewPartitionCreation), in steps, so that clients are
        served meanwhile and the first partitions are available early."""
        for start in range(0, len(topic_partitions), NEW_PARTITIONS_STEP):
            await self._create_step(topic_partitions[start : start + NEW_PARTITIONS_STEP])

    async def _create_step(self, topic_partitions: Sequence[TopicPartition]) -> None:
        context = self.context
        logger.info("new partitions: partitions=%d example=%s-%d", len(topic_partitions), *topic_partitions[0])
        partition_state_machine.move(context, topic_partitions, PartitionPhase.NEW)
        replica_state_machine.move(context, self.new_batch(), context.replicas_of(topic_partitions), ReplicaPhase.NEW)
        await self.bring_online(topic_partitions)
        batch = self.new_batch()
        replica_state_machine.move(context, batch, context.replicas_of(topic_partitions), ReplicaPhase.ONLINE)
        await self.send(batch)

    async def bring_online(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Elect the first leader of NEW partitions, and another leader of OFFLINE ones, if there is a candidate."""
        wanted = list(topic_partitions)
        new = self._wanted_online(wanted, PartitionPhase.NEW)
        if new:
            await self._create_states(new)
        await self.elect_leaderless(wanted)

    async def elect_leaderless(
        self, topic_partitions: Iterable[TopicPartition], into: RequestBatch | None = None
    ) -> ElectionResult:
        """Elect leaders of those partitions that are OFFLINE; see `elect`."""
        offline = self._wanted_online(topic_partitions, PartitionPhase.OFFLINE)
        return await self.elect(offline, ElectionReason.OFFLINE, into)

    def _wanted_online(self, topic_partitions: Iterable[TopicPartition], phase: PartitionPhase) -> list[TopicPartition]:
        context = self.context
        return [
            each
            for each in topic_partitions
            if context.partition_phase(each) is phase and not context.is_being_deleted(each[0])
        ]

    async def _create_states(self, new: list[TopicPartition]) -> None:
        plan = partition_state_machine.plan_first_leaders(self.context, new)
        log_leaderless(self.context, plan.failures)
        parents = [[Create(znodes.partitions_path(name))] for name in dict.fromkeys(name for name, _ in plan.writes)]
        for outcome in await self.write_many(parents):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                logger.warning("topic removed while its partitions were created: path=%s", outcome.path)
        batch = self.new_batch()
        for (key, state), outcome in zip(plan.writes.items(), await self._write_new(plan.writes), strict=True):
            if isinstance(outcome, StoreError):
                logger.warning("partition not created: topic=%s partition=%d error=%s", *key, reason_of(outcome))
            else:
                partition_state_machine.committed(self.context, batch, key, state, is_new=True)
        await self.send(batch)

    async def _write_new(
        self, states: Mapping[TopicPartition, PartitionState]
    ) -> list[list[OperationResult] | StoreError]:
        """Create the nodes of partitions and their states in one transaction each. A partition's node may exist without the
        state: Apache Kafka's controller creates them one after the other, and may have ended in between."""
        outcomes = await self.write_many(
            [
                [Create(znodes.partition_path(*key)), Create(znodes.state_path(*key), state.encode())]
                for key, state in states.items()
            ]
        )
        incomplete = {
            index: [Create(znodes.state_path(*key), state.encode())]
            for index, ((key, state), outcome) in enumerate(zip(states.items(), outcomes, strict=True))
            if isinstance(outcome, NodeExistsError) and outcome.path == znodes.partition_path(*key)
        }
        for index, outcome in zip(incomplete, await self.write_many(list(incomplete.values())), strict=True):
            outcomes[index] = outcome
        return outcomes

    async def elect(
        self, topic_partitions: Iterable[TopicPartition], reason: ElectionReason, into: RequestBatch | None = None
    ) -> ElectionResult:
        """Elect leaders and send the changes to the brokers, in steps, so that the first are sent early. With `into`, the
        requests are added to that batch, and the caller sends it."""
        result = ElectionResult({}, {})
        for step in _steps(topic_partitions, CHANGES_STEP):
            batch = self.new_batch() if into is None else into
            await self._elect_step(step, reason, result, batch)
            if into is None:
                await self.send(batch)
        return result

    async def _elect_step(
        self,
        topic_partitions: Sequence[TopicPartition],
        reason: ElectionReason,
        result: ElectionResult,
        batch: RequestBatch,
    ) -> None:
        """Elect the leaders of one step. A state node that changed meanwhile, or without a candidate, is read and decided
        again."""
        allowed = {}
        if reason is ElectionReason.OFFLINE:
            allowed = await self._unclean_allowed(topic_partitions)
        states = await self.known_states(topic_partitions)
        is_read = False
        to_shutting_down = reason is ElectionReason.CONTROLLED_SHUTDOWN
        remaining = list(topic_partitions)
        while remaining:
            plan = partition_state_machine.plan_elections(self.context, states, reason, allowed)
            outcome = await self.write_states(plan)
            written, again = outcome.written, outcome.again
            result.failures |= {key: repr(error) for key, error in outcome.refused.items()}
            if is_read:
                log_leaderless(self.context, plan.failures, for_shutdown=to_shutting_down)
                result.failures |= plan.failures
                result.failures |= dict.fromkeys(
                    (each for each in remaining if each not in states), "it has no state node"
                )
            else:
                again += [each for each in remaining if each in plan.failures or each not in states]
            for key, state in written.items():
                partition_state_machine.committed(self.context, batch, key, state, to_shutting_down=to_shutting_down)
                result.elected[key] = state
            unclean = [key for key in plan.unclean if key in written]
            if unclean:
                self.unclean_elections_count += len(unclean)
                leaders = sorted({written[key].leader for key in unclean})
                logger.warning(
                    "unclean leader elections, records may be lost: partitions=%d leaders=%s example=%s-%d",
                    len(unclean),
                    listed(leaders),
                    *min(unclean),
                )
            remaining = again
            states, is_read = await self.read_states(remaining), True

    async def raise_leader_epoch(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Write the same leader and ISR with a new leader epoch, and return the state; the caller sends it. None for a
        partition that never had a leader. Raises FinalError."""
        while states := await self.read_states([topic_partition]):
            plan = partition_state_machine.plan_raised_epochs(self.context, states)
            if plan.failures:
                raise ControllerMovedError(plan.failures[topic_partition])
            outcome = await self.write_states(plan)
            if outcome.refused:
                raise outcome.refused[topic_partition]
            if outcome.written:
                self.context.leadership.update(outcome.written)
                return outcome.written[topic_partition]
        return None

    async def write_assignments(self, name: str, assignments: Mapping[int, ReplicaAssignment]) -> None:
        """Write assignments of partitions into the topic's node, without overwriting others that were added meanwhile, then
        into the context. Raises NoNodeError if the topic was removed; FinalError if its node cannot be read or
        written."""
        path = znodes.topic_path(name)
        while True:
            data, stat = await self.session.get(path)
            registration = decoded(path, partial(TopicRegistration.decode, name, data))
            if registration is None:
                raise RefusedError(path)
            changed = replace(registration, assignments={**registration.assignments, **assignments})
            try:
                await self.write(SetData(path, changed.encode(), stat.version))
            except BadVersionError:
                continue
            for partition, assignment in assignments.items():
                self.context.set_assignment((name, partition), assignment)
            return

    async def _unclean_allowed(self, topic_partitions: Iterable[TopicPartition]) -> dict[str, bool]:
        names = list(dict.fromkeys(name for name, _ in topic_partitions))
        nodes = await self.session.read_many([znodes.config_path("topics", name) for name in names])
        allowed = {}
        for name, node in zip(names, nodes, strict=True):
            path = znodes.config_path("topics", name)
            own = None if node is None else decoded(path, partial(znodes.decode_config, node[0]))
            text = (own or {}).get(UNCLEAN_ELECTION)
            by_default = self.settings.unclean_leader_election_enable
            allowed[name] = by_default if text is None else java_trim(text).lower() == "true"
        return allowed

    async def write_states(self, plan: StateWrites) -> WrittenStates:
        outcomes = await self.write_many(
            [
                [SetData(znodes.state_path(*key), state.encode(), state.partition_epoch)]
                for key, state in plan.writes.items()
            ]
        )
        result = WrittenStates({}, [], {})
        for (key, state), outcome in zip(plan.writes.items(), outcomes, strict=True):
            match outcome:
                case [Stat() as stat]:
                    result.written[key] = replace(state, partition_epoch=stat.version)
                case BadVersionError() | NoNodeError():
                    result.again.append(key)
                case FinalError():
                    result.refused[key] = outcome
                    logger.error(
                        "partition state not written: topic=%s partition=%d error=%s", *key, reason_of(outcome)
                    )
                case _:
                    raise AssertionError(f"{key}: {outcome!r} is no response to a set")
        return result

    # Replicas.

    async def take_down(self, leaderless: Iterable[TopicPartition], going: Iterable[Replica]) -> None:
        """Elect leaders of `leaderless` partitions, and remove the replicas `going` from ISRs. Brokers get each partition
        once, those without a leader first."""
        by_partition: dict[TopicPartition, list[Replica]] = {each: [] for each in leaderless}
        lost = set(by_partition)
        for replica in going:
            by_partition.setdefault(replica[:2], []).append(replica)
        for step in _steps(by_partition, CHANGES_STEP):
            batch = self.new_batch()
            batch.add_update_metadata(self.context.live_brokers, ())
            await self.elect([each for each in step if each in lost], ElectionReason.OFFLINE, batch)
            await self.take_replicas_offline([replica for each in step for replica in by_partition[each]], batch)
            await self.send(batch)

    async def take_replicas_offline(self, going: Iterable[Replica], into: RequestBatch | None = None) -> None:
        """Remove replicas from ISRs, stop them, and send the changes, in steps. With `into`, the requests are added to that
        batch, and the caller sends it."""
        by_broker: dict[int, list[Replica]] = {}
        for replica in going:
            if replica_state_machine.can_move(self.context, replica, ReplicaPhase.OFFLINE):
                by_broker.setdefault(replica[2], []).append(replica)
        for broker_id, theirs in by_broker.items():
            for step in _steps(theirs, CHANGES_STEP):
                batch = self.new_batch() if into is None else into
                await self._take_offline_step(broker_id, step, batch)
                if into is None:
                    await self.send(batch)

    async def _take_offline_step(self, broker_id: int, going: Sequence[Replica], batch: RequestBatch) -> None:
        batch.add_update_metadata(self.context.live_brokers, ())
        await self.move_replicas(batch, going, ReplicaPhase.OFFLINE)
        remaining = [(name, partition) for name, partition, _ in going]
        states = await self.known_states(remaining)
        while remaining:
            plan = replica_state_machine.plan_offline(self.context, broker_id, states)
            log_leaderless(self.context, plan.failures)
            outcome = await self.write_states(plan)
            for key, state in outcome.written.items():
                replica_state_machine.offline_committed(self.context, batch, broker_id, key, state)
            self.context.leadership.update(plan.unchanged)
            batch.add_update_metadata(self.context.live_brokers, plan.unchanged)
            remaining = outcome.again
            states = await self.read_states(remaining)

    async def move_replicas(self, batch: RequestBatch, moving: Iterable[Replica], target: ReplicaPhase) -> None:
        """Move the replicas that can move to phase `target`; the caller sends the batch."""
        for step in _steps(moving, MOVES_STEP):
            movable = [each for each in step if replica_state_machine.can_move(self.context, each, target)]
            replica_state_machine.move(self.context, batch, movable, target)
            await self.yield_if_due()


def _steps(items: Iterable[T], size: int) -> Iterator[list[T]]:
    whole = list(items)
    return (whole[start : start + size] for start in range(0, len(whole), size))
