"""What is done to the logs while a process lives: one step after the other, beside what they do by themselves.

A disk that is full refuses what it has no room for, and what was refused may be there or not until there is room again; at any
other time a refusal is a fault.

Rules: a log is cut, deleted and exchanged for its copy one at a time, as the broker's owners of it see to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from protocol.topic_partition import TopicPartition
from storage.free_space import REFUSED_PAUSE_MS
from storage.log.removal.segment_retention import delete_records
from tests.simulation.clock import SimClock
from tests.simulation.storage.logs import Logged
from tests.simulation.storage.model import Expected
from tests.simulation.storage.moving import Moving

if TYPE_CHECKING:
    from storage.directories.log_manager import LogManager
    from tests.simulation.filesystem import SimStorage
    from tests.simulation.loop import SimLoop
    from tests.simulation.storage.plan import Plan

WEIGHTS = {
    "append": 12.0,
    "sleep": 6.0,
    "flush": 2.0,
    "cut": 1.0,
    "delete records": 1.0,
    "restart": 0.3,
    "delete": 0.5,  # or as the plan has it
    "follow": 1.0,
}


class Work:
    """See the module."""

    def __init__(
        self,
        loop: SimLoop,
        storage: SimStorage,
        plan: Plan,
        logs: LogManager,
        logged: dict[TopicPartition, Logged],
        report: Callable[[str], None],
        coverage: Counter[str],
    ) -> None:
        self._loop = loop
        self._rng = loop.random
        self._storage = storage
        self._plan = plan
        self._logs = logs
        self._logged = logged
        self._report = report
        self._coverage = coverage
        self._clock = SimClock(loop)
        self._was_full = False
        self._moving = Moving(logs, loop, report, coverage)

    @property
    def _now_ms(self) -> int:
        return self._clock.wall_ms()

    async def begin(self) -> None:
        """Go on with the moves that were begun, or not."""
        for key in sorted(self._logs.future.logs):
            if self._rng.random() < 0.7:
                self._moving.resume(self._logged[key])

    async def end(self) -> None:
        """Before a stop in order. The disk may be full still."""
        if self._rng.random() < 0.5:
            await self._make_room()
        await self._moving.stop_all()

    async def step(self) -> None:
        opened = [key for key, logged in self._logged.items() if logged.log is not None]
        if not opened or (len(opened) < len(self._plan.configs) and self._rng.random() < 0.5):
            await self._refusable(self._make())
            return
        key = self._rng.choice(sorted(opened))
        logged, weights = self._logged[key], {**WEIGHTS, "delete": self._plan.deletes}
        if key[0] in self._plan.transactional:
            weights["transact"] = 12.0
        if len(self._plan.directories) > 1:
            weights["move"] = 1.5
        if self._plan.fills:
            weights.update({"fill": 1.5} if self._storage.capacity_bytes is None else {"make room": 6.0})
        [what] = self._rng.choices(list(weights), list(weights.values()))
        log = logged.log
        assert log is not None
        self._loop.note(
            f"{what} {key[0]}: [{log.log_start_offset}, {log.log_end_offset}) {log.offsets.recovery_point} on the disk"
        )
        self._coverage[f"did {what}"] += 1
        await self._refusable(self._do(what, key, logged))
        if logged.failures and not self._was_full:
            self._report(f"{key}: {logged.failures[0]}")

    async def _refusable(self, doing: object) -> None:
        try:
            await doing  # type: ignore[misc]
        except KafkaError as error:
            if not self._was_full:
                raise
            self._loop.note(f"refused: {error}")
            self._coverage["refused"] += 1

    async def _do(self, what: str, key: TopicPartition, logged: Logged) -> None:
        """Raises KafkaError."""
        match what:
            case "append" | "transact":
                await self._append(what, logged)
            case "sleep":
                await asyncio.sleep(self._rng.choice((0.001, 0.02, 0.15)))
            case "flush":
                await self._flush(key, logged)
            case "cut" | "follow":
                await self._cut(what, logged)
            case "delete records":
                log = logged.log
                assert log is not None
                end_offset = max(log.high_watermark, log.log_start_offset)
                delete_records(log, self._rng.randint(log.log_start_offset, end_offset))
            case "restart":
                async with logged.in_place:
                    assert logged.log is not None
                    await logged.restart(logged.log.log_end_offset + self._rng.choice((0, 1, 50)))
                logged.epoch += 1
            case "delete":
                await self._delete(key, logged)
            case "move":
                await self._move(key, logged)
            case "fill":
                self._was_full = True
                self._storage.capacity_bytes = self._storage.used_bytes + self._rng.choice((0, 100, 1_000, 4_000))
            case "make room":
                await self._make_room()

    async def _append(self, what: str, logged: Logged) -> None:
        for _ in range(self._rng.randint(1, 4)):
            if what == "append":
                logged.append(self._rng, self._now_ms)
            else:
                logged.transact(self._rng, self._now_ms)
        if self._rng.random() < 0.6:
            assert logged.log is not None
            await logged.log.await_appends()
            logged.commit()

    async def _flush(self, key: TopicPartition, logged: Logged) -> None:
        log = logged.log
        assert log is not None
        end_offset = log.offsets.next_offset
        await log.flush()
        # One that is held is flushed when its copy has taken its place; one that has halted ends earlier now.
        is_held = logged.in_place.locked() or log is not logged.log
        if log.offsets.recovery_point < end_offset and not is_held and not self._was_full:
            self._report(f"{key}: flushed to {end_offset}, the recovery point is {log.offsets.recovery_point}")

    async def _cut(self, what: str, logged: Logged) -> None:
        """As a follower whose leader has other records."""
        async with logged.in_place:
            starts = logged.batch_starts()
            if starts:
                await logged.cut(self._rng.choice(starts[-6:]))
                logged.epoch += 1
            if what == "follow":
                logged.copy(self._rng, self._now_ms)

    async def _make(self) -> None:
        opened = {key for key, logged in self._logged.items() if logged.log is not None}
        topic = self._rng.choice([topic for topic in self._plan.configs if (topic, 0) not in opened])
        key = (topic, 0)
        is_compacted = self._plan.configs[topic].is_compacted
        topic_id = self._rng.getrandbits(128).to_bytes(16, "big")
        inherited = Expected(((),), 0, 0, 0, is_compacted, may_be_gone=True, topic_id=topic_id)
        logged = self._logged[key] = Logged(key, is_compacted, inherited=inherited, topic_id=topic_id)
        logged.opened(await self._logs.log_for(*key, topic_id), ())

    async def _delete(self, key: TopicPartition, logged: Logged) -> None:
        await self._moving.stop(logged)
        async with logged.in_place:
            logged.is_going = True
            await self._logs.delete(*key)
            del self._logged[key]

    async def _move(self, key: TopicPartition, logged: Logged) -> None:
        """Begin a move, or end the one that is under way."""
        assert logged.log is not None
        if key in self._logs.future.logs:
            if self._rng.random() < 0.2:
                await self._moving.stop(logged)
                await self._logs.future.drop_future_log(*key)
            else:
                self._moving.resume(logged)
            return
        here = logged.log.directory.rpartition("/")[0]
        target = self._rng.choice([path for path in self._plan.directories if path != here])
        await self._logs.future.future_log_for(*key, target)
        self._moving.resume(logged)

    async def _make_room(self) -> None:
        if self._storage.capacity_bytes is not None:
            self._storage.capacity_bytes = None
            await asyncio.sleep(3 * REFUSED_PAUSE_MS / 1000)  # to the end of a pause, to the next look, to be mended
            for logged in self._logged.values():
                logged.failures.clear()
                if logged.log is not None and logged.log.is_halted:
                    self._report(f"{logged.key} does not go on, though there is room")
            self._was_full = False
