"""Everything of one history: the machines, the wires, the checkers, what the seed has decided, and what has been covered.

Rules: what is broken is reported, never raised, since the code that notices may run inside the broker; `broken` ends the
run. All choices come from `loop.random`.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.commits import CommitChecker
from tests.simulation.checkers.groups import GroupChecker
from tests.simulation.checkers.liveness import LivenessChecker
from tests.simulation.checkers.logs import LogChecker, Report
from tests.simulation.line import NOT_NOW, Line
from tests.simulation.loop import SimLoop
from tests.simulation.network import SimNetwork
from tests.simulation.process import Killed


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def flushes_each(self) -> bool:
        return self.configs.get("flush.messages") == "1"


class Violation(AssertionError):
    """A history that must not be."""


class BareWorld:
    """What every history has, whatever it is about."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.random = loop.random
        self.coverage: Counter[str] = Counter()
        self.broken: asyncio.Future[str] = loop.create_future()
        self.network = SimNetwork(loop)
        self.has_disk_fault = False  # in this life of the process that is tested

    def report(self, what: str) -> None:
        self.loop.note(f"VIOLATION {what}")
        if not self.broken.done():
            self.broken.set_result(f"{self.loop.time():.6f} s: {what}")

    def count(self, what: str, by: int = 1) -> None:
        self.coverage[what] += by

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        self.loop.note(f"fault {what}")
        self.count("faults")
        try:
            yield
        finally:
            self.loop.note(f"fault over {what}")


class World(BareWorld, ABC):
    """What every history of brokers has, however many they are. `logs` makes the checker of the logs."""

    not_now = NOT_NOW
    pace = 1.0
    """How many times longer clients pause than they usually do."""
    watermark_may_lag = False
    """Whether a leader may know less of what is committed than a client was told."""

    def __init__(self, loop: SimLoop, topics: list[TopicPlan], logs: Callable[[Report], LogChecker]) -> None:
        super().__init__(loop)
        self.topics = topics
        self.topic_ids: dict[str, bytes] = {}
        self.logs = logs(self.report)
        self.commits = CommitChecker(self.report)
        self.groups = GroupChecker(self.report)
        self.liveness = LivenessChecker(self.report, loop.time)
        self.power_cuts = 0
        self.is_quiet = False  # nobody begins anything new
        self.producers_are_done = False
        self.producer_ids: set[tuple[int, int]] = set()
        # Of each partition: (where the log ends then, when the acknowledgement came), the last ones.
        self.acknowledged_s: dict[TopicPartition, deque[tuple[int, float]]] = {
            key: deque(maxlen=50) for key in self.keys
        }
        for key in self.keys:
            self.logs.watch(key)

    @abstractmethod
    def line(self, name: str) -> Line:
        """The way of client `name` to the brokers."""

    @abstractmethod
    def addresses(self) -> list[tuple[str, int]]:
        """Of all brokers."""

    def is_leader(self, broker_id: int, key: TopicPartition) -> bool:
        """Whether a broker knows that it leads, and the cluster agrees."""
        return True

    def is_group_coordinator(self, broker_id: int, group: str) -> bool:
        return True

    def group_term(self, broker_id: int, group: str) -> int:
        """A number for the term of the group coordinator that a broker is."""
        return self.life

    def is_transaction_coordinator(self, broker_id: int, transactional_id: str) -> bool:
        return True

    @property
    @abstractmethod
    def life(self) -> int:
        """Another number after each restart of a broker: what one keeps in memory alone may be forgotten."""

    @abstractmethod
    def wall_ms(self) -> int:
        """The clients' clock."""

    @property
    def keys(self) -> list[TopicPartition]:
        return [(topic.name, partition) for topic in self.topics for partition in range(topic.partitions)]

    def name_of(self, topic_id: bytes) -> str:
        return next((name for name, known in self.topic_ids.items() if known == topic_id), topic_id.hex())

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        self.liveness.fault_begins()
        try:
            with super().fault(what):
                yield
        finally:
            self.liveness.fault_ends()


class BrokerLog(logging.Handler):
    """Listens to what the broker logs: counts messages, and reports exceptions that nobody expected."""

    def __init__(self, world: BareWorld) -> None:
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
            frame = traceback.extract_tb(error.__traceback__)[-1:]
            where = "".join(f" ({Path(each.filename).name}:{each.lineno})" for each in frame)
            world.report(f"{record.name}: {text}: {error!r}{where}")


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


def broker_log(world: BareWorld) -> AbstractContextManager[None]:
    return logging_to(BrokerLog(world))


def quiet_logging() -> AbstractContextManager[None]:
    return logging_to(logging.NullHandler())
