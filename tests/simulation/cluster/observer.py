"""What only the brokers know, told to the world by standing in front of some of their methods.

Which broker it is says the process that runs (`tests.simulation.process`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from client.event_loop.broker_client import BrokerClient
from controller.requests.request_batch import ControlRequest
from coordinator.runtime.shard_context import ShardContext
from metadata.image import ClusterImage, MetadataCache
from replication.partition import Partition
from storage.directories.future_logs import FutureLogs
from storage.log.partition_log import PartitionLog
from storage.log.removal import log_truncation
from tests.simulation.cluster.world import GROUP_TOPIC, ClusterWorld, Sent
from tests.simulation.mutants import Patches
from tests.simulation.process import PROCESS

if TYPE_CHECKING:
    from replication.partitions import Partitions


def broker_here(world: ClusterWorld) -> int | None:
    """The broker whose code runs."""
    process = PROCESS.get()
    if process is None or not process.is_alive:
        return None
    return world.broker_ids.get(process.name.partition(".")[0])


def _partitions(world: ClusterWorld, broker_id: int) -> Partitions | None:
    broker = world.machines[broker_id].broker
    return None if broker is None or broker._services is None else broker._services.partitions


@contextmanager
def observing(world: ClusterWorld) -> Iterator[None]:
    patches = Patches()
    with ExitStack() as stack:
        stack.callback(patches.undo)
        _observe_leaders(world, patches)
        _observe_watermarks(world, patches)
        _observe_laggards(world, patches)
        _observe_truncations(world, patches)
        _observe_moves(world, patches)
        _observe_loads(world, patches)
        _observe_metadata(world, patches)
        _observe_control_requests(world, patches)
        yield


def _observe_leaders(world: ClusterWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        def become_leader(self: Partition, *args: Any, **options: Any) -> Any:
            outcome = original(self, *args, **options)
            broker_id = broker_here(world)
            if broker_id is not None and self.is_leader:
                world.on_leader(broker_id, (self.topic, self.partition), self.topic_id, self.assignment.leader_epoch)
            return outcome

        return become_leader

    patches.replace(Partition, "become_leader", watched)


def _observe_watermarks(world: ClusterWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        def commit(self: PartitionLog, high_watermark: int) -> Any:
            outcome = original(self, high_watermark)
            broker_id = broker_here(world)
            partitions = None if broker_id is None else _partitions(world, broker_id)
            partition = None if partitions is None else partitions.find(self.topic, self.partition)
            if high_watermark > self.log_end_offset:
                world.report(
                    f"broker {broker_id}: {self.topic}-{self.partition} ends at {self.log_end_offset}, "
                    f"its high watermark is {high_watermark}"
                )
            if broker_id is not None and partition is not None and partition.is_leader and partition.log is self:
                world.on_watermark(
                    broker_id, (self.topic, self.partition), partition.assignment.leader_epoch, high_watermark
                )
            return outcome

        return commit

    patches.replace(PartitionLog, "commit", watched)


def _observe_laggards(world: ClusterWorld, patches: Patches) -> None:
    """Who has not caught up for so long must have been asked to leave."""
    lag_max_ms = int(world.plan.settings["replica.lag.time.max.ms"])

    def watched(original: Any) -> Any:
        def on_tick(self: Partition, now_ms: int) -> None:
            original(self, now_ms)
            leader, broker_id = self.leader, broker_here(world)
            if leader is None or broker_id is None or leader.pending is not None:
                return
            for member in leader.isr:
                replica = leader.followers.get(member)
                if replica and replica.leo < leader.leo and now_ms - replica.caught_up_ms > lag_max_ms:
                    world.report(
                        f"broker {broker_id}: {self.topic}-{self.partition} keeps {member} in the ISR, which lags"
                    )

        return on_tick

    patches.replace(Partition, "on_tick", watched)


def _observe_truncations(world: ClusterWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        async def truncate(log: PartitionLog, work: Any) -> Any:
            broker_id, before = broker_here(world), log.log_end_offset
            outcome = await original(log, work)
            if broker_id is not None and _is_served(world, broker_id, log):
                world.on_truncated(broker_id, (log.topic, log.partition), before, log.log_end_offset)
            return outcome

        return truncate

    patches.replace(log_truncation, "_run_shielded", watched)


def _is_served(world: ClusterWorld, broker_id: int, log: PartitionLog) -> bool:
    """Not a copy, which is cut as its log has been cut."""
    broker = world.machines[broker_id].broker
    return broker is not None and broker.logs.logs.get((log.topic, log.partition)) is log


def _observe_moves(world: ClusterWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        async def complete_move(self: FutureLogs, *args: Any) -> Any:
            outcome = await original(self, *args)
            world.count("logs moved")
            return outcome

        return complete_move

    patches.replace(FutureLogs, "complete_move", watched)


def _observe_loads(world: ClusterWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        def load(self: Any, *args: Any, **options: Any) -> Any:
            world.count(f"loads of {GROUP_TOPIC}")
            return original(self, *args, **options)

        return load

    patches.replace(ShardContext, "load", watched)


def _observe_metadata(world: ClusterWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        def publish(self: MetadataCache, image: ClusterImage) -> None:
            original(self, image)
            broker_id = broker_here(world)
            if broker_id is not None:
                world.metadata.on_published(broker_id, world.machines[broker_id].starts_count, image)

        return publish

    patches.replace(MetadataCache, "publish", watched)


def _observe_control_requests(world: ClusterWorld, patches: Patches) -> None:
    """Kept for those that come late (`coincidences`)."""

    def watched(original: Any) -> Any:
        async def send(self: BrokerClient, request: Any, version: int, response_type: Any, **options: Any) -> Any:
            if isinstance(request, ControlRequest):
                address = self._address()
                if address is not None:
                    broker_id = world.broker_ids[address.host]
                    life = world.machines[broker_id].starts_count
                    world.control_requests[broker_id].append(Sent(life, request, version, response_type))
            return await original(self, request, version, response_type, **options)

        return send

    patches.replace(BrokerClient, "send", watched)
