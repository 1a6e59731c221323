"""A consumer of committed records of one partition: from its start, or from where it ends when the reader begins, and on."""

from __future__ import annotations

import asyncio

from protocol.topic_partition import TopicPartition
from tests.simulation.line import Unavailable
from tests.simulation.transactions.fetching import READ_COMMITTED, end_of_log, fetch_committed
from tests.simulation.transactions.scene import Scene


class Reader:
    """Ends once the producers are done and everything up to the end of the log is stable and read."""

    def __init__(self, scene: Scene, name: str, key: TopicPartition) -> None:
        rng = scene.world.random
        self.name = name
        self.key = key
        self.position = -1
        self._scene = scene
        self._line = scene.world.line(name)
        self._starts_at_end = rng.random() < 0.3
        self._max_wait_ms = rng.choice((0, 300, 2_000))
        self._max_bytes = rng.choice((1, 1_000, 20_000))

    async def run(self) -> None:
        while True:
            try:
                if self.position < 0:
                    await self._begin()
                elif await self._poll() and self._scene.world.producers_are_done:
                    return
            except Unavailable:
                await self._line.pause()

    async def _begin(self) -> None:
        position = await end_of_log(self._scene, self._line, self.key, READ_COMMITTED) if self._starts_at_end else 0
        if position is None:
            await self._line.pause()
            return
        self.position = position
        self._scene.polls.begins(self.name, self.key, position)

    async def _poll(self) -> bool:
        """Whether there was nothing new."""
        fetched = await fetch_committed(
            self._scene, self._line, self.name, self.key, self.position,
            max_wait_ms=self._max_wait_ms, max_bytes=self._max_bytes,
        )  # fmt: skip
        if fetched is None:
            await self._line.pause()
            return False
        self._scene.polls.on_poll(self.name, self.key, fetched.records, fetched.position)
        is_at_end = fetched.position == self.position
        self.position = fetched.position
        if is_at_end:
            await asyncio.sleep(0.2 * self._scene.world.pace)
        return is_at_end
