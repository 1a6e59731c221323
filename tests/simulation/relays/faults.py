"""What goes wrong with processes of the relay, beside what goes wrong with brokers: they are killed, stand still, are cut off,
come and go, and their clocks are set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.simulation.faults import FaultKinds, draw_faults

if TYPE_CHECKING:
    from tests.simulation.relays.machine import RelayMachine
    from tests.simulation.relays.world import RelayWorld

KEEPER_S = 0.5
TRAP_S, LOOK_S = 5.0, 0.05
HOUR_MS = 3_600_000
CLOCK_STEPS_MS = (-HOUR_MS, -2_000, -300, 300, 2_000, HOUR_MS)


class RelayFaults:
    def __init__(self, world: RelayWorld) -> None:
        self._world = world
        self._busy: set[str] = set()
        self._kinds: FaultKinds = [
            (5, self._kill_relay),
            (2, self._kill_all_relays),
            (3, self._restart_relay),
            (4, self._pause_relay),
            (5, self._pause_relay_in_transaction),
            (4, self._cut_relay_off),
            (3, self._set_relay_clock),
            (2, self._rebalance_storm),
        ]

    async def run(self, count: int, within_s: float) -> None:
        await draw_faults(self._world, self._kinds, count, within_s, alone_probability=0.6)

    async def keep(self) -> None:
        """Start a process again that has ended by itself, as whoever supervises it does. Ends by being cancelled."""
        while True:
            await asyncio.sleep(KEEPER_S)
            for machine in self._world.relays:
                if machine.name not in self._busy and not machine.is_running:
                    machine.start()

    def _take(self, count: int = 1) -> list[RelayMachine]:
        free = [machine for machine in self._world.relays if machine.name not in self._busy and machine.is_running]
        chosen = self._world.random.sample(free, min(count, len(free)))
        self._busy.update(machine.name for machine in chosen)
        return chosen

    def _release(self, machines: list[RelayMachine]) -> None:
        for machine in machines:
            self._busy.discard(machine.name)
            if not machine.is_running:
                machine.start()

    async def _down_time(self) -> None:
        """Shorter and longer than a session."""
        await asyncio.sleep(self._world.random.choice((0.0, 0.5, 3.0, 12.0)) * self._world.random.uniform(0.5, 1.0))

    async def _kill_relay(self) -> None:
        victims = self._take()
        for machine in victims:
            machine.kill()
            await self._down_time()
        self._release(victims)

    async def _kill_all_relays(self) -> None:
        victims = self._take(len(self._world.relays))
        for machine in victims:
            machine.kill()
        await self._down_time()
        self._release(victims)

    async def _restart_relay(self) -> None:
        victims = self._take()
        for machine in victims:
            await machine.stop()
            await self._down_time()
        self._release(victims)

    async def _pause_relay(self) -> None:
        """Longer, too, than its session, and than its transaction may last."""
        victims = self._take()
        for machine in victims:
            machine.pause()
            await asyncio.sleep(self._world.random.choice((0.3, 3.0, 9.0, 14.0)))
            machine.resume()
        self._release(victims)

    async def _pause_relay_in_transaction(self) -> None:
        """Between its records and its offsets, or between its offsets and its commit: longer than its session, mostly, and
        shorter than its transaction may last."""
        victims, rng = self._take(), self._world.random
        for machine in victims:
            machine.pause_after(rng.choice((ProduceRequest, TxnOffsetCommitRequest)))
            for _ in range(round(TRAP_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                if machine.is_paused:
                    self._world.count("relays that stood still in a transaction")
                    await asyncio.sleep(rng.choice((4.5, 6.5, 9.0)))
                    break
            machine.pause_after(None)
            machine.resume()
        self._release(victims)

    async def _cut_relay_off(self) -> None:
        """From some brokers or all, one way or both."""
        victims, world, rng = self._take(), self._world, self._world.random
        for machine in victims:
            brokers = [each.name for each in world.machines.values()]
            chosen = rng.sample(brokers, rng.choice((1, 1, len(brokers))))
            one_way = rng.random() < 0.3
            for broker in chosen:
                pair = (machine.name, broker) if rng.random() < 0.5 else (broker, machine.name)
                world.network.cut(*pair, one_way=one_way)
            await asyncio.sleep(rng.choice((0.5, 4.0, 13.0)))
            for broker in chosen:
                world.network.mend(machine.name, broker)
        self._release(victims)

    async def _set_relay_clock(self) -> None:
        """It stays so."""
        rng = self._world.random
        machine, step_ms = rng.choice(self._world.relays), rng.choice(CLOCK_STEPS_MS)
        self._world.count("relay clocks set by an hour" if abs(step_ms) >= HOUR_MS else "relay clocks set")
        machine.set_clock(machine.clock.skew_ms + step_ms)
        await asyncio.sleep(0)

    async def _rebalance_storm(self) -> None:
        """Members come and go faster than the group gets to rest."""
        rng = self._world.random
        for _ in range(rng.randint(3, 6)):
            victims = self._take()
            for machine in victims:
                if rng.random() < 0.5:
                    await machine.stop()
                else:
                    machine.kill()
                await asyncio.sleep(rng.uniform(0.0, 1.0))
            self._release(victims)
            await asyncio.sleep(rng.uniform(0.1, 1.5))
