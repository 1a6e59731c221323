"""The control requests of one step of the controller, collected during the step and built at its end. Pure.

Rules: at most one LeaderAndIsr, one UpdateMetadata and one StopReplica a broker and step, in this order; only to
registered brokers, each with its own broker epoch. A change of leadership also reaches every broker's metadata. The
metadata of many partitions is split into several requests: brokers merge partitions. A new broker serves clients when a
request lists it among the live brokers: only the last one does (`announce`). LeaderAndIsr is never split: a broker treats the
first one as complete.
Partitions of topics that are being deleted have the leader LEADER_DURING_DELETE, which removes them from the brokers'
metadata. Built in the newest form: LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4; `request_versions` rewrites them.
Source: Kafka ControllerBrokerRequestBatch; KIP-380 (broker epoch), KIP-516 (topic ids), KIP-570 (leader epoch in
StopReplica).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from controller.controller_context import ControllerContext, ReplicaPhase
from controller.partition_map import PartitionMap
from metadata.store.znodes import BrokerRegistration, PartitionState
from protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.topic_partition import TopicPartition

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
NO_EPOCH = -1

METADATA_STEP = 1_000  # partitions of one UpdateMetadata: bounds the time that its encoding takes
ROWS_STEP = 200  # rows that are built before the event loop continues

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
Parcel = tuple[int, ControlRequest]


@dataclass(frozen=True, slots=True)
class Sender:
    """The controller's broker id, and the listener between brokers."""

    broker_id: int
    inter_broker_listener: str


class RequestBatch:
    """Collects the requests of one step, and builds them once."""

    def __init__(self, context: ControllerContext, sender: Sender) -> None:
        self._context = context
        self._sender = sender
        self._leader_and_isr: dict[int, PartitionMap[bool]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._newcomers: set[int] = set()
        self._metadata_partitions: PartitionMap[bool] = PartitionMap()  # a set
        self._leader_and_isr_rows: dict[tuple[TopicPartition, bool], LeaderAndIsrPartitionState] = {}
        self._lists: dict[tuple[int, ...], list[int]] = {}

    def add_leader_and_isr(self, broker_ids: Iterable[int], topic_partition: TopicPartition, *, is_new: bool) -> None:
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.get(broker_id)
            if partitions is None:
                partitions = self._leader_and_isr[broker_id] = PartitionMap()
            partitions[topic_partition] = is_new or bool(partitions.find(topic_partition))
        self.add_update_metadata(self._context.live_brokers, [topic_partition])

    def add_stop_replica(self, broker_ids: Iterable[int], topic_partition: TopicPartition, *, delete: bool) -> None:
        for broker_id in broker_ids:
            partitions = self._stop_replica.setdefault(broker_id, {})
            partitions[topic_partition] = delete or partitions.get(topic_partition, False)

    def add_update_metadata(self, broker_ids: Iterable[int], topic_partitions: Iterable[TopicPartition]) -> None:
        """Add metadata. Without partitions the request still has the live brokers."""
        self._metadata_brokers.update(dict.fromkeys(broker_ids))
        for each in topic_partitions:
            self._metadata_partitions[each] = True

    def announce(self, broker_ids: Iterable[int], topic_partitions: Iterable[TopicPartition]) -> None:
        """Add metadata for brokers that have just registered."""
        self._newcomers.update(broker_ids)
        self.add_update_metadata(sorted(self._newcomers), topic_partitions)

    def build(self) -> list[Parcel]:
        """Return (broker, request), in the order of sending."""
        return [parcel for parcel in self.build_in_steps() if parcel is not None]

    def build_in_steps(self) -> Iterator[Parcel | None]:
        """Iterate over the same; a None marks where the caller may yield to the event loop."""
        for broker_id, partitions in self._leader_and_isr.items():
            if broker_id in self._context.live_brokers:
                yield from self._build_leader_and_isr(broker_id, partitions)
        self._leader_and_isr_rows.clear()
        yield from self._build_update_metadata()
        for broker_id, stopped in self._stop_replica.items():
            if broker_id in self._context.live_brokers:
                yield broker_id, self._build_stop_replica(broker_id, stopped)

    def _list(self, broker_ids: tuple[int, ...]) -> list[int]:
        """Return one read-only list for all rows with these brokers: the first requests have every partition."""
        found = self._lists.get(broker_ids)
        if found is None:
            found = self._lists[broker_ids] = list(broker_ids)
        return found

    # LeaderAndIsr.

    def _build_leader_and_isr(self, broker_id: int, partitions: PartitionMap[bool]) -> Iterator[Parcel | None]:
        states: dict[str, list[LeaderAndIsrPartitionState]] = {}
        leaders: dict[int, None] = {}
        for number, (topic_partition, is_new) in enumerate(partitions.pairs(), 1):
            state = self._context.leadership[topic_partition]
            leaders[state.leader] = None
            replica_is_new = self._context.replica_phase((*topic_partition, broker_id)) is ReplicaPhase.NEW
            states.setdefault(topic_partition[0], []).append(
                self._leader_and_isr_state(topic_partition, state, is_new=is_new or replica_is_new)
            )
            if number % ROWS_STEP == 0:
                yield None
        yield (
            broker_id,
            LeaderAndIsrRequest(
                controller_id=self._sender.broker_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.live_brokers[broker_id].epoch,
                topic_states=[
                    LeaderAndIsrTopicState(
                        topic_name=name, topic_id=self._context.topic_id(name), partition_states=partition_states
                    )
                    for name, partition_states in states.items()
                ],
                live_leaders=[self._live_leader(each) for each in leaders if each in self._context.live_brokers],
            ),
        )

    def _leader_and_isr_state(
        self, topic_partition: TopicPartition, state: PartitionState, *, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        """Return the row of a partition, shared by the requests to all brokers."""
        if len(self._leader_and_isr) == 1:
            return self._new_leader_and_isr_state(topic_partition, state, is_new=is_new)
        found = self._leader_and_isr_rows.get((topic_partition, is_new))
        if found is None:
            found = self._new_leader_and_isr_state(topic_partition, state, is_new=is_new)
            self._leader_and_isr_rows[topic_partition, is_new] = found
        return found

    def _new_leader_and_isr_state(
        self, topic_partition: TopicPartition, state: PartitionState, *, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        assignment = self._context.assignment(topic_partition)
        return LeaderAndIsrPartitionState(
            partition_index=topic_partition[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=self._list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=self._list(assignment.replicas),
            adding_replicas=self._list(assignment.adding),
            removing_replicas=self._list(assignment.removing),
            is_new=is_new,
            leader_recovery_state=state.leader_recovery_state,
        )

    def _live_leader(self, broker_id: int) -> LeaderAndIsrLiveLeader:
        host, port = self._address(self._context.live_brokers[broker_id].registration)
        return LeaderAndIsrLiveLeader(broker_id=broker_id, host_name=host, port=port)

    def _address(self, registration: BrokerRegistration) -> tuple[str, int]:
        for endpoint in registration.endpoints:
            if endpoint.listener == self._sender.inter_broker_listener:
                return endpoint.host, endpoint.port
        return "", -1

    # UpdateMetadata.

    def _build_update_metadata(self) -> Iterator[Parcel | None]:
        if not self._metadata_brokers:
            return
        live_brokers = [self._metadata_broker(broker_id) for broker_id in sorted(self._context.live_brokers)]
        known = (each for each in self._metadata_partitions if each in self._context.leadership)
        following, is_last = list(islice(known, METADATA_STEP)), False
        while not is_last:
            step, following = following, list(islice(known, METADATA_STEP))
            is_last = not following
            states: dict[str, list[UpdateMetadataPartitionState]] = {}
            for number, topic_partition in enumerate(step, 1):
                state = self._context.leadership[topic_partition]
                states.setdefault(topic_partition[0], []).append(self._metadata_state(topic_partition, state))
                if number % ROWS_STEP == 0:
                    yield None
            topic_states = [
                UpdateMetadataTopicState(topic_name=name, topic_id=self._context.topic_id(name), partition_states=rows)
                for name, rows in states.items()
            ]
            for broker_id in self._metadata_brokers:
                if broker_id in self._context.live_brokers:
                    is_announced = is_last or broker_id not in self._newcomers
                    yield (
                        broker_id,
                        UpdateMetadataRequest(
                            controller_id=self._sender.broker_id,
                            controller_epoch=self._context.epoch,
                            broker_epoch=self._context.live_brokers[broker_id].epoch,
                            topic_states=topic_states,
                            live_brokers=live_brokers if is_announced else _without(live_brokers, broker_id),
                        ),
                    )

    def _metadata_state(self, topic_partition: TopicPartition, state: PartitionState) -> UpdateMetadataPartitionState:
        is_deleted = self._context.is_being_deleted(topic_partition[0])
        replicas = self._context.assignment(topic_partition).replicas
        return UpdateMetadataPartitionState(
            partition_index=topic_partition[1],
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if is_deleted else state.leader,
            leader_epoch=0 if is_deleted else state.leader_epoch,
            isr=self._list(state.isr),
            zk_version=0 if is_deleted else state.partition_epoch,
            replicas=self._list(replicas),
            offline_replicas=self._list(
                tuple(each for each in replicas if not self._context.is_replica_online(each, topic_partition))
            ),
        )

    def _metadata_broker(self, broker_id: int) -> UpdateMetadataBroker:
        registration = self._context.live_brokers[broker_id].registration
        return UpdateMetadataBroker(
            id=broker_id,
            endpoints=[
                UpdateMetadataEndpoint(
                    port=each.port,
                    host=each.host,
                    listener=each.listener,
                    security_protocol=SECURITY_PROTOCOLS.get(each.security_protocol, 0),
                )
                for each in registration.endpoints
            ],
            rack=registration.rack,
        )

    # StopReplica.

    def _build_stop_replica(self, broker_id: int, stopped: dict[TopicPartition, bool]) -> StopReplicaRequest:
        topics: dict[str, list[StopReplicaPartitionState]] = {}
        for (name, partition), delete in stopped.items():
            state = self._context.leadership.find((name, partition))
            if self._context.is_being_deleted(name):
                leader_epoch = EPOCH_DURING_DELETE
            else:
                leader_epoch = NO_EPOCH if state is None else state.leader_epoch
            topics.setdefault(name, []).append(
                StopReplicaPartitionState(partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete)
            )
        return StopReplicaRequest(
            controller_id=self._sender.broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.live_brokers[broker_id].epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=name, partition_states=rows) for name, rows in topics.items()
            ],
        )


def _without(brokers: list[UpdateMetadataBroker], broker_id: int) -> list[UpdateMetadataBroker]:
    return [each for each in brokers if each.id != broker_id]
