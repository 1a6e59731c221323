"""Fetches the committed offsets of processors' groups as stable ones at any moment, as a consumer does that takes a partition
over (KIP-447): what was acknowledged counts, though its markers may still be under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponse
from tests.simulation.checkers.commits import text_of
from tests.simulation.line import Line, Unavailable
from tests.simulation.transactions.checkers.offsets import NOTHING
from tests.simulation.transactions.clients.requests import offset_of, stable_offset_request
from tests.simulation.transactions.ledger import OffsetKey
from tests.simulation.transactions.scene import Scene

VERSIONS = (7, 8, 9)


async def fetch_stable_offset(scene: Scene, line: Line, who: str, key: OffsetKey, version: int) -> int | None:
    """The committed offset, checked; None when there is none yet that can be believed."""
    world, (group, partition) = scene.world, key
    floor = scene.offsets.floor(key)
    try:
        response = await line.call(stable_offset_request(group, partition, version), version, OffsetFetchResponse)
    except Unavailable:
        return None
    code, offset, metadata = offset_of(response)
    world.loop.note(f"{who} OffsetFetch {ErrorCode(code).name} {offset}")
    if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        world.count("unstable offsets answered")
    elif code != ErrorCode.NONE and code not in scene.retriable:
        world.report(f"{who}: OffsetFetch was answered {ErrorCode(code)!r}")
    if code != ErrorCode.NONE or not line.is_up_to_date:
        return None
    if offset != NOTHING and metadata != text_of(offset):
        world.report(f"{who}: the metadata of {offset} is {metadata!r}")
    scene.offsets.on_stable(who, key, floor, offset)
    return offset


class Auditor:
    """Ends with the world's peace."""

    def __init__(self, scene: Scene, name: str, keys: Sequence[OffsetKey]) -> None:
        self.name = name
        self._scene = scene
        self._line = scene.world.line(name)
        self._keys = keys

    async def run(self) -> None:
        world, rng = self._scene.world, self._scene.world.random
        while not world.is_quiet:
            await asyncio.sleep(world.pace * rng.uniform(0.0, 0.5))
            key, version = rng.choice(self._keys), rng.choice(VERSIONS)
            if await fetch_stable_offset(self._scene, self._line, self.name, key, version) is None:
                await self._line.pause()
            else:
                world.count("stable offsets fetched by another consumer")
