"""A consumer of committed records of one partition, as `client.event_loop.reader` has it: from its start, or from where it ends
when the reader begins, and on."""

from __future__ import annotations

from typing import Any

from client.committing import OffsetAndMetadata
from client.error_codes import error_codes
from client.event_loop.reader import PartitionReader
from client.reading.positions import Positions
from protocol.errors import ErrorCode
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.line import Unavailable
from tests.simulation.transactions.fetching import READ_COMMITTED, end_of_log
from tests.simulation.transactions.scene import Scene

_EPOCHS = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE})


class Reader:
    """Ends once the producers are done and everything up to the end of the log is stable and read."""

    def __init__(self, scene: Scene, name: str, key: TopicPartition) -> None:
        rng = scene.world.random
        self.name = name
        self.key = key
        self._scene = scene
        self._line = scene.world.line(name)
        self._cluster = ObservedCluster(scene.world, name, self)
        self._starts_at_end = rng.random() < 0.3
        self._max_wait_ms = rng.choice((100, 300, 2_000))
        self._max_bytes = rng.choice((1, 1_000, 20_000))

    async def run(self) -> None:
        world, key = self._scene.world, self.key
        position = await self._begin()
        positions = Positions(max_partition_bytes=self._max_bytes)
        reader = PartitionReader(self._cluster, world.random, positions, max_wait_ms=self._max_wait_ms)
        reader.assign({key: OffsetAndMetadata(position)})
        while True:
            polled = await reader.poll(1_000)
            found = positions.offset(key)
            if found is None:
                world.report(f"{self.name}: the position {position} of {key} is gone")
                continue
            records = [(each.record.offset, (each.record.value or b"").decode()) for each in polled]
            for offset, value in records:
                self._scene.aborted_reads.on_read(self.name, key, offset, value)
            world.count("committed records read", len(records))
            self._scene.polls.on_poll(self.name, key, records, found.offset)
            if found.offset == position and world.producers_are_done and await self._end() == position:
                break
            position = found.offset
        await reader.close()
        await self._cluster.close()

    async def _begin(self) -> int:
        position = await self._end() if self._starts_at_end else 0
        self._scene.polls.begins(self.name, self.key, position)
        return position

    async def _end(self) -> int:
        while True:
            try:
                end = await end_of_log(self._scene, self._line, self.key, READ_COMMITTED)
            except Unavailable:
                end = None
            if end is not None:
                return end
            await self._line.pause()

    # --- what goes over the wire ---

    def sending(self, broker_id: int, request: Request) -> object:
        return None

    def unanswered(self, request: Request) -> None:
        """It is repeated."""

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        for number in error_codes(response):
            code = ErrorCode(number)
            if code not in self._scene.retriable and code not in _EPOCHS:
                self._scene.world.report(f"{self.name}: {request.api_name} was answered {code!r}")
