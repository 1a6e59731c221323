"""The requests that tell brokers what the controller decided, gathered for a whole step and built at its end. Pure.

Rules: at most one LeaderAndIsr, one UpdateMetadata and one StopReplica a broker and step, in this order; only to
registered brokers, each with its own broker epoch. A change of leadership also reaches every broker's metadata.
Partitions of topics that are being deleted carry the leader LEADER_DURING_DELETE, which takes them out of the brokers'
metadata. Built for the versions of inter.broker.protocol.version 3.9: LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4.
Source: Kafka ControllerBrokerRequestBatch; KIP-380 (broker epoch), KIP-516 (topic ids), KIP-570 (leader epoch in
StopReplica).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.context import ControllerContext, ReplicaPhase, TopicPartition
from controller.znodes import BrokerRegistration, PartitionState
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

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
NO_EPOCH = -1

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends, and through which listener brokers reach each other."""

    broker_id: int
    inter_broker_listener: str


class RequestBatch:
    """Filled by one step of the controller, built once."""

    def __init__(self, context: ControllerContext, sender: Sender) -> None:
        self._context = context
        self._sender = sender
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._metadata_partitions: dict[TopicPartition, None] = {}

    def add_leader_and_isr(self, broker_ids: Iterable[int], topic_partition: TopicPartition, *, is_new: bool) -> None:
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            partitions[topic_partition] = is_new or partitions.get(topic_partition, False)
        self.add_update_metadata(self._context.live_brokers, [topic_partition])

    def add_stop_replica(self, broker_ids: Iterable[int], topic_partition: TopicPartition, *, delete: bool) -> None:
        for broker_id in broker_ids:
            partitions = self._stop_replica.setdefault(broker_id, {})
            partitions[topic_partition] = delete or partitions.get(topic_partition, False)

    def add_update_metadata(self, broker_ids: Iterable[int], topic_partitions: Iterable[TopicPartition]) -> None:
        """Without partitions the request still tells which brokers are alive."""
        self._metadata_brokers.update(dict.fromkeys(broker_ids))
        self._metadata_partitions.update(dict.fromkeys(topic_partitions))

    def build(self) -> list[tuple[int, ControlRequest]]:
        """(broker, request) in the order of sending."""
        requests: list[tuple[int, ControlRequest]] = []
        for broker_id, partitions in self._leader_and_isr.items():
            if broker_id in self._context.live_brokers:
                requests.append((broker_id, self._build_leader_and_isr(broker_id, partitions)))
        if self._metadata_brokers:
            topic_states = self._metadata_topic_states()
            live_brokers = [self._metadata_broker(broker_id) for broker_id in sorted(self._context.live_brokers)]
            requests += [
                (broker_id, self._build_update_metadata(broker_id, topic_states, live_brokers))
                for broker_id in self._metadata_brokers
                if broker_id in self._context.live_brokers
            ]
        for broker_id, stopped in self._stop_replica.items():
            if broker_id in self._context.live_brokers:
                requests.append((broker_id, self._build_stop_replica(broker_id, stopped)))
        return requests

    # LeaderAndIsr.

    def _build_leader_and_isr(self, broker_id: int, partitions: dict[TopicPartition, bool]) -> LeaderAndIsrRequest:
        states: dict[str, list[LeaderAndIsrPartitionState]] = {}
        leaders: dict[int, None] = {}
        for topic_partition, is_new in partitions.items():
            state = self._context.leadership[topic_partition]
            leaders[state.leader] = None
            replica_is_new = self._context.replica_phase((*topic_partition, broker_id)) is ReplicaPhase.NEW
            states.setdefault(topic_partition[0], []).append(
                self._leader_and_isr_state(topic_partition, state, is_new=is_new or replica_is_new)
            )
        return LeaderAndIsrRequest(
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
        )

    def _leader_and_isr_state(
        self, topic_partition: TopicPartition, state: PartitionState, *, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        assignment = self._context.assignment(topic_partition)
        return LeaderAndIsrPartitionState(
            partition_index=topic_partition[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=is_new,
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

    def _build_update_metadata(
        self, broker_id: int, topic_states: list[UpdateMetadataTopicState], live_brokers: list[UpdateMetadataBroker]
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self._sender.broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.live_brokers[broker_id].epoch,
            topic_states=topic_states,
            live_brokers=live_brokers,
        )

    def _metadata_topic_states(self) -> list[UpdateMetadataTopicState]:
        states: dict[str, list[UpdateMetadataPartitionState]] = {}
        for topic_partition in self._metadata_partitions:
            state = self._context.leadership.get(topic_partition)
            if state is not None:
                rows = states.setdefault(topic_partition[0], [])
                rows.append(self._metadata_state(topic_partition, state))
        return [
            UpdateMetadataTopicState(topic_name=name, topic_id=self._context.topic_id(name), partition_states=rows)
            for name, rows in states.items()
        ]

    def _metadata_state(self, topic_partition: TopicPartition, state: PartitionState) -> UpdateMetadataPartitionState:
        is_deleted = self._context.is_being_deleted(topic_partition[0])
        replicas = self._context.assignment(topic_partition).replicas
        return UpdateMetadataPartitionState(
            partition_index=topic_partition[1],
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if is_deleted else state.leader,
            leader_epoch=0 if is_deleted else state.leader_epoch,
            isr=list(state.isr),
            zk_version=0 if is_deleted else state.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[each for each in replicas if not self._context.is_replica_online(each, topic_partition)],
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
            state = self._context.leadership.get((name, partition))
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
