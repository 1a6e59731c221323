"""One controller's term: the hands of the pure state machines.

A term is what an election gives and a resignation takes: the context, the session it was won under, the channels. The
steps here read and write state nodes, then move the machines, then send what follows; each returns when the store has
agreed.

Rules: every write carries a check of /controller_epoch, so a deposed controller changes nothing: ControllerMovedError.
Every operation goes to the session of the election: SessionExpiredError once it is gone. Either ends the term.
Source: Kafka KafkaController, ZkPartitionStateMachine, ZkReplicaStateMachine, KafkaZkClient (controller epoch checks).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller import partitions, replicas, znodes
from controller.channels import Channels
from controller.context import ControllerContext, PartitionPhase, Replica, ReplicaPhase, TopicPartition
from controller.election import ElectionReason
from controller.partitions import StateWrites
from controller.requests import RequestBatch, Sender
from controller.store import (
    BadVersionError,
    Check,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    OperationResult,
    Session,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
)
from controller.znodes import PartitionState

NEW_PARTITIONS_STEP = 200
WRITES_STEP = 200  # transactions in flight at once
UNCLEAN_ELECTION = "unclean.leader.election.enable"

log = logging.getLogger(__name__)


class ControllerMovedError(Exception):
    """Another broker has become controller: this term is over."""


@dataclass(slots=True)
class Elections:
    """What an election came to: the new state of each partition, or the reason why it has none."""

    elected: dict[TopicPartition, PartitionState]
    failures: dict[TopicPartition, str]


class Term:
    def __init__(
        self,
        context: ControllerContext,
        session: Session,
        channels: Channels,
        sender: Sender,
        watch: Watch,
        *,
        is_unclean_allowed: bool,
    ) -> None:
        self.context = context
        self.session = session
        self.channels = channels
        self.watch = watch
        self._sender = sender
        self._is_unclean_allowed = is_unclean_allowed

    # Sending.

    def new_batch(self) -> RequestBatch:
        return RequestBatch(self.context, self._sender)

    def send(self, batch: RequestBatch) -> None:
        for broker_id, request in batch.build():
            self.channels.send(broker_id, request)

    def send_metadata(self, broker_ids: Iterable[int], topic_partitions: Iterable[TopicPartition] = ()) -> None:
        batch = self.new_batch()
        batch.add_update_metadata(broker_ids, topic_partitions)
        self.send(batch)

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
        nodes = await self.session.read_many([znodes.state_path(*key) for key in keys])
        return {
            key: PartitionState.decode(node[0], node[1].version)
            for key, node in zip(keys, nodes, strict=True)
            if node is not None
        }

    async def create_partitions(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """New partitions, from nothing to online: KafkaController.onNewPartitionCreation. A large number goes in steps,
        so that clients are served meanwhile and the first partitions are ready early."""
        for start in range(0, len(topic_partitions), NEW_PARTITIONS_STEP):
            await self._create_step(topic_partitions[start : start + NEW_PARTITIONS_STEP])

    async def _create_step(self, topic_partitions: Sequence[TopicPartition]) -> None:
        context = self.context
        log.info("new partitions count=%d first=%s", len(topic_partitions), topic_partitions[:1])
        partitions.move(context, topic_partitions, PartitionPhase.NEW)
        replicas.move(context, self.new_batch(), context.replicas_of(topic_partitions), ReplicaPhase.NEW)
        await self.bring_online(topic_partitions)
        batch = self.new_batch()
        replicas.move(context, batch, context.replicas_of(topic_partitions), ReplicaPhase.ONLINE)
        self.send(batch)

    async def bring_online(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """NEW partitions get their first leader, OFFLINE ones another, where there is one."""
        context = self.context
        wanted = [each for each in topic_partitions if not context.is_being_deleted(each[0])]
        new = [each for each in wanted if context.partition_phase(each) is PartitionPhase.NEW]
        offline = [each for each in wanted if context.partition_phase(each) is PartitionPhase.OFFLINE]
        if new:
            await self._create_states(new)
        if offline:
            await self.elect(offline, ElectionReason.OFFLINE)

    async def _create_states(self, new: list[TopicPartition]) -> None:
        plan = partitions.plan_first_leaders(self.context, new)
        self._log_failures(plan)
        parents = [[Create(znodes.partitions_path(name))] for name in dict.fromkeys(name for name, _ in plan.writes)]
        for outcome in await self.write_many(parents):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                log.warning("topic vanished while its partitions were made path=%s", outcome.path)
        outcomes = await self.write_many(
            [
                [Create(znodes.partition_path(*key)), Create(znodes.state_path(*key), state.encode())]
                for key, state in plan.writes.items()
            ]
        )
        batch = self.new_batch()
        for (key, state), outcome in zip(plan.writes.items(), outcomes, strict=True):
            if isinstance(outcome, StoreError):
                log.warning("partition %s-%d was not made error=%r", *key, outcome)
            else:
                partitions.committed(self.context, batch, key, state, is_new=True)
        self.send(batch)

    async def elect(self, topic_partitions: Iterable[TopicPartition], reason: ElectionReason) -> Elections:
        """Choose leaders anew and tell everybody. A state node that changed meanwhile is read and decided again."""
        result = Elections({}, {})
        remaining = list(topic_partitions)
        batch = self.new_batch()
        while remaining:
            states = await self.read_states(remaining)
            for each in remaining:
                if each not in states:
                    result.failures[each] = "it has no state node"
            allowed = await self._unclean_allowed(states) if reason is ElectionReason.OFFLINE else {}
            plan = partitions.plan_elections(self.context, states, reason, allowed)
            self._log_failures(plan)
            result.failures.update(plan.failures)
            written, remaining = await self._write_states(plan)
            for key, state in written.items():
                partitions.committed(self.context, batch, key, state, is_new=False)
                result.elected[key] = state
                if key in plan.unclean:
                    log.warning("unclean election topic=%s partition=%d leader=%d", *key, state.leader)
        self.send(batch)
        return result

    async def _unclean_allowed(self, topic_partitions: Iterable[TopicPartition]) -> dict[str, bool]:
        names = list(dict.fromkeys(name for name, _ in topic_partitions))
        nodes = await self.session.read_many([znodes.config_path("topics", name) for name in names])
        allowed = {}
        for name, node in zip(names, nodes, strict=True):
            own = {} if node is None else znodes.decode_config(node[0])
            text = own.get(UNCLEAN_ELECTION)
            allowed[name] = self._is_unclean_allowed if text is None else text.strip().lower() == "true"
        return allowed

    async def _write_states(
        self, plan: StateWrites
    ) -> tuple[dict[TopicPartition, PartitionState], list[TopicPartition]]:
        """(what was written, with its new partition epochs; what must be read and decided again)."""
        outcomes = await self.write_many(
            [
                [SetData(znodes.state_path(*key), state.encode(), state.partition_epoch)]
                for key, state in plan.writes.items()
            ]
        )
        written: dict[TopicPartition, PartitionState] = {}
        again: list[TopicPartition] = []
        for (key, state), outcome in zip(plan.writes.items(), outcomes, strict=True):
            match outcome:
                case [Stat() as stat]:
                    written[key] = replace(state, partition_epoch=stat.version)
                case BadVersionError() | NoNodeError():
                    again.append(key)
                case _:
                    raise AssertionError(f"{key}: {outcome!r} answers no set")
        return written, again

    # Replicas.

    async def take_replicas_offline(self, going: Iterable[Replica]) -> None:
        """Out of the ISR, told to stop, and the rest of each partition told."""
        by_broker: dict[int, list[Replica]] = {}
        for replica in going:
            if replicas.can_move(self.context, replica, ReplicaPhase.OFFLINE):
                by_broker.setdefault(replica[2], []).append(replica)
        batch = self.new_batch()
        for broker_id, theirs in by_broker.items():
            replicas.move(self.context, batch, theirs, ReplicaPhase.OFFLINE)
            remaining = [(name, partition) for name, partition, _ in theirs]
            while remaining:
                plan = replicas.plan_offline(self.context, broker_id, await self.read_states(remaining))
                self._log_failures(plan)
                written, remaining = await self._write_states(plan)
                for key, state in written.items():
                    replicas.offline_committed(self.context, batch, broker_id, key, state)
        self.send(batch)

    def _log_failures(self, plan: StateWrites) -> None:
        for (name, partition), reason in plan.failures.items():
            log.warning("no leader topic=%s partition=%d reason=%r", name, partition, reason)


async def read_registrations(
    session: Session, watch: Watch | None = None
) -> Mapping[int, tuple[znodes.BrokerRegistration, int]]:
    """The brokers that are registered now, with their epochs. `watch` is left on the list and on every broker."""
    ids = [int(name) for name in await session.children(znodes.BROKER_IDS, watch)]
    nodes = await session.read_many([znodes.broker_path(each) for each in ids], watch)
    return {
        broker_id: (znodes.BrokerRegistration.decode(broker_id, node[0]), node[1].czxid)
        for broker_id, node in zip(ids, nodes, strict=True)
        if node is not None
    }
