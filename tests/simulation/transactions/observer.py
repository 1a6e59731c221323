"""What only brokers know of transactions, for the counters and for the checker of the last stable offset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.cluster.transactions.marker_queues import MarkerQueues
from client.event_loop.broker_client import BrokerClient
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.transaction import TransactionState
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.transaction_version import MARKERS_SINCE
from storage.log.partition_log import PartitionLog
from tests.simulation.cluster.observer import broker_here
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.mutants import Patches
from tests.simulation.transactions.scene import Scene


@contextmanager
def watching_transactions(scene: Scene) -> Iterator[None]:
    patches = Patches()
    _count_markers(scene, patches)
    _count_loads(scene, patches)
    if isinstance(scene.world, ClusterWorld):
        _observe_stable_offsets(scene, scene.world, patches)
        _keep_markers(scene, scene.world, patches)
    try:
        yield
    finally:
        patches.undo()


def _count_markers(scene: Scene, patches: Patches) -> None:
    world = scene.world

    def watched_response(original: Any) -> Any:
        def on_response(self: MarkerQueues, *args: Any) -> Any:
            summary = original(self, *args)
            world.count("markers refused and repeated", sum(map(len, summary.retried.values())))
            return summary

        return on_response

    def watched_loss(original: Any) -> Any:
        def on_lost(self: MarkerQueues, broker_id: int) -> None:
            world.count("markers not answered and repeated")
            original(self, broker_id)

        return on_lost

    patches.replace(MarkerQueues, "on_response", watched_response)
    patches.replace(MarkerQueues, "on_lost", watched_loss)


def _keep_markers(scene: Scene, world: ClusterWorld, patches: Patches) -> None:
    """For those that come late (`clients.straggler`)."""

    def watched(original: Any) -> Any:
        async def send(self: BrokerClient, request: Any, version: int, *more: Any, **options: Any) -> Any:
            address = self._address()
            if isinstance(request, WriteTxnMarkersRequest) and version >= MARKERS_SINCE and address is not None:
                scene.sent_markers.append((world.broker_ids[address.host], request))
            return await original(self, request, version, *more, **options)

        return send

    patches.replace(BrokerClient, "send", watched)


def _count_loads(scene: Scene, patches: Patches) -> None:
    world = scene.world

    def watched(original: Any) -> Any:
        def on_loaded(self: TransactionShard, now_ms: int) -> Any:
            effects = original(self, now_ms)
            world.count("coordinators loaded")
            for transaction in self.durable_state().values():
                if transaction.state is TransactionState.ONGOING:
                    world.count("open transactions found by a new coordinator")
                elif transaction.state.is_prepared:
                    world.count("decided transactions found by a new coordinator")
            return effects

        return on_loaded

    patches.replace(TransactionShard, "on_loaded", watched)


def _observe_stable_offsets(scene: Scene, world: ClusterWorld, patches: Patches) -> None:
    """That of a leader, whenever its high watermark moves."""

    def watched(original: Any) -> Any:
        def commit(self: PartitionLog, high_watermark: int) -> Any:
            outcome = original(self, high_watermark)
            broker_id, key = broker_here(world), (self.topic, self.partition)
            if broker_id is None or key not in world.logs.partitions:
                return outcome
            services = world.machines[broker_id].broker
            partition = (
                None if services is None or services._services is None else services._services.partitions.find(*key)
            )
            if partition is not None and partition.is_leader and partition.log is self:
                term = (broker_id, world.machines[broker_id].starts_count, partition.assignment.leader_epoch)
                floor = scene.stable_offsets.known(key, term)
                stable_offset = partition.last_stable_offset
                scene.stable_offsets.on_offset(key, floor, stable_offset, high_watermark, term)
            return outcome

        return commit

    patches.replace(PartitionLog, "commit", watched)
