"""A broker that has lost power comes back as a follower, and one whose process died comes back at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from broker.cluster import power_loss
from broker.cluster.power_loss import POLL_PAUSE_S, BootFile, wait_until_out_of_isrs
from broker.dependencies import Dependencies
from broker.server import Broker
from metadata.store import znodes
from metadata.store.port import Create, Stat, Watch
from metadata.store.registration import ensure_persistent_paths
from metadata.store.znodes import PartitionState, ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode
from runtime.process.os_boot import BOOT_ID_FILE, boot_id
from tests.async_tests import played_by, simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.store import SimulatedEnsemble, SimulatedStore

BROKER = 1
PATIENCE_MS = 12_000


class Site:
    """A directory, and a tree in which partitions have in-sync sets."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.clock = SimClock(loop)
        self.storage = SimStorage(loop, self.clock)
        filesystem = self.storage.boot()
        filesystem.make_directory("/data")
        self.file = BootFile("/data", filesystem, SimDisk(loop).queue("/data"))
        self.ensemble = SimulatedEnsemble(self.clock, lambda: 0.001)
        self.store: SimulatedStore = self.ensemble.connect()

    async def set_isr(self, *isr: int, topic: str = "t", replicas: tuple[int, ...] = (1, 2, 3)) -> None:
        state = PartitionState(isr[0], 0, isr, 1).encode()
        if await self.store.exists(znodes.topic_path(topic)) is not None:
            await self.store.set(znodes.state_path(topic, 0), state)
            return
        registration = TopicRegistration(bytes(15) + b"t", {0: ReplicaAssignment(replicas)})
        await self.store.multi(
            [
                Create(znodes.topic_path(topic), registration.encode()),
                Create(znodes.partitions_path(topic)),
                Create(znodes.partition_path(topic, 0)),
                Create(znodes.state_path(topic, 0), state),
            ]
        )

    async def returned_after_s(self, boot: str | None, *, was_clean: bool = False) -> tuple[bool, float]:
        """(Whether it may be sure, how long it took)."""
        began_s = self.loop.time()
        is_sure = await wait_until_out_of_isrs(
            self.file, boot, self.store, BROKER, was_clean=was_clean, clock=self.clock, timeout_ms=PATIENCE_MS
        )
        return is_sure, self.loop.time() - began_s


def on_a_site(scenario: Callable[[Site], Awaitable[None]]) -> None:
    async def program(loop: SimLoop) -> None:
        site = Site(loop)
        await ensure_persistent_paths(site.store)
        await scenario(site)

    simulate(1, program)


@pytest.mark.parametrize(
    ("stored", "boot", "was_clean", "waits"),
    [
        pytest.param("a", "a", False, False, id="the process died"),
        pytest.param("a", "b", False, True, id="the machine went down"),
        pytest.param("a", "b", True, False, id="stopped in order before the machine went down"),
        pytest.param(None, "b", False, True, id="nobody knows when this directory was written"),
        pytest.param(None, "b", True, False, id="stopped in order by somebody else"),
        pytest.param("a", None, False, True, id="a machine that cannot tell"),
        pytest.param("a", None, True, False, id="a machine that cannot tell, and need not"),
    ],
)
@played_by(on_a_site)
async def test_who_stays_away(site: Site, stored: str | None, boot: str | None, was_clean: bool, waits: bool) -> None:
    if stored is not None:
        await site.file.write(stored)
    await site.set_isr(2, 1)

    async def take_out() -> None:
        await asyncio.sleep(3)
        assert await site.file.read() == (stored if waits else boot or stored), "while it waits it may die"
        await site.set_isr(2)

    taking = asyncio.ensure_future(take_out())
    is_sure, took_s = await site.returned_after_s(boot, was_clean=was_clean)
    await taking
    assert is_sure
    assert (took_s >= 3) is waits
    assert took_s < 3.5
    assert await site.file.read() == (boot or stored)


@played_by(on_a_site)
async def test_some_in_sync_sets_are_no_reason_to_wait(site: Site) -> None:
    await site.set_isr(1, topic="alone in sync")
    await site.set_isr(1, topic="only replica", replicas=(1,))
    await site.set_isr(2, 3, topic="out of sync")
    await site.set_isr(2, 3, topic="of others", replicas=(2, 3))
    await site.set_isr(1, 2, topic="going")
    await site.store.create(znodes.delete_topic_path("going"))
    await site.store.create(znodes.topic_path("unreadable"), b"{")
    is_sure, took_s = await site.returned_after_s("b")
    assert is_sure
    assert took_s < 0.2


def test_it_does_not_wait_for_ever_and_does_not_hide_it(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(site: Site) -> None:
        await site.set_isr(2, 1)
        is_sure, took_s = await site.returned_after_s("b")
        assert not is_sure
        assert took_s * 1000 == pytest.approx(PATIENCE_MS, rel=0.05)

    with caplog.at_level("INFO"):
        on_a_site(scenario)
    told = [record.getMessage() for record in caplog.records if record.name == "broker.cluster.power_loss"]
    assert len(told) == 2
    assert "partitions=1 example=t-0 timeout_ms=12000" in told[0]
    assert "registering although still in the ISR" in told[1]


@played_by(on_a_site)
async def test_while_it_waits_few_states_are_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ensemble has an election to carry just then, and thousands of states may be ours to look at."""
    monkeypatch.setattr(power_loss, "STATES_PER_READ", 5)
    count, wait_s = 60, 4
    topics = [f"t{number}" for number in range(count)]
    for topic in topics:
        await site.set_isr(2, 1, topic=topic)
    reads: list[str] = []
    read_many = site.store.read_many

    async def counted(paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        reads.extend(path for path in paths if path.endswith("/state"))
        return await read_many(paths, watch)

    monkeypatch.setattr(site.store, "read_many", counted)

    async def take_out() -> None:
        for topic in topics:
            await asyncio.sleep(wait_s / count)
            await site.set_isr(2, topic=topic)

    taking = asyncio.ensure_future(take_out())
    is_sure, took_s = await site.returned_after_s("b")
    await taking
    assert is_sure
    assert wait_s <= took_s < wait_s + 1
    looks_count = wait_s / POLL_PAUSE_S + 1
    assert len(reads) < 2 * count + 2 * 5 * looks_count, "the first look, and who has left; and some each time"


@played_by(on_a_site)
async def test_a_store_that_fails_is_asked_again(site: Site) -> None:
    await site.set_isr(2)
    session = site.store.session()
    session.cut()
    asyncio.get_running_loop().call_later(1, session.mend)
    is_sure, took_s = await site.returned_after_s("b")
    assert is_sure
    assert took_s < 2


def test_the_boot_of_a_machine(tmp_path: Path) -> None:
    assert boot_id(str(tmp_path / "missing")) is None
    (tmp_path / "empty").write_text("\n")
    assert boot_id(str(tmp_path / "empty")) is None
    (tmp_path / "noise").write_bytes(b"\xff")
    assert boot_id(str(tmp_path / "noise")) is None
    if Path(BOOT_ID_FILE).exists():
        assert boot_id() == boot_id()
        assert len(boot_id() or "") == 36


# --- several brokers ---


def end_of(broker: Broker, index: int) -> int:
    log = broker.logs.find("t", index)
    return -1 if log is None else log.log_end_offset


def isr_of(broker: Broker, index: int) -> set[int]:
    found = broker.metadata.image.partition("t", index)
    return set() if found is None else set(found.isr)


@pytest.mark.parametrize("seed", range(6))
def test_what_others_in_sync_hold_outlives_a_leader_that_lost_power_and_is_back_at_once(seed: int) -> None:
    """The worst moment: the controller is cut off, so that nobody misses the leader."""

    async def program(loop: SimLoop) -> None:
        world = ClusterWorld(loop)
        await world.start()
        await world.create_topic("t", partitions=3)
        controller = world.controller_id
        index = next(index for index in range(3) if world.leader_of("t", index) != controller)
        leader = world.leader_of("t", index)
        for number in range(20):
            assert await world.produce("t", b"x", index) == (ErrorCode.NONE, number)
        world.machines[controller].cut_off()
        began_s = loop.time()
        world.machines[leader].crash(power=True)
        assert await world.machines[leader].start()
        assert loop.time() - began_s < 15
        assert world.live[leader].is_sure_of_its_logs
        world.machines[controller].reach_again()
        await world.until(lambda: all(end_of(broker, index) == 20 for broker in world.live.values()))
        await world.until(lambda: all(isr_of(broker, index) == {1, 2, 3} for broker in world.live.values()))
        assert [end_of(broker, index) for broker in world.live.values()] == [20] * 3

    simulate(seed, program)


@simulated(1)
async def test_a_process_that_died_is_back_at_once(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("t", partitions=3)
    controller = world.controller_id
    other = controller % 3 + 1
    world.machines[controller].cut_off()
    world.machines[other].crash()
    starting = world.machines[other].start()
    broker = world.machines[other].broker
    assert broker is not None
    began_s = loop.time()
    await world.until(lambda: broker.broker_epoch >= 0)
    assert loop.time() - began_s < 1, "nobody is waited for"
    world.machines[controller].reach_again()
    assert await starting


@simulated(1)
async def test_a_stop_while_it_waits_does_not_make_it_forget(loop: SimLoop) -> None:
    """A clean stop means that nothing was lost since the start, not before it."""
    world = ClusterWorld(loop, (1, 2))
    await world.start()
    await world.create_topic("t", replicas=2)
    assert await world.produce("t", b"x") == (ErrorCode.NONE, 0)
    for machine in world.machines.values():
        machine.crash(power=True)
    machine = world.machines[1]
    for _ in range(2):
        # As `broker.process` does it when it is told to stop early.
        filesystem, network = machine.storage.boot(), world.network.node("host1")
        doors = Dependencies(
            machine.clock, loop.random, filesystem, SimDisk(loop), network, machine.store_opener(filesystem, network),
            boot_id=lambda: "the next boot",
        )  # fmt: skip
        broker = Broker(machine._settings, doors)
        starting = asyncio.ensure_future(broker.start())
        await world.until(lambda broker=broker: broker.phase.startswith("waiting to leave ISRs"))  # type: ignore[misc]
        await asyncio.sleep(1)
        assert broker.broker_epoch == -1
        starting.cancel()
        await asyncio.wait([starting])
        await broker.stop()
        assert not doors.filesystem.exists("/data/.kafka_cleanshutdown")
