"""What goes wrong with share groups beside what goes wrong with any cluster: who leads a partition, keeps its state or
coordinates its group is struck, alone or with the others, just when it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from coordinator.runtime.partitioner import partition_for
from protocol.topic_partition import TopicPartition
from tests.simulation.cluster.victims import Victims
from tests.simulation.cluster.world import GROUP_PARTITIONS, GROUP_TOPIC
from tests.simulation.faults import FaultKinds, draw_faults
from tests.simulation.shares.world import ShareWorld

Strike = Callable[[int], Awaitable[None]]
SLOW_DISK_MS = (100.0, 700.0)


class ShareFaults:
    """`victims` is shared with the faults of the cluster."""

    def __init__(self, world: ShareWorld, victims: Victims) -> None:
        self._world = world
        self._victims = victims
        self._kinds: FaultKinds = [
            (5, self._leader_struck),
            (5, self._share_coordinator_struck),
            (3, self._group_coordinator_struck),
            (2, self._both_coordinators_struck),
            (3, self._leader_cut_from_share_coordinator),
            (2, self._share_coordinator_slow),
        ]

    async def run(self, count: int, within_s: float) -> None:
        await draw_faults(self._world, self._kinds, count, within_s, alone_probability=0.6)

    # --- who ---

    def _place(self) -> tuple[TopicPartition, TopicPartition, TopicPartition]:
        """A partition, where its share state is kept, and where its group is."""
        rng, world = self._world.random, self._world
        group = rng.choice(sorted(world.groups_planned))
        key = rng.choice(world.keys_of(group))
        return key, world.state_key(group, key), (GROUP_TOPIC, partition_for(group, GROUP_PARTITIONS))

    def _leaders(self, *keys: TopicPartition) -> list[int]:
        states = [self._world.states.states.get(key) for key in keys]
        return sorted({state.leader for state in states if state is not None and state.leader > 0})

    # --- what ---

    async def _struck(self, *keys: TopicPartition) -> None:
        """Crash the leaders of these, or stop them for a while."""
        rng, world = self._world.random, self._world
        victims = self._victims.take_these(self._leaders(*keys))
        machines = [world.machines[broker_id] for broker_id in victims]
        if rng.random() < 0.3:
            for machine in machines:
                machine.pause()
            await asyncio.sleep(rng.choice((0.3, 2.0, 8.0)))
            for machine in machines:
                machine.resume()
        else:
            for machine in machines:
                machine.crash(power=world.plan.loses_power and rng.random() < 0.3)
            await self._victims.down_time()
            await asyncio.gather(*(self._victims.boot(machine) for machine in machines))
        self._victims.release(victims)

    async def _leader_struck(self) -> None:
        await self._struck(self._place()[0])

    async def _share_coordinator_struck(self) -> None:
        await self._struck(self._place()[1])

    async def _group_coordinator_struck(self) -> None:
        await self._struck(self._place()[2])

    async def _both_coordinators_struck(self) -> None:
        await self._struck(*self._place()[1:])

    async def _leader_cut_from_share_coordinator(self) -> None:
        """Members and the ensemble reach both."""
        rng, world = self._world.random, self._world
        key, state_key, _ = self._place()
        found = self._leaders(key), self._leaders(state_key)
        if not all(found) or found[0] == found[1]:
            return
        one, other = (world.machines[each[0]].name for each in found)
        if rng.random() < 0.5:
            one, other = other, one
        world.network.cut(one, other, one_way=rng.random() < 0.5)
        await asyncio.sleep(rng.choice((0.5, 3.0, 9.0)))
        world.network.mend(one, other)

    async def _share_coordinator_slow(self) -> None:
        """What is acknowledged stays pending for long."""
        rng, world = self._world.random, self._world
        victims = self._victims.take_these(self._leaders(self._place()[1]))
        for broker_id in victims:
            disk = world.machines[broker_id].disk
            assert disk is not None
            before = disk.slow_probability, disk.max_delay_ms
            disk.slow_probability, disk.max_delay_ms = 1.0, rng.choice(SLOW_DISK_MS)
            await asyncio.sleep(rng.uniform(1, 4))
            disk.slow_probability, disk.max_delay_ms = before
        self._victims.release(victims)
