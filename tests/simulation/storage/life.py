"""One process that owns the logs: it opens them, looks at what is there, works on them, and stops or does not.

At each change of the disk a copy of it can be taken, with what must be left of every log at that moment: a `CrashPoint`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.errors import KafkaError
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from storage.directories.log_directory import parse_future_folder
from storage.directories.log_manager import LogManager
from storage.log.partition_log import PartitionLog
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop
from tests.simulation.storage.logs import Logged, found_in
from tests.simulation.storage.model import Expected, compare
from tests.simulation.storage.plan import DELETE_DELAY_MS, Plan
from tests.simulation.storage.transactions import misjudged
from tests.simulation.storage.work import Work

OWN_FILES = frozenset(
    {
        ".lock",
        "meta.properties",
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    }
)
LOG_FILES = frozenset({"leader-epoch-checkpoint", "partition.metadata"})
_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)")

Promises = dict[TopicPartition, Expected]


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The disk just before a change, and what was promised by then."""

    what: str
    storage: SimStorage
    promises: Promises
    at_ns: int


@dataclass(slots=True)
class Life:
    """`promises`: what the life before has left. Reports go to `report`."""

    loop: SimLoop
    storage: SimStorage
    plan: Plan
    promises: Promises
    report: Callable[[str], None]
    coverage: Counter[str]
    logged: dict[TopicPartition, Logged] = field(default_factory=dict)
    is_offline: bool = False

    def current_promises(self) -> Promises:
        return {key: logged.expected() for key, logged in self.logged.items()}

    async def run(self, steps: int) -> None:
        """Open, look, work `steps` times in all, and stop in order one time of two; then perhaps start again."""
        is_on = True
        while is_on and not self.is_offline:
            session = steps if self.loop.random.random() < 0.5 else max(steps // 2, 1)
            steps -= session
            is_on = await self._session(session) and steps > 0

    async def _session(self, steps: int) -> bool:
        """From a start to a stop; whether it was one in order."""
        rng = self.loop.random
        logs = self._boot()
        self.logged = {
            key: Logged(key, expected.is_compacted, inherited=expected, topic_id=expected.topic_id)
            for key, expected in self.promises.items()
        }
        logs.lock()
        logs.claim(1, "cluster")
        await logs.load()
        await self._look(logs)
        logs.start()
        work = Work(self.loop, self.storage, self.plan, logs, self.logged, self.report, self.coverage)
        await work.begin()
        for _ in range(steps):
            await work.step()
            if self.is_offline:
                return False
        await asyncio.sleep((DELETE_DELAY_MS + 1_500) / 1000 if rng.random() < 0.3 else 0.05)
        if rng.random() < 0.3:
            await self._compare()
        if rng.random() < 0.4:
            return False
        await work.end()
        await logs.close()
        self.promises = self.current_promises()
        return True

    def _boot(self) -> LogManager:
        filesystem, disk = self.storage.boot(), SimDisk(self.loop)
        disk.slow_probability = self.plan.slow_probability
        disk.readers_delay_ms = self.plan.readers_delay_ms
        self.storage.cold_probability = self.plan.cold_probability
        self.storage.capacity_bytes = None
        for directory in self.plan.directories:
            filesystem.make_directory(directory)
        return LogManager(
            settings=self.plan.settings,
            directories=self.plan.directories,
            config_of=lambda topic: self.plan.configs[topic],
            filesystem=filesystem,
            disk=disk,
            clock=SimClock(self.loop),
            randomness=self.loop.random,
            on_directory_failed=self._on_directory_failed,
        )

    def _on_directory_failed(self, path: str, error: OSError) -> None:
        self.is_offline = True
        self.report(f"{path} went offline: {error!r}")

    # --- looking ---

    async def _look(self, logs: LogManager) -> None:
        """What was found must be what was promised."""
        for key, logged in list(self.logged.items()):
            assert logged.inherited is not None
            log = logs.logs.get(key)
            found = None if log is None else await found_in(log)
            problem, history = compare(logged.inherited, found, misjudged)
            if problem is not None:
                self.report(f"{key} {problem}")
            if log is None:
                del self.logged[key]
                continue
            if log.topic_id not in (ZERO_UUID, logged.topic_id):
                self.report(f"{key} has the topic id {log.topic_id.hex()}, not {logged.topic_id.hex()}")
            await logs.log_for(*key, logged.topic_id)
            logged.opened(log, history)
        for key in sorted(logs.logs.keys() - self.logged.keys()):
            self.report(f"{key} is back, though it was deleted")
        self._look_for_leftovers(logs)

    async def _compare(self) -> None:
        """What can be read now must be what was written."""
        for key, logged in self.logged.items():
            async with logged.in_place:
                if not logged.is_settled:
                    continue
                assert logged.log is not None
                start_offset = logged.log.log_start_offset
                try:
                    found = await found_in(logged.log)
                except KafkaError:
                    if logged.log.log_start_offset > start_offset:
                        continue  # what was to be read has gone meanwhile
                    raise
                logged.committed = found.end
                problem, _ = compare(logged.expected(), found, misjudged)
                self.coverage["compared while open"] += 1
                if problem is not None:
                    self.report(f"{key} {problem}, while it is open")

    def _look_for_leftovers(self, logs: LogManager) -> None:
        folders = {log.directory: log for log in (*logs.logs.values(), *logs.future.logs.values())}
        alone = self._copies_left_alone(logs)
        for path in [*self.storage.names.files, *self.storage.names.directories]:
            folder, _, name = path.rpartition("/")
            is_known = (
                path in ("/", *self.plan.directories)
                or path in folders
                or (folder in self.plan.directories and name in OWN_FILES)
                or (folder in folders and _belongs(folders[folder], name))
            )
            if not is_known and path not in alone and folder not in alone:
                self.report(f"{path} is left over")

    def _copies_left_alone(self, logs: LogManager) -> set[str]:
        """Folders of copies whose log is gone: they may be all that is left of it."""
        return {
            path
            for path in self.storage.names.directories
            if (key := parse_future_folder(path.rpartition("/")[2])) is not None and key not in logs.logs
        }


def _belongs(log: PartitionLog, name: str) -> bool:
    """Whether a file of the log's folder has a reason to be there."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None:
        return name in LOG_FILES
    base_offset, suffix = int(match[1]), match[2]
    if suffix == "snapshot":
        return base_offset <= log.log_end_offset
    return any(segment.base_offset == base_offset for segment in log.segments)
