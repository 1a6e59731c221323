"""The world of the store server: its machine, its clients' machines, and what is checked."""

from __future__ import annotations

from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop
from tests.simulation.store_server.checkers.registers import RegisterChecker
from tests.simulation.store_server.checkers.server import ServerChecker
from tests.simulation.store_server.machine import StoreMachine
from tests.simulation.world import BareWorld

LIVE = "/live"  # ephemeral nodes
QUEUE = "/queue"  # sequential nodes


class StoreWorld(BareWorld):
    def __init__(self, loop: SimLoop) -> None:
        super().__init__(loop)
        self.is_quiet = False  # nobody begins anything new
        self.machine = StoreMachine(loop, self.network)
        self.registers = RegisterChecker(self.report)
        self.server = ServerChecker(self.report, self.count, lambda: self.machine.disk)
        self.machine.tune = self._tune
        self.machine.on_started = self.server.on_started
        self.machine.on_applied = self.server.on_applied
        self.machine.on_failed = lambda error: self.report(f"the server gave up: {error}")
        self._queued: set[str] = set()

    def _tune(self, disk: SimDisk) -> None:
        disk.max_delay_ms = self.random.choice((1.0, 8.0, 30.0))

    def queued(self, client: str, path: str) -> None:
        """`client` was told that it has made this sequential node."""
        self.count("sequential nodes made")
        if path in self._queued:
            self.report(f"{client} has made {path}, which was made before")
        self._queued.add(path)
