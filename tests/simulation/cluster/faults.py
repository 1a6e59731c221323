"""What goes wrong in a cluster: brokers die, stand still, lose each other, the ensemble, the clients or their disks.

Faults overlap: each is drawn with some chance of another beside it. Those that need each other are in `coincidences`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.simulation.cluster.coincidences import Coincidences
from tests.simulation.cluster.victims import Victims
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.faults import FaultKinds, draw_faults
from tests.simulation.machine import End
from tests.simulation.store import Fault
from tests.simulation.store_server.machine import StoreMachine

SLOW_MS = (50.0, 300.0, 1_000.0)
USUAL_DELAY_MS = (0.05, 1.0)


class ClusterFaults:
    """`client_names` are the nodes that speak to brokers and are none."""

    def __init__(self, world: ClusterWorld, client_names: list[str]) -> None:
        self._world = world
        self._client_names = client_names
        self._store_turn = asyncio.Lock()
        self.victims = self._victims = victims = Victims(world)
        together = Coincidences(world, victims)
        power = 3 if world.plan.loses_power else 0
        self._kinds: FaultKinds = [
            (5, self._process_crash),
            (power, self._power_crash),
            (2, self._crash_in_call),
            (3, self._clean_restart),
            (1, self._rolling_restart),
            (2, self._two_at_once),
            (4, self._pause),
            (4, self._partition),
            (2, self._one_way_partition),
            (3, self._cut_off_from_ensemble),
            (2, self._expire_session),
            (0 if world.server else 2, self._unreliable_ensemble),
            (4 if world.server else 0, self._store_crash),
            (2 if world.server else 0, self._store_restart),
            (2 if world.server else 0, self._store_pause),
            (3 if world.server else 0, self._store_full_disk),
            (2, self._slow_link),
            (1, self._resets),
            (1, self._slow_disk),
            (1, self._full_disk),
            (1, self._broken_disk),
            (1, self._clock_jump),
            (2, together.late_requests),
            (2, together.controller_deposed),
            (power, together.unseen_power_loss),
            (2, together.one_at_a_time),
        ]

    async def start(self) -> None:
        """The whole cluster, at once or one by one."""
        rng = self._world.random
        if self._world.server is not None:
            await self._world.server.start()
        starting = []
        for machine in self._world.machines.values():
            starting.append(asyncio.ensure_future(self._victims.boot(machine)))
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.0)))
        await asyncio.gather(*starting)

    async def run(self, count: int, within_s: float) -> None:
        await draw_faults(self._world, self._kinds, count, within_s, alone_probability=0.6)

    # --- crashes ---

    async def _crash(self, count: int, *, power: bool) -> None:
        victims = self._victims.take(count)
        machines = [self._world.machines[broker_id] for broker_id in victims]
        for machine in machines:
            machine.crash(power=power)
        await self._victims.down_time()
        await asyncio.gather(*(self._victims.boot(machine) for machine in machines))
        self._victims.release(victims)

    async def _process_crash(self) -> None:
        await self._crash(1, power=False)

    async def _power_crash(self) -> None:
        await self._crash(1, power=True)

    async def _two_at_once(self) -> None:
        await self._crash(2, power=self._world.plan.loses_power and self._world.random.random() < 0.5)

    async def _crash_in_call(self) -> None:
        victims = self._victims.take()
        for broker_id in victims:
            machine, rng = self._world.machines[broker_id], self._world.random
            machine.crash_in_call(rng.randint(1, 150), power=self._world.plan.loses_power and rng.random() < 0.5)
            try:
                async with asyncio.timeout(4):
                    await machine.ended()
            except TimeoutError:
                machine.crash()
            await self._victims.down_time()
            await self._victims.boot(machine)
        self._victims.release(victims)

    async def _clean_restart(self) -> None:
        victims = self._victims.take()
        for broker_id in victims:
            await self.restart(broker_id)
        self._victims.release(victims)

    async def restart(self, broker_id: int) -> None:
        """Stop a broker in order, and start it again."""
        machine = self._world.machines[broker_id]
        ended = await machine.stop()
        if ended.how is not End.STOPPED and broker_id not in self._world.disk_faults:
            self._world.report(f"broker {broker_id} did not stop: {ended.reason}")
        await self._victims.down_time()
        await self._victims.boot(machine)

    async def _rolling_restart(self) -> None:
        victims = self._victims.take(len(self._world.machines))
        for broker_id in victims:
            await self.restart(broker_id)
            await asyncio.sleep(self._world.random.uniform(0.0, 3.0))
        self._victims.release(victims)

    # --- standing still, and being alone ---

    async def _pause(self) -> None:
        victims = self._victims.take()
        for broker_id in victims:
            machine = self._world.machines[broker_id]
            machine.pause()
            await asyncio.sleep(self._world.random.choice((0.3, 2.0, 8.0)))
            machine.resume()
        self._victims.release(victims)

    async def _partition(self) -> None:
        """One broker, or two, cannot reach the others; clients, and perhaps the ensemble, reach everybody."""
        await self._split(one_way=False)

    async def _one_way_partition(self) -> None:
        await self._split(one_way=True)

    async def _split(self, *, one_way: bool) -> None:
        world, rng = self._world, self._world.random
        nodes = [machine.name for machine in world.machines.values()]
        inside = rng.sample(nodes, rng.randint(1, max(1, len(nodes) // 2)))
        outside = [node for node in nodes if node not in inside]
        if rng.random() < 0.4:
            outside += self._client_names
        pairs = [(one, other) for one in inside for other in outside]
        if rng.random() < 0.5:
            pairs = [(other, one) for one, other in pairs]
        is_ensemble_lost = rng.random() < 0.4
        cut_off = [machine for machine in world.machines.values() if machine.name in inside] if is_ensemble_lost else []
        for one, other in pairs:
            world.network.cut(one, other, one_way=one_way)
        for machine in cut_off:
            machine.cut_off()
        await asyncio.sleep(rng.choice((0.5, 4.0, 12.0)))
        for machine in cut_off:
            machine.reach_again()
        for one, other in pairs:
            world.network.mend(one, other)

    async def _cut_off_from_ensemble(self) -> None:
        """Some brokers alone, while they reach each other and the clients."""
        world, rng = self._world, self._world.random
        victims = rng.sample(sorted(world.machines), rng.choice((1, 1, 2, len(world.machines))))
        for broker_id in victims:
            world.machines[broker_id].cut_off()
        await asyncio.sleep(rng.choice((0.2, 1.0, 4.0, 10.0)))
        for broker_id in victims:
            world.machines[broker_id].reach_again()

    async def _expire_session(self) -> None:
        for broker_id in self._world.random.sample(self._world.running(), min(1, len(self._world.running()))):
            self._world.machines[broker_id].expire_session()
        await asyncio.sleep(0.5)

    async def _unreliable_ensemble(self) -> None:
        """Requests and replies get lost on a lasting connection."""
        world, rng = self._world, self._world.random
        probability = rng.choice((0.05, 0.3))

        def oracle(_session_id: int, _operations: object) -> Fault | None:
            return rng.choice((Fault.REQUEST_LOST, Fault.REPLY_LOST)) if rng.random() < probability else None

        world.ensemble.fault = oracle
        await asyncio.sleep(rng.uniform(0.5, 4))
        world.ensemble.fault = lambda _session_id, _operations: None

    # --- the store server ---

    async def _store_crash(self) -> None:
        async with self._server() as server:
            server.crash(power=self._world.random.random() < 0.5)
            await self._victims.down_time()
            await server.start()

    async def _store_restart(self) -> None:
        async with self._server() as server:
            await server.stop()
            await self._victims.down_time()
            await server.start()

    async def _store_pause(self) -> None:
        async with self._server() as server:
            server.pause()
            await self._victims.down_time()
            server.resume()

    async def _store_full_disk(self) -> None:
        async with self._server() as server:
            server.disk.is_full = True
            await asyncio.sleep(self._world.random.uniform(0.2, 3.0))
            server.disk.is_full = False

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[StoreMachine]:
        """One thing at a time happens to it."""
        assert self._world.server is not None
        async with self._store_turn:
            yield self._world.server

    # --- the network and the disks ---

    async def _slow_link(self) -> None:
        world, rng = self._world, self._world.random
        nodes = [machine.name for machine in world.machines.values()]
        slow = rng.choice(nodes)
        max_delay_ms = rng.choice(SLOW_MS)
        others = [node for node in (*nodes, *self._client_names) if node != slow]
        for other in others:
            world.network.slow(slow, other, 1.0, max_delay_ms)
            world.network.slow(other, slow, 1.0, max_delay_ms)
        await asyncio.sleep(rng.uniform(1, 5))
        for other in others:
            world.network.slow(slow, other, *USUAL_DELAY_MS)
            world.network.slow(other, slow, *USUAL_DELAY_MS)

    async def _resets(self) -> None:
        rng = self._world.random
        self._world.network.reset_probability = rng.choice((0.01, 0.1))
        await asyncio.sleep(rng.uniform(0.5, 3))
        self._world.network.reset_probability = 0.0

    async def _slow_disk(self) -> None:
        victims, rng = self._victims.take(), self._world.random
        for broker_id in victims:
            disk = self._world.machines[broker_id].disk
            assert disk is not None
            before = disk.slow_probability, disk.max_delay_ms
            disk.slow_probability, disk.max_delay_ms = 1.0, rng.choice((50.0, 400.0))
            await asyncio.sleep(rng.uniform(1, 4))
            disk.slow_probability, disk.max_delay_ms = before
        self._victims.release(victims)

    async def _full_disk(self) -> None:
        victims, rng = self._victims.take(), self._world.random
        for broker_id in victims:
            machine = self._world.machines[broker_id]
            self._begin_disk_fault(broker_id)
            machine.storage.capacity_bytes = machine.storage.used_bytes + rng.choice((0, 500, 20_000))
            await asyncio.sleep(rng.uniform(1, 4))
            machine.storage.capacity_bytes = None
            await self._end_disk_fault(broker_id)
        self._victims.release(victims)

    async def _broken_disk(self) -> None:
        victims, rng = self._victims.take(), self._world.random
        for broker_id in victims:
            storage = self._world.machines[broker_id].storage
            self._begin_disk_fault(broker_id)
            paths = [path for path, _ in storage.contents(durable=False)]
            storage.fail(rng.choice(["/data/a", "/data/b", *paths]))
            await asyncio.sleep(rng.uniform(0.2, 3))
            storage.repair()
            await self._end_disk_fault(broker_id)
        self._victims.release(victims)

    def _begin_disk_fault(self, broker_id: int) -> None:
        self._world.disk_faults.add(broker_id)
        self._world.has_disk_fault = True

    async def _end_disk_fault(self, broker_id: int) -> None:
        """Whatever is left of the broker is started anew: a directory that has failed stays offline."""
        machine = self._world.machines[broker_id]
        if machine.is_running:
            await (machine.stop() if machine.is_serving else machine.ended())
        await self._victims.down_time()
        await self._victims.boot(machine)
        self._world.disk_faults.discard(broker_id)
        self._world.has_disk_fault = bool(self._world.disk_faults)

    async def _clock_jump(self) -> None:
        """Somebody sets a machine's clock; it stays so."""
        rng = self._world.random
        machine = rng.choice([*self._world.machines.values()])
        self._world.count("clocks set")
        machine.clock.skew_ms += rng.choice((-3_600_000, -2_000, 2_000, 3_600_000))
        self._world.most_ahead_ms = max(self._world.most_ahead_ms, machine.clock.skew_ms)
        await asyncio.sleep(0)
