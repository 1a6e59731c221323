"""A broker on the real doors, from its start on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import uvloop

from broker.cluster.topics_at_start import TopicAtStart
from broker.dependencies import Dependencies
from broker.process import open_embedded_store
from broker.server import Broker
from config.broker import BrokerSettings
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.randomness import system_randomness
from runtime.slices import SLICE_MS
from tests.doubles.clock import RunningClock

# More than the controller tells in one request.
PARTITIONS = 500


class CountingLoopTurns:
    """How often others could run."""

    def __init__(self) -> None:
        self.turns = 0
        self._turn()

    def _turn(self) -> None:
        self.turns += 1
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def close(self) -> None:
        self._handle.cancel()


async def _turns_while_partitions_are_assigned(folder: Path) -> int:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder), "broker.id": "1"}
    disk = OsDisk()
    doors = Dependencies(
        RunningClock(step_ms=SLICE_MS),
        system_randomness(),
        OsFileSystem(),
        disk,
        OsNetwork(SocketOptions()),
        open_embedded_store,
    )
    broker = Broker(BrokerSettings.from_sources({}, {}, given), doors)
    try:
        await broker.start()
        states = [
            LeaderAndIsrPartitionState(
                topic_name="t", partition_index=index, controller_epoch=9, leader=1, leader_epoch=9, isr=[1],
                partition_epoch=9, replicas=[1],
            )
            for index in range(PARTITIONS)
        ]  # fmt: skip
        request = LeaderAndIsrRequest(
            controller_id=1, controller_epoch=9, ungrouped_partition_states=states, topic_states=[], live_leaders=[]
        )
        others = CountingLoopTurns()
        await broker.services.partitions.on_leader_and_isr(request)
        others.close()
        return others.turns
    finally:
        await broker.stop()
        await disk.close()


def test_many_partitions_are_assigned_in_slices(tmp_path: Path) -> None:
    """A broker of its own begins to lead all that it has with one request."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_start_and_stop(tmp_path, [TopicAtStart("t", PARTITIONS)]))
        assert runner.run(_turns_while_partitions_are_assigned(tmp_path)) > PARTITIONS // 2


async def _start_and_stop(folder: Path, topics: Sequence[TopicAtStart]) -> tuple[int, int]:
    """(partitions that it leads, partitions that it tells of) when clients begin to be served."""
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder), "broker.id": "1"}
    disk = OsDisk()
    doors = Dependencies(
        SystemClock(), system_randomness(), OsFileSystem(), disk, OsNetwork(SocketOptions()), open_embedded_store
    )
    broker = Broker(BrokerSettings.from_sources({}, {}, given), doors, topics=topics)
    try:
        await broker.start()
        find, shown = broker.services.partitions.find, broker.metadata.image.topics.get("t")
        held = [find("t", index) for index in range(PARTITIONS)]
        led = sum(partition is not None and partition.leader is not None for partition in held)
        return led, 0 if shown is None else len(shown.partitions)
    finally:
        await broker.stop()
        await disk.close()


def test_a_broker_that_serves_has_its_partitions(tmp_path: Path) -> None:
    """Else its first clients would hear of topics that do not exist."""
    for topics in ([TopicAtStart("t", PARTITIONS)], [], []):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            assert runner.run(_start_and_stop(tmp_path, topics)) == (PARTITIONS, PARTITIONS)
