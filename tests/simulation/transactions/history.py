"""One history of transactions: of one broker, or of a cluster.

    make topics -> producers, processors, readers and faults -> quiet: every transactional id must commit once more -> nothing
    may stay open longer than its timeout -> readers get to the end -> read all and judge -> stop

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from protocol.topic_partition import TopicPartition
from tests.simulation.clients.admin import Admin
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.history import healed
from tests.simulation.cluster.observer import observing
from tests.simulation.coverage import watching
from tests.simulation.faults import Faults
from tests.simulation.history import Client, Outcome, all_through, play, raise_in
from tests.simulation.line import Line, Unavailable
from tests.simulation.machine import End, Machine
from tests.simulation.transactions.checkers.duplicates import duplicates
from tests.simulation.transactions.checkers.hanging import hanging, wrong_markers
from tests.simulation.transactions.checkers.late_markers import late_markers
from tests.simulation.transactions.checkers.lost_writes import lost_writes
from tests.simulation.transactions.checkers.torn_transactions import torn_transactions
from tests.simulation.transactions.clients.auditor import Auditor
from tests.simulation.transactions.clients.processor import Processor, input_of
from tests.simulation.transactions.clients.producers import TIMEOUTS_MS, Producer
from tests.simulation.transactions.clients.reader import Reader
from tests.simulation.transactions.clients.straggler import Straggler
from tests.simulation.transactions.fetching import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    end_of_log,
    fetch_all,
    fetch_committed,
)
from tests.simulation.transactions.final_logs import FinalLogs
from tests.simulation.transactions.observer import watching_transactions
from tests.simulation.transactions.plan import INPUT, LEVELS_AT, LEVELS_EVERY, OUTPUT
from tests.simulation.transactions.records import ReadRecord
from tests.simulation.transactions.scene import Scene
from tests.simulation.transactions.worlds import TransactionBrokerWorld, TransactionClusterWorld

PEACE_S = 6.0  # between the last fault and the end of the clients' work
QUIET_S = 60.0
WHOLE_LOG_BYTES = 1 << 24
TIMED_OUT_S = max(TIMEOUTS_MS) / 1_000 + 10.0  # in which nothing is open any more, with the coordinator's interval


def run(seed: int) -> Outcome:
    """The history of `seed`, with one broker."""
    return play(seed, TransactionBrokerWorld, watching, _story_of_one)


def run_cluster(seed: int) -> Outcome:
    """The history of `seed`, in a cluster."""
    return play(seed, TransactionClusterWorld, observing, _story_of_cluster)


def run_with_levels(seed: int) -> Outcome:
    """The one of `run` that is the `seed`-th where the end of each transaction raises the epoch."""
    return run(seed * LEVELS_EVERY + LEVELS_AT)


def run_cluster_with_levels(seed: int) -> Outcome:
    return run_cluster(seed * LEVELS_EVERY + LEVELS_AT)


async def _story_of_one(world: TransactionBrokerWorld) -> None:
    scene = Scene(world, in_cluster=False)
    with watching_transactions(scene):
        await _story(scene, lambda names: Faults(world, names), [world.machine])


async def _story_of_cluster(world: TransactionClusterWorld) -> None:
    scene = Scene(world, in_cluster=True)
    with watching_transactions(scene):
        await _story(
            scene,
            lambda names: ClusterFaults(world, names),
            list(world.machines.values()),
            healed=lambda: healed(world),
            straggler=Straggler(scene, world) if scene.ends_raise_epoch else None,
        )


async def _story(
    scene: Scene,
    make_faults: Callable[[list[str]], Faults | ClusterFaults],
    machines: Sequence[Machine],
    *,
    healed: Callable[[], Awaitable[None]] | None = None,
    straggler: Straggler | None = None,
) -> None:
    world, rng, loop = scene.world, scene.world.random, scene.world.loop
    inputs = [key for key in world.keys if key[0] == INPUT]
    outputs = [key for key in world.keys if key[0] == OUTPUT]
    producers = [Producer(scene, f"tx{n}") for n in range(rng.randint(2, 3))]
    processors = [Processor(scene, f"proc{n}", rng.choice(inputs), outputs) for n in range(rng.randint(1, 2))]
    readers = [Reader(scene, f"reader{n}", rng.choice(world.keys)) for n in range(2)]
    auditor = Auditor(scene, "auditor", [processor.key for processor in processors])
    applications: list[Client] = [*producers, *processors, auditor, *([straggler] if straggler else [])]
    faults = make_faults([client.name for client in (*applications, *readers)])
    await faults.start()
    await Admin(world, "admin").make_topics()
    running = [loop.create_task(each.run(), name=each.name) for each in applications]
    reading = [loop.create_task(reader.run(), name=reader.name) for reader in readers]
    for task in (*running, *reading):
        task.add_done_callback(raise_in(world))
    await faults.run(rng.randint(4, 8), rng.uniform(20, 40))
    await asyncio.sleep(PEACE_S)
    world.is_quiet = True
    loop.note("quiet")
    await all_through(world, running, within_s=QUIET_S)
    line = world.line("judge")
    await _nothing_open(scene, line)
    world.producers_are_done = True
    await all_through(world, reading, within_s=QUIET_S)
    if healed is not None:
        await healed()
    await _judge(scene, line, processors)
    for machine in machines:
        ended = await machine.stop()
        if ended.how is not End.STOPPED:
            world.report(f"{machine.name} did not stop: {ended.reason}")
    world.coverage["virtual seconds"] += round(loop.time())


async def _nothing_open(scene: Scene, line: Line) -> None:
    """The last stable offset of every partition reaches its high watermark, once what was left open has timed out."""
    world = scene.world
    deadline_s = world.loop.time() + TIMED_OUT_S
    unstable: dict[TopicPartition, tuple[int | None, int | None]] = {}
    while world.loop.time() < deadline_s:
        unstable = {}
        for key in world.keys:
            try:
                stable, end = [
                    await end_of_log(scene, line, key, level) for level in (READ_COMMITTED, READ_UNCOMMITTED)
                ]
            except Unavailable:
                stable = end = None
            if stable is None or stable != end:
                unstable[key] = (stable, end)
        if not unstable:
            return
        await line.pause()
    world.report(f"hanging transaction: {TIMED_OUT_S} s after the last client, (stable, end) are {unstable}")


async def _judge(scene: Scene, line: Line, processors: list[Processor]) -> None:
    """Read everything and compare it with what the clients know."""
    world, ledger, logs = scene.world, scene.ledger, FinalLogs()
    for key in world.keys:
        await _read(scene, line, key, logs)
    if world.broken.done():
        return
    for processor in processors:
        await processor.committed_offset()
    found = [*hanging(logs), *duplicates(logs), *late_markers(logs, ends_raise_epoch=scene.ends_raise_epoch)]
    if scene.is_excused:
        world.count("histories in which every replica lost power")
    else:
        found += [*torn_transactions(ledger, logs), *lost_writes(ledger, logs), *wrong_markers(ledger, logs)]
        found += scene.polls.differences(logs)
        found += scene.offsets.disagreements(logs)
        for processor in processors:
            found += scene.offsets.not_exactly_once(processor.key, logs, input_of)
    for what in found:
        world.report(what)


async def _read(scene: Scene, line: Line, key: TopicPartition, logs: FinalLogs) -> None:
    ends = [await _end(scene, line, key, level) for level in (READ_UNCOMMITTED, READ_COMMITTED)]
    records: list[ReadRecord] = []
    committed: list[tuple[int, str]] = []
    fetch_whole = partial(
        fetch_committed, max_bytes=WHOLE_LOG_BYTES
    )  # so that aborted transactions have all of their records
    for is_committed, fetch in ((False, fetch_all), (True, fetch_whole)):
        position = 0
        while position < ends[is_committed]:
            try:
                fetched = await fetch(scene, line, "judge", key, position)
            except Unavailable:
                fetched = None
            if fetched is None:
                await line.pause()
                continue
            if fetched.position == position:
                scene.world.report(f"reading {key} at {position} of {ends[is_committed]} gave nothing")
                return
            position = fetched.position
            if is_committed:
                committed += fetched.records
            else:
                records += fetched.raw
    logs.add(key, records, committed, *ends)


async def _end(scene: Scene, line: Line, key: TopicPartition, level: int) -> int:
    while True:
        try:
            end = await end_of_log(scene, line, key, level)
        except Unavailable:
            end = None
        if end is not None:
            return end
        await line.pause()
