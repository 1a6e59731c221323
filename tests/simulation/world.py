"""Everything of one history: the machine, the wires, the checkers, what the seed has decided, and what has been covered.

Rules: what is broken is reported, never raised, since the code that notices may run inside the broker; `broken` ends the
run. All choices come from `loop.random`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tests.simulation.checkers.commits import CommitChecker
from tests.simulation.checkers.groups import GroupChecker
from tests.simulation.checkers.liveness import LivenessChecker
from tests.simulation.checkers.logs import LogChecker
from tests.simulation.disk import SimDisk
from tests.simulation.disk_survey import Key
from tests.simulation.loop import SimLoop
from tests.simulation.machine import End, Ended, Machine, Started
from tests.simulation.network import SimNetwork
from tests.simulation.process import Killed

BROKER = "broker"
PORT = 9092


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def flushes_each(self) -> bool:
        return self.configs.get("flush.messages") == "1"


class Violation(AssertionError):
    """A history that must not be."""


class World:
    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.random = loop.random
        self.coverage: Counter[str] = Counter()
        self.broken: asyncio.Future[str] = loop.create_future()
        self.topics = self._plan_topics()
        self.topic_ids: dict[str, bytes] = {}
        self.network = SimNetwork(loop)
        self.machine = Machine(loop, self.network, BROKER, self._plan_settings())
        self.logs = LogChecker(self.report, [topic.name for topic in self.topics if topic.flushes_each])
        self.commits = CommitChecker(self.report)
        self.groups = GroupChecker(self.report)
        self.liveness = LivenessChecker(self.report, loop.time)
        self.has_disk_fault = False  # in this life of the broker
        self.power_cuts = 0
        self.is_quiet = False  # nobody begins anything new
        self.producers_are_done = False
        self.producer_ids: set[tuple[int, int]] = set()
        # Of each partition: (where the log ends then, when the acknowledgement came), the last ones.
        self.acknowledged_s: dict[Key, deque[tuple[int, float]]] = {key: deque(maxlen=50) for key in self.keys}
        for key in self.keys:
            self.logs.watch(key)
        machine = self.machine
        machine.storage.cold_probability = self.random.choice((0.0, 0.05, 0.3))
        machine.storage.short_probability = self.random.choice((0.0, 0.1))
        machine.tune = self._tune_disk
        machine.on_ended, machine.on_started = self._on_ended, self._on_started

    # --- what the seed decides ---

    def _plan_topics(self) -> list[TopicPlan]:
        rng = self.random
        topics = []
        for name, partitions in (("alpha", rng.randint(1, 4)), ("beta", rng.randint(1, 2)), ("gamma", 1)):
            configs = {
                "segment.bytes": str(rng.choice((4_000, 16_000, 60_000, 1 << 20))),
                "index.interval.bytes": str(rng.choice((0, 200, 4096))),
                "file.delete.delay.ms": "1000",
            }
            if rng.random() < 0.25:
                configs["flush.messages"] = "1"
            if rng.random() < 0.25:
                configs["flush.ms"] = "700"
            if rng.random() < 0.2:
                configs["message.timestamp.type"] = "LogAppendTime"
            topics.append(TopicPlan(name, partitions, configs))
        return topics

    def _plan_settings(self) -> dict[str, str]:
        rng = self.random
        return {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "broker.id": "1",
            "log.dirs": "/data/a" if rng.random() < 0.6 else "/data/a,/data/b",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.segment.bytes": str(rng.choice((6_000, 1 << 20))),
            "group.initial.rebalance.delay.ms": "200",
            "group.min.session.timeout.ms": "1000",
            "log.flush.scheduler.interval.ms": "500",
            "log.flush.offset.checkpoint.interval.ms": str(rng.choice((1_500, 5_000, 60_000))),
            "log.flush.start.offset.checkpoint.interval.ms": str(rng.choice((1_500, 60_000))),
            "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((1_000, 5_000))),
            "max.incremental.fetch.session.cache.slots": str(rng.choice((2, 1_000))),
            "barnabas.produce.validation": rng.choice(("header", "structure", "full")),
        }

    def _tune_disk(self, disk: SimDisk) -> None:
        disk.slow_probability = self.random.choice((0.0, 0.1, 0.5))
        disk.max_delay_ms = self.random.choice((1.0, 8.0))

    @property
    def keys(self) -> list[Key]:
        return [(topic.name, partition) for topic in self.topics for partition in range(topic.partitions)]

    def name_of(self, topic_id: bytes) -> str:
        return next((name for name, known in self.topic_ids.items() if known == topic_id), topic_id.hex())

    # --- reports ---

    def report(self, what: str) -> None:
        self.loop.note(f"VIOLATION {what}")
        if not self.broken.done():
            self.broken.set_result(f"{self.loop.time():.6f} s: {what}")

    def count(self, what: str, by: int = 1) -> None:
        self.coverage[what] += by

    def _on_ended(self, ended: Ended) -> None:
        self.count(f"ended: {ended.how.value}")
        if ended.how is End.FAILED and not self.has_disk_fault:
            self.report(f"the broker gave up: {ended.reason}")
        if ended.how is End.POWER_CRASH:
            self.power_cuts += 1
        self.logs.on_ended(ended)
        self.commits.on_ended(ended)

    def _on_started(self, started: Started) -> None:
        self.count("starts")
        self.logs.on_started(started)

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        self.loop.note(f"fault {what}")
        self.count("faults")
        self.liveness.fault_begins()
        try:
            yield
        finally:
            self.loop.note(f"fault over {what}")
            self.liveness.fault_ends()


class BrokerLog(logging.Handler):
    """Listens to what the broker logs: counts messages, and reports exceptions that nobody expected."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        text = record.getMessage()
        world.loop.note(f"log {text}")
        world.count(f"log: {str(record.msg).partition(':')[0]}")
        if "clean=False" in text:
            world.count("recoveries")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, Killed) and not world.has_disk_fault:
            world.report(f"{record.name}: {text}: {error!r}")


@contextmanager
def logging_to(handler: logging.Handler) -> Iterator[None]:
    """All that is logged goes to `handler` alone."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def broker_log(world: World) -> AbstractContextManager[None]:
    return logging_to(BrokerLog(world))


def quiet_logging() -> AbstractContextManager[None]:
    return logging_to(logging.NullHandler())
