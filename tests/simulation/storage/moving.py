"""Logs on their way to another directory: what the broker's mover does to two logs, without partitions around them.

Source: `replication.moves.log_moves`, whose order of steps this is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from protocol.errors import KafkaError
from protocol.topic_partition import TopicPartition
from replication.moves.log_copy import LogCopy
from storage.log import log_replacement
from tests.simulation.clock import SimClock
from tests.simulation.storage.logs import Logged

if TYPE_CHECKING:
    from replication.partition import Partition
    from storage.directories.log_manager import LogManager
    from tests.simulation.loop import SimLoop

PIECE_BYTES = 700
PAUSE_S = 0.03


class Moving:
    """The moves that are under way, a task each."""

    def __init__(self, logs: LogManager, loop: SimLoop, report: Callable[[str], None], coverage: Counter[str]) -> None:
        self._logs = logs
        self._loop = loop
        self._report = report
        self._coverage = coverage
        self._moves: dict[TopicPartition, asyncio.Task[None]] = {}
        self._stopped: set[TopicPartition] = set()

    def resume(self, logged: Logged) -> None:
        """Copy what there is a copy for; no effect while that is done."""
        move = self._moves.get(logged.key)
        if move is None or move.done():
            self._stopped.discard(logged.key)
            self._moves[logged.key] = self._loop.create_task(self._run(logged), name=f"move {logged.key[0]}")

    async def stop(self, logged: Logged) -> None:
        """Copy no more; the copy stays as it is."""
        self._stopped.add(logged.key)
        move = self._moves.get(logged.key)
        if move is not None:
            await asyncio.wait([move])

    async def stop_all(self) -> None:
        self._stopped.update(self._moves)
        if self._moves:
            await asyncio.wait(self._moves.values())

    async def _run(self, logged: Logged) -> None:
        try:
            while logged.key not in self._stopped:
                if await self._advance(logged):
                    break
                await asyncio.sleep(PAUSE_S * self._loop.random.random())
        except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this case
            self._report(f"{logged.key} was not moved: {error!r}")

    async def _advance(self, logged: Logged) -> bool:
        """A step; whether it was the last one."""
        copy = self._logs.future.future_log(*logged.key)
        if copy is None:
            return True
        moving = LogCopy(
            cast("Partition", logged), copy, max_bytes=PIECE_BYTES, clock=SimClock(self._loop)
        )  # of which it wants the log alone
        try:
            is_level = await moving.step()
            if moving.lag_bytes > PIECE_BYTES and not is_level:
                return False
            await copy.flush()
            async with logged.in_place:
                assert logged.log is not None
                return (
                    logged.key not in self._stopped
                    and log_replacement.can_begin(logged.log)
                    and await self._exchange(logged, moving)
                )
        except KafkaError as error:
            # The disk is full, or the log was cut while it was read.
            self._loop.note(f"move put off: {error}")
            await asyncio.sleep(PAUSE_S)
            return False

    async def _exchange(self, logged: Logged, moving: LogCopy) -> bool:
        old = logged.log
        assert old is not None
        self._coverage["exchanges"] += 1
        log_replacement.buffer_appends(old)
        try:
            await old.await_appends()
            await moving.copy_remaining()
            if old.failure is not None or old.is_halted:
                return False  # what was held has been refused
            old.detach_folder()
            new = await self._logs.future.complete_move(*logged.key)
        except KafkaError:
            log_replacement.release(old)
            raise
        logged.log = new
        log_replacement.hand_over(old, new)
        await old.close(flush=False)
        self._coverage["logs moved"] += 1
        return True
