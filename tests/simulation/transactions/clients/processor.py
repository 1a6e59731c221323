"""Consume, process, produce: reads committed records of one partition, writes one for each, and commits its offset with them.

Its position is the group's committed offset, fetched as a stable one, whenever an instance begins or a transaction was aborted.
The group has no members: instances fence each other by their transactional id.
"""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from tests.simulation.clients.coordinator import find_coordinator
from tests.simulation.line import Unavailable
from tests.simulation.transactions.clients.auditor import VERSIONS, fetch_stable_offset
from tests.simulation.transactions.clients.producers import Application
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
        self._version = scene.world.random.choice(VERSIONS)
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
            await session.write(sink, [values])
        await session.send_offset(self.key, position)
        self._positions[session] = position
        self.world.count("records processed", len(records))
        return True

    async def committed_offset(self, session: Session | None = None) -> int:
        """The group's offset once it is stable. Raises Stopped."""
        while session is None or not session.is_stopped():
            offset = await fetch_stable_offset(self.scene, self.line, self.name, self.key, self._version)
            if offset is not None:
                return offset
            await self.line.pause()
        raise Stopped


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
