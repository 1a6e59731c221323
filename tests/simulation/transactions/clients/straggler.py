"""Tells brokers once more what coordinators have told them: markers on a connection that its sender gave up long ago, which is
read at last, when the producer is in a later transaction.

Only where the end of a transaction raises the epoch: nothing protects from a late marker of the same epoch (KIP-890).
"""

from __future__ import annotations

import asyncio
import contextlib

from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from protocol.transaction_version import MARKERS_SINCE
from tests.simulation.clients.wire import Wire
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.line import Unavailable
from tests.simulation.transactions.scene import Scene

ANSWER_TIMEOUT_S = 1.0
PAUSE_S = 0.4


class Straggler:
    """Ends with the world's peace."""

    name = "straggler"

    def __init__(self, scene: Scene, world: ClusterWorld) -> None:
        self._scene = scene
        self._world = world

    async def run(self) -> None:
        world, rng = self._world, self._world.random
        while not world.is_quiet:
            await asyncio.sleep(rng.expovariate(1 / PAUSE_S))
            if self._scene.sent_markers:
                await self._tell_late(*rng.choice(self._scene.sent_markers))

    async def _tell_late(self, broker_id: int, request: WriteTxnMarkersRequest) -> None:
        world, machine = self._world, self._world.machines[broker_id]
        if not machine.is_running or machine.is_paused:
            return
        wire = Wire(world, self.name, world.address(broker_id), lambda: machine.starts_count)
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await wire.call(request, MARKERS_SINCE, WriteTxnMarkersResponse)
            codes = [row.error_code for marker in answer.markers for topic in marker.topics for row in topic.partitions]
            world.count("markers that came late")
            world.count("markers that came late and were refused", ErrorCode.INVALID_PRODUCER_EPOCH in codes)
        wire.close()
