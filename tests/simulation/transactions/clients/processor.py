"""Consume, process, produce: reads committed records of one partition, writes one for each, and commits its offset with them.

Its position is the group's committed offset, fetched as a stable one, whenever an instance begins or a transaction was aborted.
The group has no members: instances fence each other by their transactional id.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponse
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.commits import text_of
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.line import Unavailable
from tests.simulation.transactions.checkers.offsets import NOTHING
from tests.simulation.transactions.clients.producers import Application
from tests.simulation.transactions.clients.requests import offset_of, stable_offset_request
from tests.simulation.transactions.clients.session import Session, Stopped
from tests.simulation.transactions.fetching import fetch_committed
from tests.simulation.transactions.ledger import OffsetKey
from tests.simulation.transactions.scene import Scene

AT_ONCE_MAX = 8


class Processor(Application):
    """From `source` to the partitions of `sinks`."""

    def __init__(self, scene: Scene, name: str, source: TopicPartition, sinks: list[TopicPartition]) -> None:
        super().__init__(scene, name)
        self.key: OffsetKey = (f"group-{name}", source)
        self._sinks = sinks
        self._version = scene.world.random.choice((7, 8, 9))
        self._positions: dict[Session, int] = {}

    async def run(self) -> None:
        await find_coordinator(self.world, self.line, self.key[0])
        await super().run()

    async def started(self, session: Session) -> None:
        self._positions[session] = max(await self.committed_offset(session), 0)

    async def gave_up(self, session: Session) -> None:
        await self.started(session)

    async def work(self, session: Session) -> bool:
        rng, (_, source) = self.world.random, self.key
        try:
            fetched = await fetch_committed(self.scene, self.line, self.name, source, self._positions[session])
        except Unavailable:
            await self.line.pause()
            return False
        if fetched is None:
            await self.line.pause()
            return False
        records = fetched.records[: rng.randint(1, AT_ONCE_MAX)]
        position = fetched.position if len(records) == len(fetched.records) else records[-1][0] + 1
        if not records:
            self._positions[session] = position
            return True
        by_sink: dict[TopicPartition, list[str]] = {}
        for offset, _ in records:
            by_sink.setdefault(rng.choice(self._sinks), []).append(made_of(self.key, offset))
        for sink, values in by_sink.items():
            await session.add([sink])
            await session.write(sink, [values])
        await session.send_offset(self.key, position)
        self._positions[session] = position
        self.world.count("records processed", len(records))
        return True

    async def committed_offset(self, session: Session | None = None) -> int:
        """The group's offset once it is stable. Raises Stopped."""
        group, source = self.key
        while True:
            if session is not None and session.is_stopped():
                raise Stopped
            floor = self.scene.offsets.floor(self.key)
            try:
                response = await self.line.call(
                    stable_offset_request(group, source, self._version), self._version, OffsetFetchResponse
                )
            except Unavailable:
                await self.line.pause()
                continue
            code, offset, metadata = offset_of(response)
            self.world.loop.note(f"{self.name} OffsetFetch {ErrorCode(code).name} {offset}")
            if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.world.count("unstable offsets answered")
            elif code == ErrorCode.NONE and self.line.is_up_to_date:
                if offset != NOTHING and metadata != text_of(offset):
                    self.world.report(f"{self.name}: the metadata of {offset} is {metadata!r}")
                self.scene.offsets.on_stable(self.name, self.key, floor, offset)
                return offset
            elif code != ErrorCode.NONE and code not in self.scene.retriable:
                self.world.report(f"{self.name}: OffsetFetch was answered {ErrorCode(code)!r}")
            await self.line.pause()


def made_of(key: OffsetKey, offset: int) -> str:
    group, (topic, partition) = key
    return f"{group} {topic} {partition} {offset}"


def input_of(value: str) -> tuple[str, TopicPartition, int] | None:
    """(group, partition, offset) of the input record that a processor has made `value` of; None for another value."""
    parts = value.split(" ")[1:]
    if len(parts) != 4:
        return None
    group, topic, partition, offset = parts
    return group, (topic, int(partition)), int(offset)
