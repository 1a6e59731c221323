"""One machine and the broker on it: starts it, stops it, crashes it, and tells what its disk held and what it found.

The broker is the real one, composed as `broker.process` does it; only the doors are others. Each start is a process of
its own (`tests.simulation.process`): a crash takes away its tasks, timers, connections and queued disk jobs at once. The
store's ensemble and the disk outlive it. A broker that says it cannot go on is stopped, as its process would be.
A machine has an ensemble of its own, or shares one: then a process that is gone, paused or cut off is missed after the
session timeout, and the next process on this machine ends the session that it finds in the data directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from broker.cluster.topics_at_start import TopicAtStart
from broker.dependencies import Dependencies, OpenStore
from broker.server import Broker
from config.broker import BrokerSettings
from metadata.store.port import Store
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue
from runtime.disk.filesystem import FileSystem
from runtime.network.transport import Network
from runtime.tasks import TaskScope
from storage.directories.log_directory import CLEAN_SHUTDOWN_FILE
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.disk_survey import FoundBatch, end_of, partition_logs
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop
from tests.simulation.network import SimNetwork
from tests.simulation.process import Process
from tests.simulation.store import SimulatedEnsemble
from tests.simulation.store_access import EnsembleAccess, ServerAccess
from tests.simulation.store_server.machine import StoreMachine

T = TypeVar("T")

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60


class End(Enum):
    """How a broker's process ended."""

    STOPPED = "stopped"
    FAILED = "could not go on"
    PROCESS_CRASH = "process crash"
    POWER_CRASH = "power crash"


@dataclass(frozen=True, slots=True)
class LogState:
    """A partition's log as the broker has it in memory."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int
    leader_epoch: int


@dataclass(slots=True)
class Ended:
    """What stood on the disk when the broker ended, and what it believed. Of one of several brokers the disk is looked at
    after a loss of power alone."""

    how: End
    reason: str = ""
    written: dict[TopicPartition, list[FoundBatch]] = field(default_factory=dict)
    durable: dict[TopicPartition, list[FoundBatch]] = field(default_factory=dict)
    logs: dict[TopicPartition, LogState] = field(default_factory=dict)


@dataclass(slots=True)
class Started:
    """What the broker found. `after` is how its lives since it served last have ended; nothing at the first start."""

    after: list[Ended]
    logs: dict[TopicPartition, LogState]
    has_offline: bool = False
    """Whether a log directory could not be used, so that logs are missing."""

    @property
    def lost_power(self) -> bool:
        return any(ended.how is End.POWER_CRASH for ended in self.after)

    def floor(self, key: TopicPartition) -> int:
        """Where the log of `key` must reach at least, going by what its files held."""
        floor, has_lost_power = 0, False
        for ended in reversed(self.after):
            has_lost_power |= ended.how is End.POWER_CRASH
            floor = max(floor, end_of((ended.durable if has_lost_power else ended.written).get(key, ())))
        return floor


class Machine:
    """See the module. `on_ended` and `on_started` are called at the moment itself, between two events of the loop."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        name: str,
        settings: Mapping[str, str],
        *,
        ensemble: SimulatedEnsemble | None = None,
        server: StoreMachine | None = None,
    ) -> None:
        """Of several machines: they share `ensemble`, or `server`."""
        self.loop = loop
        self.name = name
        self.clock = SimClock(loop)
        self.storage = SimStorage(loop, self.clock)
        self._is_one_of_several = ensemble is not None or server is not None
        self._settings = BrokerSettings.from_sources({}, {}, settings)
        own = ensemble or SimulatedEnsemble(self.clock, lambda: loop.random.uniform(0.0, 0.002))
        self._access: EnsembleAccess | ServerAccess = (
            EnsembleAccess(own) if server is None else ServerAccess(server, network, name, self._settings)
        )
        self.topics: Sequence[TopicAtStart] = ()
        self.tune: Callable[[SimDisk], None] = lambda disk: None
        self.on_ended: Callable[[Ended], None] = lambda ended: None
        self.on_started: Callable[[Started], None] = lambda started: None
        self.disk: SimDisk | None = None
        self.broker: Broker | None = None
        self.is_serving = False
        self.starts_count = 0
        self.boots_count = 1  # of the machine, which goes on when a process crashes
        self._network = network
        self._process: Process | None = None
        self._stop = asyncio.Event()
        self._over: asyncio.Future[Ended] | None = None
        self._ends: list[Ended] = []
        self._reason = ""

    @property
    def is_running(self) -> bool:
        return self._process is not None

    # --- start ---

    def start(self) -> asyncio.Future[bool]:
        """Boot a broker; whether it came to serve (it may have been crashed, or have given up)."""
        assert self._process is None, "one broker at a time"
        loop = self.loop
        self.starts_count += 1
        loop.note(f"start {self.name}")
        process = self._process = Process(loop, f"{self.name}.{self.starts_count}")
        self._stop, self._reason = asyncio.Event(), ""
        served: asyncio.Future[bool] = loop.create_future()
        self._over = loop.create_future()
        self._over.add_done_callback(lambda _: _settle(served, False))
        with process.entered():
            self.disk = SimDisk(loop)
            self.tune(self.disk)
            filesystem, network = self.storage.boot(), self._network.node(self.name)
            doors = Dependencies(
                self.clock, loop.random, filesystem, self.disk, network, self.store_opener(filesystem, network),
                boot_id=lambda: f"boot {self.boots_count} of {self.name}",
            )  # fmt: skip
            self.broker = Broker(self._settings, doors, topics=self.topics, on_fatal=self._on_fatal)
        process.spawn(self._live(self.broker, served), "main")
        return served

    def store_opener(self, filesystem: FileSystem, network: Network) -> OpenStore:
        """How a process on this machine opens the store."""

        async def open_store(directory: str, queue: DiskQueue, clock: Clock, tasks: TaskScope) -> Store:
            return await self._access.open(directory, queue, clock, tasks, network, filesystem, self.loop.random)

        return open_store

    async def _live(self, broker: Broker, served: asyncio.Future[bool]) -> None:
        """The process: see `broker.process.BrokerProcess`."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await broker.start()
        except Exception as error:  # noqa: BLE001  the checkers decide whether it had a reason to
            self._reason = self._reason or f"start failed: {error!r}"
        else:
            self._tell_started(broker)
            served.set_result(True)
            await self._stop.wait()
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await broker.stop()
        assert self.disk is not None
        self.loop.call_soon(self._exit)

    def _tell_started(self, broker: Broker) -> None:
        self.is_serving = True
        after, self._ends = self._ends, []
        self.loop.note(f"serving {self.name}")
        self.on_started(Started(after, self._log_states(broker), bool(broker.logs.offline_directories)))

    def leader_epoch(self, key: TopicPartition) -> int:
        """Of the partition, as this broker believes; -1 when it has none."""
        services = None if self.broker is None else self.broker._services
        partition = None if services is None else services.partitions.find(*key)
        return -1 if partition is None else partition.assignment.leader_epoch

    def _log_states(self, broker: Broker) -> dict[TopicPartition, LogState]:
        states = {}
        for key, log in sorted(broker.logs.logs.items()):
            states[key] = LogState(
                log.log_start_offset, log.log_end_offset, log.high_watermark, log.offsets.recovery_point,
                self.leader_epoch(key),
            )  # fmt: skip
        return states

    # --- without an end ---

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.is_paused

    def pause(self) -> None:
        """The process stands still (SIGSTOP), and so do its heartbeats."""
        if self._process is not None:
            self.loop.note(f"pause {self.name}")
            self._process.pause()
            self._access.stands_still()

    def resume(self) -> None:
        if self._process is not None and self._process.is_paused:
            self.loop.note(f"resume {self.name}")
            self._access.runs_again()
            self._process.resume()
            self._network.resumed(self.name)

    def cut_off(self) -> None:
        """The ensemble cannot be reached."""
        self.loop.note(f"cut off {self.name}")
        self._access.cut()

    def reach_again(self) -> None:
        self.loop.note(f"reach again {self.name}")
        self._access.mend()

    def expire_session(self) -> None:
        """The ensemble gives up the session of a live process."""
        if self._process is not None:
            self.loop.note(f"expire {self.name}")
            self._access.expire()

    # --- the end ---

    def _on_fatal(self, reason: str) -> None:
        self.loop.note(f"fatal {self.name}: {reason}")
        self._reason = self._reason or reason
        self._stop.set()

    async def stop(self) -> Ended:
        """Stop the broker in order."""
        assert self._over is not None
        self.loop.note(f"stop {self.name}")
        self._stop.set()
        return await asyncio.shield(self._over)

    async def ended(self) -> Ended:
        """Wait for the process to end."""
        assert self._over is not None
        return await asyncio.shield(self._over)

    def _exit(self) -> None:
        process = self._process
        assert process is not None
        left = process.unfinished()
        how = End.FAILED if self._reason else End.STOPPED
        reason = self._reason
        if how is End.STOPPED and left:
            how, reason = End.FAILED, f"tasks left after the stop: {left}"
        if how is End.STOPPED and self.broker is not None and self.broker.logs.offline_directories:
            how, reason = End.FAILED, f"offline: {self.broker.logs.offline_directories}"
        if how is End.STOPPED and not self._is_clean():
            how, reason = End.FAILED, "a log directory was not closed cleanly"
        self._end(how, reason)

    def _is_clean(self) -> bool:
        """Whether the next start will believe that nothing is missing."""
        files = self.storage.names.files
        return all(f"{path}/{CLEAN_SHUTDOWN_FILE}" in files for path in self._settings.log_directories)

    def _found(
        self, starts: Mapping[TopicPartition, int] | None = None, *, durable: bool
    ) -> dict[TopicPartition, list[FoundBatch]]:
        return partition_logs(self.storage, durable=durable, starts=starts)

    def crash(self, *, power: bool = False) -> None:
        """Now. May be called from within the process (`Killed` has to unwind it then)."""
        if self._process is not None:
            self._end(End.POWER_CRASH if power else End.PROCESS_CRASH, "")

    def crash_in_call(self, calls: int, *, power: bool = False) -> None:
        """In the middle of the process's call number `calls` to its file system."""
        self.storage.strike_after(calls, lambda: self.crash(power=power))

    def _end(self, how: End, reason: str) -> None:
        process, over = self._process, self._over
        assert process is not None and over is not None and self.disk is not None and self.broker is not None
        self.loop.note(f"end {self.name}: {how.value}")
        logs = self._log_states(self.broker)
        ended = Ended(how, reason, logs=logs)
        if not self._is_one_of_several:
            ended.written, ended.durable = self._found(durable=False), self._found(durable=True)
        elif how is End.POWER_CRASH:  # nobody asks after another end: the others have the records too
            starts = {key: state.log_start_offset for key, state in logs.items()}
            ended.written, ended.durable = self._found(starts, durable=False), self._found(starts, durable=True)
        process.kill()
        self.disk.crash()
        self._access.is_gone()
        self._network.crash(self.name, silently=how is End.POWER_CRASH and self.loop.random.random() < 0.5)
        if how is End.POWER_CRASH:
            self.storage.crash_power()
            self.boots_count += 1
        else:
            self.storage.crash_process()
        self._process = None
        self.is_serving = False
        self._ends.append(ended)
        self.loop.outside(process.bury)
        self.loop.outside(lambda: _settle(over, ended))
        self.on_ended(ended)


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)
