"""What only the brokers know of share groups, told to the world: when a leader loads what is stored of a share partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from replication.sharing.group_partition import GroupPartition
from tests.simulation.cluster.observer import broker_here, observing
from tests.simulation.mutants import Patches
from tests.simulation.shares.world import ShareWorld


@contextmanager
def observing_shares(world: ShareWorld) -> Iterator[None]:
    patches = Patches()
    with ExitStack() as stack:
        stack.enter_context(observing(world))
        stack.callback(patches.undo)
        _observe_loads(world, patches)
        yield


def _observe_loads(world: ShareWorld, patches: Patches) -> None:
    def watched(original: Any) -> Any:
        async def load(self: GroupPartition) -> None:
            broker_id = broker_here(world)
            if broker_id is not None:
                world.loads[broker_id, self.group_id, (self.partition.topic, self.index)] += 1
                world.count("share partitions loaded")
            await original(self)

        return load

    patches.replace(GroupPartition, "load", watched)
