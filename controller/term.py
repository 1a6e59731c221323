"""One controller's term: the hands of the pure state machines.

A term is what an election gives and a resignation takes: the context, the session it was won under, the channels. The
steps here read and write state nodes, then move the machines, then send what follows; each returns when the store has
agreed.

Rules: every write carries a check of /controller_epoch, so a deposed controller changes nothing: ControllerMovedError.
Every operation goes to the session of the election: SessionExpiredError once it is gone. Either ends the term.
Long steps give the event loop its turn (`runtime.slices`); the controller's own events stay in order, since a step is one
event.
State nodes are not read before they are written where this controller alone writes them (`known_states`): it knows what
is in them, and the version of each write says whether that holds.
Source: Kafka KafkaController, ZkPartitionStateMachine, ZkReplicaStateMachine, KafkaZkClient (controller epoch checks).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from config.broker import BrokerSettings
from config.java_values import java_trim
from controller import partition_state_machine, replica_state_machine
from controller.controller_context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from controller.leader_election_rules import ElectionReason
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
from runtime.reasons import reason_of
from runtime.slices import Slices

T = TypeVar("T")

READS_STEP = 500  # state nodes that are decoded before others get a turn
NEW_PARTITIONS_STEP = 200
CHANGES_STEP = 200  # partitions that change their leader or ISR and are told together
MOVES_STEP = 200
WRITES_STEP = 200  # transactions in flight at once
LOGGED_FAILURES = 10  # of one step: thousands of partitions may fail for one reason
UNCLEAN_ELECTION = "unclean.leader.election.enable"

logger = logging.getLogger(__name__)


class ControllerMovedError(Exception):
    """Another broker has become controller: this term is over."""


@dataclass(slots=True)
class ElectionResult:
    """What an election came to: the new state of each partition, or the reason why it has none."""

    elected: dict[TopicPartition, PartitionState]
    failures: dict[TopicPartition, str]


@dataclass(slots=True)
class WrittenStates:
    """What became of the states of a plan: each of its partitions is in one of these."""

    written: dict[TopicPartition, PartitionState]
    """With their new partition epochs."""
    again: list[TopicPartition]
    """To be read and decided again."""
    refused: dict[TopicPartition, FinalError]
    """The store refuses them for good: those partitions stay as they are."""


class Term:
    def __init__(
        self,
        context: ControllerContext,
        session: Session,
        channels: Channels,
        sender: Sender,
        watch: Watch,
        settings: Callable[[], BrokerSettings],
        clock: Clock,
    ) -> None:
        self.context = context
        self.session = session
        self.channels = channels
        self.watch = watch
        self.unclean_elections_count = 0
        self._sender = sender
        self._settings = settings
        self._slices = Slices(clock)

    @property
    def settings(self) -> BrokerSettings:
        return self._settings()

    async def yield_if_due(self) -> None:
        """A point at which everybody else may have a turn, if this work has had its own."""
        await self._slices.yield_if_due()

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
        """Each transaction all or nothing, under a check of the controller's epoch. Raises ControllerMovedError."""
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
        """The state nodes that exist."""
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
        """The same as this controller knows them, read where it does not, or where leaders write them too."""
        keys = list(topic_partitions)
        known = self.context.leadership if self.context.version.supports_alter_partition else {}
        states = {key: known[key] for key in keys if key in known}
        return states | await self.read_states(key for key in keys if key not in states)

    async def create_partitions(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """New partitions, from nothing to online: KafkaController.onNewPartitionCreation. A large number goes in steps,
        so that clients are served meanwhile and the first partitions are ready early."""
        for start in range(0, len(topic_partitions), NEW_PARTITIONS_STEP):
            await self._create_step(topic_partitions[start : start + NEW_PARTITIONS_STEP])

    async def _create_step(self, topic_partitions: Sequence[TopicPartition]) -> None:
        context = self.context
        logger.info("new partitions: partitions=%d examples=%s", len(topic_partitions), topic_partitions[:1])
        partition_state_machine.move(context, topic_partitions, PartitionPhase.NEW)
        replica_state_machine.move(context, self.new_batch(), context.replicas_of(topic_partitions), ReplicaPhase.NEW)
        await self.bring_online(topic_partitions)
        batch = self.new_batch()
        replica_state_machine.move(context, batch, context.replicas_of(topic_partitions), ReplicaPhase.ONLINE)
        await self.send(batch)

    async def bring_online(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """NEW partitions get their first leader, OFFLINE ones another, where there is one."""
        wanted = list(topic_partitions)
        new = self._wanted_online(wanted, PartitionPhase.NEW)
        if new:
            await self._create_states(new)
        await self.elect_leaderless(wanted)

    async def elect_leaderless(
        self, topic_partitions: Iterable[TopicPartition], into: RequestBatch | None = None
    ) -> ElectionResult:
        """Those of them that are OFFLINE. See `elect`."""
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
        self._log_failures(plan)
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
        """A partition's node and its state at once. The node may be there already: Apache Kafka makes one after the other,
        and a controller of its may have died between them."""
        outcomes = await self.write_many(
            [
                [Create(znodes.partition_path(*key)), Create(znodes.state_path(*key), state.encode())]
                for key, state in states.items()
            ]
        )
        half_made = {
            index: [Create(znodes.state_path(*key), state.encode())]
            for index, ((key, state), outcome) in enumerate(zip(states.items(), outcomes, strict=True))
            if isinstance(outcome, NodeExistsError) and outcome.path == znodes.partition_path(*key)
        }
        for index, outcome in zip(half_made, await self.write_many(list(half_made.values())), strict=True):
            outcomes[index] = outcome
        return outcomes

    async def elect(
        self, topic_partitions: Iterable[TopicPartition], reason: ElectionReason, into: RequestBatch | None = None
    ) -> ElectionResult:
        """Choose leaders anew and tell everybody. A large number goes in steps, so that the first are told early. With
        `into`, what is to be told is added there, and the caller's to send."""
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
        """A state node that changed meanwhile is read and decided again; so is one that leaves nobody to elect."""
        allowed = {}
        if reason is ElectionReason.OFFLINE:
            allowed = await self._unclean_allowed(topic_partitions)
        states = await self.known_states(topic_partitions)
        is_read = False
        remaining = list(topic_partitions)
        while remaining:
            plan = partition_state_machine.plan_elections(self.context, states, reason, allowed)
            outcome = await self.write_states(plan)
            written, again = outcome.written, outcome.again
            result.failures |= {key: repr(error) for key, error in outcome.refused.items()}
            if is_read:
                self._log_failures(plan)
                result.failures |= plan.failures
                result.failures |= dict.fromkeys(
                    (each for each in remaining if each not in states), "it has no state node"
                )
            else:
                again += [each for each in remaining if each in plan.failures or each not in states]
            to_shutting_down = reason is ElectionReason.CONTROLLED_SHUTDOWN
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
                    leaders,
                    *min(unclean),
                )
            remaining = again
            states, is_read = await self.read_states(remaining), True

    async def raise_leader_epoch(self, topic_partition: TopicPartition) -> PartitionState | None:
        """The same leader and ISR under a new leader epoch, written and not yet told; None for a partition that never
        had a leader. Raises FinalError."""
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
        """Of partitions of one topic, into its node, beside what others may have added to it meanwhile, then into the
        context. Raises NoNodeError when the topic is gone; FinalError when its node cannot be read or
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
                    raise AssertionError(f"{key}: {outcome!r} answers no set")
        return result

    # Replicas.

    async def take_down(self, leaderless: Iterable[TopicPartition], going: Iterable[Replica]) -> None:
        """Other leaders for partitions that have lost theirs, and `going` out of the ISR. Brokers hear of each partition
        once, and first of those without a leader."""
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
        """Out of the ISR, told to stop, and everybody told. A large number goes in steps. With `into`, what is to be told
        is added there, and the caller's to send."""
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
            self._log_failures(plan)
            outcome = await self.write_states(plan)
            for key, state in outcome.written.items():
                replica_state_machine.offline_committed(self.context, batch, broker_id, key, state)
            self.context.leadership.update(plan.unchanged)
            batch.add_update_metadata(self.context.live_brokers, plan.unchanged)
            remaining = outcome.again
            states = await self.read_states(remaining)

    async def move_replicas(self, batch: RequestBatch, moving: Iterable[Replica], target: ReplicaPhase) -> None:
        """Those that can be moved there; the batch is the caller's to send."""
        for step in _steps(moving, MOVES_STEP):
            movable = [each for each in step if replica_state_machine.can_move(self.context, each, target)]
            replica_state_machine.move(self.context, batch, movable, target)
            await self.yield_if_due()

    def _log_failures(self, plan: StateWrites) -> None:
        for (name, partition), reason in islice(plan.failures.items(), LOGGED_FAILURES):
            logger.warning("partition without leader: topic=%s partition=%d reason=%s", name, partition, reason)
        if len(plan.failures) > LOGGED_FAILURES:
            logger.warning("further partitions without leader: partitions=%d", len(plan.failures) - LOGGED_FAILURES)


def _steps(items: Iterable[T], size: int) -> Iterator[list[T]]:
    whole = list(items)
    return (whole[start : start + size] for start in range(0, len(whole), size))
