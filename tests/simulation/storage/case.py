"""One case: logs live, and crash at changes of the disk; each time what is left is opened, and lives and crashes again.

    a life without a crash  --at some or all changes-->  power lost, or the process killed  -->  a life  --> ...

The first life is played once, and the disk copied at the chosen changes; so a thousand crashes cost one life and a
thousand starts. Every copy goes on by itself, with a seed of its own.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from tests.simulation.clock import SimClock
from tests.simulation.filesystem import SimStorage
from tests.simulation.history import Outcome
from tests.simulation.loop import NANOSECONDS, SimLoop, simulate
from tests.simulation.process import Process
from tests.simulation.storage.life import CrashPoint, Life, Promises
from tests.simulation.storage.plan import DIRECTORIES, Plan, plan_logs
from tests.simulation.world import logging_to

STEPS = (40, 8, 4)  # of the first life, of those after its crashes, and after theirs
EVERY = 1 << 30


@dataclass(slots=True)
class Case:
    """`crashes`: how many changes of each life the disk is copied at, chosen at random."""

    seed: int
    crashes: tuple[int, ...]
    steps: tuple[int, ...] = STEPS
    coverage: Counter[str] = field(default_factory=Counter)
    violation: str | None = None
    lines: list[str] = field(default_factory=list)
    _hash: Any = field(default_factory=hashlib.sha256)

    def digest(self) -> str:
        return str(self._hash.hexdigest())

    def play(self) -> None:
        plan = plan_logs(Random(self.seed))
        self._live(plan, f"{self.seed}", None, {}, lost_power=False, number=0)

    def _live(
        self, plan: Plan, name: str, point: CrashPoint | None, promises: Promises, *, lost_power: bool, number: int
    ) -> None:
        """One life, and all that come of its crashes. `name` tells how it came about."""
        points: list[CrashPoint] = []
        wanted = self.crashes[number] if number < len(self.crashes) else 0
        choice = Random(f"choice {name}")

        async def program(loop: SimLoop) -> None:
            if point is not None:
                loop.now_ns = point.at_ns + NANOSECONDS
            loop.trace.lines = self.lines
            loop.note(f"--- {name}")
            storage = _disk(loop, point, lost_power=lost_power)
            life = Life(loop, storage, plan, promises, lambda what: self._report(name, what), self.coverage)
            if wanted:
                storage.watch = _chooser(life, storage, points, wanted, choice, self.coverage)
            process = Process(loop, "logs")
            await process.spawn(life.run(self.steps[number]), "life")
            if storage.watch is not None:
                storage.watch("end", "/")
                storage.watch = None
            self.coverage["lives"] += 1
            self._hash.update(loop.trace.digest().encode())

        try:
            simulate(Random(name).getrandbits(32), program)
        except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this case
            self._report(name, repr(error))
        if self.violation is not None:
            return
        for at, each in enumerate(points):
            kinds = (True, True, False) if number == 0 else (True, False)
            for kind, power in enumerate(kinds[: 1 + choice.randrange(len(kinds))]):
                crash = f"{name} / {at}.{kind} {'power' if power else 'process'} at {each.what}"
                self.coverage["crashes"] += 1
                self.coverage[f"crash at {each.what.partition(' /')[0]}"] += 1
                promises = each.promises
                if power:
                    promises = {key: expected.after_power_loss() for key, expected in promises.items()}
                self._live(plan, crash, each, promises, lost_power=power, number=number + 1)
                if self.violation is not None:
                    return

    def _report(self, name: str, what: str) -> None:
        if self.violation is None:
            self.violation = f"[{name}] {what}"


def _chooser(
    life: Life, storage: SimStorage, points: list[CrashPoint], wanted: int, choice: Random, coverage: Counter[str]
) -> Callable[[str, str], None]:
    """Keeps `wanted` of all changes, each as likely as any other."""
    count = 0

    def watch(kind: str, path: str) -> None:
        nonlocal count
        count += 1
        coverage["changes"] += 1
        place = len(points) if len(points) < wanted else choice.randrange(count)
        if place < wanted:
            point = CrashPoint(f"{kind} {path}", storage.fork(), life.current_promises(), life.loop.now_ns)
            points[place : place + 1] = [point]

    return watch


class _Log(logging.Handler):
    """Counts what the storage engine says it does."""

    COUNTED: ClassVar = {
        "old segments deleted by retention": "segments went",
        "old segments not deleted while the log is cleaned": "segments waited",
        "log cleaned": "logs cleaned",
        "interrupted cleaning finished": "cleanings finished",
        "damaged end of a log truncated": "torn logs cut",
        "log emptied, it ended below its start offset": "logs restarted",
    }

    def __init__(self, coverage: Counter[str]) -> None:
        super().__init__(logging.INFO)
        self._coverage = coverage

    def emit(self, record: logging.LogRecord) -> None:
        what = self.COUNTED.get(str(record.msg).partition(":")[0])
        if what is not None:
            self._coverage[what] += 1


def run(seed: int, crashes: tuple[int, ...] = (12, 2)) -> Outcome:
    """The case of `seed`; `crashes` (of the first life, the second, ...) may be `EVERY`."""
    case = Case(seed, crashes)
    with logging_to(_Log(case.coverage)):
        case.play()
    return Outcome(seed, case.violation, case.digest(), 0.0, case.coverage, case.lines)


def _disk(loop: SimLoop, point: CrashPoint | None, *, lost_power: bool) -> SimStorage:
    if point is None:
        storage = SimStorage(loop, SimClock(loop))
        storage.mounts = DIRECTORIES
        return storage
    storage = point.storage.fork()
    storage.loop, storage.clock = loop, SimClock(loop)
    if lost_power:
        storage.crash_power()
    else:
        storage.crash_process()
    return storage
