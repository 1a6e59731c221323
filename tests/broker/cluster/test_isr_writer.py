"""In-sync sets written to the store: conditional on the version, and looked up when the answer is lost."""

from __future__ import annotations

import json

import pytest

from broker.cluster import isr_writer
from broker.cluster.isr_writer import StoreIsrWriter
from metadata.store import znodes
from metadata.store.port import ConnectionLossError, ensure_path
from metadata.store.registration import ensure_persistent_paths
from metadata.store.znodes import PartitionState
from replication.leader import IsrChange
from runtime.clock import SystemClock
from tests.simulation.store import Fault, SimulatedEnsemble, SimulatedStore

PATH = znodes.state_path("t", 0)
STATE = PartitionState(1, 4, (1, 2, 3), 7)


class Site:
    async def begin(self) -> None:
        self.ensemble = SimulatedEnsemble(SystemClock())
        self.store: SimulatedStore = self.ensemble.connect()
        await ensure_persistent_paths(self.store)
        await ensure_path(self.store, PATH)
        await self.store.set(PATH, STATE.encode())
        self.writer = StoreIsrWriter(self.store)

    async def shrink(self, partition_epoch: int, topic: str = "t", isr: tuple[int, ...] = (1, 2)) -> int | None:
        change = IsrChange(isr, 4, partition_epoch, None)
        return await self.writer.write(topic, 0, change, leader_id=1, controller_epoch=7)

    async def state(self) -> PartitionState:
        data, stat = await self.store.get(PATH)
        return PartitionState.decode(data, stat.version)


async def test_a_change_is_written_once() -> None:
    site = Site()
    await site.begin()
    assert await site.shrink(1) == 2
    assert await site.state() == PartitionState(1, 4, (1, 2), 7, 2)
    assert await site.shrink(1, isr=(1,)) is None, "another was faster"
    assert await site.shrink(0, topic="gone") is None


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_lost_answer_is_looked_up(fault: Fault) -> None:
    site = Site()
    await site.begin()
    site.ensemble.fault = lambda *_: fault
    if fault is Fault.REPLY_LOST:
        assert await site.shrink(1) == 2
    else:
        with pytest.raises(ConnectionError):
            await site.shrink(1)
    site.ensemble.fault = lambda *_: None
    assert (await site.state()).isr == ((1, 2) if fault is Fault.REPLY_LOST else (1, 2, 3))


async def test_a_change_that_was_written_unheard_is_found_when_it_is_tried_again() -> None:
    """Neither the write nor the question after it was answered: without this the leader waited for ever."""
    site = Site()
    await site.begin()
    site.ensemble.fault = lambda *_: Fault.REPLY_LOST
    with pytest.MonkeyPatch.context() as patch:

        async def nothing(path: str) -> None:
            raise ConnectionLossError(path)

        patch.setattr(site.store, "get", nothing)
        with pytest.raises(ConnectionError):
            await site.shrink(1)
    site.ensemble.fault = lambda *_: None
    assert await site.shrink(1) == 2


async def test_changes_are_announced_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_writer, "PARTITIONS_PER_NOTIFICATION", 2)
    site = Site()
    await site.begin()
    await site.writer.announce([("t", 0), ("t", 1), ("u", 0)])
    names = await site.store.children(znodes.ISR_CHANGES)
    assert names == ["isr_change_0000000000", "isr_change_0000000001"]
    told = [json.loads((await site.store.get(f"{znodes.ISR_CHANGES}/{name}"))[0]) for name in names]
    assert told == [
        {"version": 1, "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]},
        {"version": 1, "partitions": [{"topic": "u", "partition": 0}]},
    ]
    site.ensemble.fault = lambda *_: Fault.REQUEST_LOST
    with pytest.raises(ConnectionError):
        await site.writer.announce([("t", 0)])
