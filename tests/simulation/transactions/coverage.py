"""What histories of transactions have been through, counted. `MINIMUMS` are for a hundred seeds.

Clients count what they see; `watching_transactions` adds what only brokers know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.cluster.marker_queues import MarkerQueues
from coordinator.transaction.shard import TransactionShard
from tests.simulation.mutants import Patches
from tests.simulation.transactions.scene import Scene

MINIMUMS = {
    "requests": 100 * 200,
    "faults": 100 * 4,
    "virtual seconds": 100 * 30,
    "transactions committed": 1_000,
    "transactions aborted": 200,
    "producers fenced": 50,
    "producers fenced by a timeout": 20,
}

CLUSTER_MINIMUMS = {**MINIMUMS}


@contextmanager
def watching_transactions(scene: Scene) -> Iterator[None]:
    patches = Patches()
    _count_markers(scene, patches)
    _count_loads(scene, patches)
    try:
        yield
    finally:
        patches.undo()


def _count_markers(scene: Scene, patches: Patches) -> None:
    world = scene.world

    def watched_response(original: Any) -> Any:
        def on_response(self: MarkerQueues, *args: Any) -> Any:
            summary = original(self, *args)
            world.count("markers refused and repeated", sum(map(len, summary.retried.values())))
            return summary

        return on_response

    def watched_loss(original: Any) -> Any:
        def on_lost(self: MarkerQueues, broker_id: int) -> None:
            world.count("markers not answered and repeated")
            original(self, broker_id)

        return on_lost

    patches.replace(MarkerQueues, "on_response", watched_response)
    patches.replace(MarkerQueues, "on_lost", watched_loss)


def _count_loads(scene: Scene, patches: Patches) -> None:
    world = scene.world

    def watched(original: Any) -> Any:
        def on_loaded(self: TransactionShard, now_ms: int) -> Any:
            effects = original(self, now_ms)
            states = self.state_counts()
            world.count("coordinators loaded")
            world.count("open transactions found by a new coordinator", len(self.open_ids()))
            world.count(
                "decided transactions found by a new coordinator", sum(n for s, n in states.items() if s.is_prepared)
            )
            return effects

        return on_loaded

    patches.replace(TransactionShard, "on_loaded", watched)
