from __future__ import annotations

import asyncio

from client.event_loop.connection import OutgoingConnection
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.async_tests import simulated
from tests.simulation.loop import SimLoop
from tests.simulation.machine import End, Ended, Machine, Started
from tests.simulation.network import SimNetwork

SETTINGS = {"listeners": "PLAINTEXT://broker:9092", "log.dirs": "/data", "broker.id": "1"}


class Diary:
    """A machine, and what it told."""

    def __init__(self, loop: SimLoop) -> None:
        self.network = SimNetwork(loop)
        self.machine = Machine(loop, self.network, "broker", SETTINGS)
        self.ended: list[Ended] = []
        self.started: list[Started] = []
        self.machine.on_ended = self.ended.append
        self.machine.on_started = self.started.append


@simulated(1)
async def test_a_broker_starts_serves_stops_and_starts_again(loop: SimLoop) -> None:
    diary = Diary(loop)
    assert await diary.machine.start()
    client = await OutgoingConnection.open(diary.network.node("client"), "broker", 9092, "test")
    answer = await client.send(MetadataRequest(topics=None), 9, MetadataResponse)
    assert [broker.host for broker in answer.brokers] == ["broker"]
    assert (await diary.machine.stop()).how is End.STOPPED
    assert not diary.machine.is_running
    assert await diary.machine.start()
    assert [ended.how for ended in diary.started[1].after] == [End.STOPPED]


@simulated(1)
async def test_a_crash_takes_everything_at_once_and_the_next_start_recovers(loop: SimLoop) -> None:
    diary = Diary(loop)
    assert await diary.machine.start()
    client = await OutgoingConnection.open(diary.network.node("client"), "broker", 9092, "test")
    diary.machine.crash()
    await asyncio.sleep(1)
    assert not client.is_open
    diary.machine.crash()  # there is nothing left
    assert [ended.how for ended in diary.ended] == [End.PROCESS_CRASH]
    assert await diary.machine.start()
    diary.machine.crash(power=True)
    assert await diary.machine.start()
    assert diary.started[2].lost_power


@simulated(1)
async def test_a_broker_can_be_crashed_in_each_call_of_its_start(loop: SimLoop) -> None:
    diary = Diary(loop)
    calls = 0
    while True:
        calls += 1
        served = diary.machine.start()
        diary.machine.crash_in_call(calls, power=calls % 2 == 0)
        if await served:
            break
        await diary.machine.ended()
    assert calls > 10
    assert {ended.how for ended in diary.ended} == {End.PROCESS_CRASH, End.POWER_CRASH}


@simulated(1)
async def test_a_broken_disk_ends_the_broker_and_a_repaired_one_lets_it_start(loop: SimLoop) -> None:
    diary = Diary(loop)
    diary.machine.storage.fail("/data")
    assert not await diary.machine.start()
    assert (await diary.machine.ended()).how is End.FAILED
    diary.machine.storage.repair()
    assert await diary.machine.start()
