"""The look at who fell behind, every half of replica.lag.time.max.ms."""

from __future__ import annotations

import asyncio
from pathlib import Path

from replication.isr_expiry import expire_lagging_replicas
from runtime.tasks import TaskScope
from tests.replication.replica_world import LAG_MS, replica


def test_a_lagging_follower_is_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with replica(tmp_path) as one, TaskScope("test") as tasks:
            one.lead(isr=(1, 2))
            await one.append()
            looks = 0
            wished = asyncio.get_running_loop().create_future()

            def now_ms() -> int:
                """Time goes on with each look."""
                nonlocal looks
                looks += 1
                if one.around.wishes and not wished.done():
                    wished.set_result(None)
                return LAG_MS // 2 * looks

            tasks.spawn(expire_lagging_replicas(lambda: [one.partition], 2, now_ms), name="expiry")
            async with asyncio.timeout(20):
                await wished
            (change,) = one.around.wishes
            assert change.isr == (1,)
            assert looks == 4  # at half the lag, at the lag, past it, and the one that noticed

    asyncio.run(run())
