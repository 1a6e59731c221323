"""One machine that runs a process of the relay: starts it, stops it, kills it, lets it stand still, sets its clock.

The relay is the real one; only its doors are others. It keeps nothing on its machine. Each start is a process of its own
(`tests.simulation.process`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from config.relay import RelaySettings
from protocol.errors import KafkaError
from protocol.schema import Request
from relay.relaying.relay import Relay
from relay.surroundings import RelaySurroundings
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.clock import SimClock
from tests.simulation.process import Process
from tests.simulation.relays.facts import Life
from tests.simulation.relays.wire import RelayWire

if TYPE_CHECKING:
    from tests.simulation.relays.world import RelayWorld

STOP_S: Final = 60.0
PEAK_S: Final = 30.0
"""Longer than a transaction of the relay may last: what was due when it began is sent in it."""


class RelayMachine:
    def __init__(self, world: RelayWorld, name: str, *, skew_ms: int) -> None:
        self.name = name
        self.clock = SimClock(world.loop, skew_ms)
        self.starts_count = 0
        self._world = world
        self._process: Process | None = None
        self._wire: RelayWire | None = None
        self._relay: Relay | None = None
        self._over = asyncio.Event()
        self._peaks: list[tuple[float, int]] = []  # (when the clock was set back, what it had shown)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def is_ready(self) -> bool:
        return self._relay is not None and self._relay.is_ready

    def start(self) -> None:
        assert self._process is None, "one process at a time"
        world = self._world
        self.starts_count += 1
        world.count("relay starts")
        process = self._process = Process(world.loop, f"{self.name}.{self.starts_count}")
        world.loop.note(f"start {process.name}")
        self._over.clear()
        wire = self._wire = RelayWire(world, self, Life(process.name, world.loop.time()))
        settings = RelaySettings(world.relay_plan.settings)
        with process.entered():
            self._relay = Relay(
                settings,
                RelaySurroundings(self.clock, world.random),
                lambda client_id: ObservedCluster(world, self.name, wire),
            )
        process.spawn(self._live(self._relay, process), "main")

    async def _live(self, relay: Relay, process: Process) -> None:
        try:
            await relay.run()
        except (KafkaError, OSError) as error:
            self._world.loop.note(f"{process.name} cannot go on: {error!r}")
            self._world.count("relays that could not go on")
        except Exception as error:  # noqa: BLE001  whatever it is, it ends the process
            if process.is_alive:  # else it is what a dead one leaves behind
                self._world.report(f"{process.name} failed: {error!r}")
        self._world.loop.call_soon(self._exit, process)

    def _exit(self, process: Process) -> None:
        left = process.unfinished()
        if left:
            self._world.report(f"{process.name} has ended, tasks are left: {left}")
        self._end(process)

    def _end(self, process: Process) -> None:
        self._world.loop.note(f"end {process.name}")
        process.kill()
        self._world.network.crash(self.name)
        self._process = self._relay = None
        self._world.loop.outside(process.bury)
        self._world.loop.outside(self._over.set)

    async def stop(self) -> None:
        """In order."""
        if self._relay is None or self._process is None:
            return
        self._world.loop.note(f"stop {self._process.name}")
        with self._process.entered():
            self._relay.stop()
        try:
            async with asyncio.timeout(STOP_S):
                await self._over.wait()
        except TimeoutError:
            self._world.report(f"{self.name} did not stop in {STOP_S} s")

    def kill(self) -> None:
        if self._process is not None:
            self._world.count("relays killed")
            self._end(self._process)

    def pause(self) -> None:
        """The process stands still (SIGSTOP)."""
        if self._process is not None:
            self._world.loop.note(f"pause {self.name}")
            self._process.pause()

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.is_paused

    def pause_after(self, kind: type[Request] | None) -> None:
        """Stand still behind the next answer to such a request, in the middle of a transaction; None: behind none."""
        if self._wire is not None:
            self._wire.pauses_after = kind

    def resume(self) -> None:
        if self._process is not None and self._process.is_paused:
            self._world.loop.note(f"resume {self.name}")
            self._process.resume()
            self._world.network.resumed(self.name)

    # --- the clock ---

    def set_clock(self, skew_ms: int) -> None:
        """How far it is ahead of the true time from now on."""
        self._peaks.append((self._world.loop.time(), self.clock.wall_ms()))
        self._world.loop.note(f"clock of {self.name}: {self.clock.skew_ms} -> {skew_ms}")
        self.clock.skew_ms = skew_ms

    def wall_peak_ms(self) -> int:
        """The latest time that the clock has shown to a transaction that is under way."""
        since_s = self._world.loop.time() - PEAK_S
        return max([self.clock.wall_ms(), *(shown_ms for at_s, shown_ms in self._peaks if at_s > since_s)])
