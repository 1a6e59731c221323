"""One history of a cluster: brokers, clients and faults from one seed, then peace, then the reckoning.

    make topics -> clients and faults, 30 to 60 s -> calm: the cluster heals, everybody must get through -> read all
    -> stop -> compare the files of the replicas

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio

from protocol.topic_partition import TopicPartition
from tests.simulation.clients.admin import Admin
from tests.simulation.clients.committer import Committer
from tests.simulation.clients.consumer import EARLIEST, LATEST, Consumer
from tests.simulation.clients.member import Member
from tests.simulation.clients.producer import Producer
from tests.simulation.cluster.checkers.expiry import GRACE_MS
from tests.simulation.cluster.checkers.logs import ClusterLogChecker
from tests.simulation.cluster.clients.mover import Mover
from tests.simulation.cluster.clients.operator import Operator
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.observer import observing
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.disk_survey import FoundBatch, partition_logs
from tests.simulation.history import Client, Outcome, all_through, play, raise_in
from tests.simulation.line import Unavailable
from tests.simulation.machine import End

PEACE_S = 6.0  # between the last fault and the end of the clients' work
HEAL_S = 40.0  # every replica must be in sync by then
QUIET_S = 60.0


def run(seed: int) -> Outcome:
    """The history of `seed`."""
    return play(seed, ClusterWorld, observing, _story)


def run_over_server(seed: int) -> Outcome:
    """The history of `seed`, of brokers that have a store server."""
    return play(seed, lambda loop: ClusterWorld(loop, has_server=True), observing, _story)


async def _story(world: ClusterWorld) -> None:
    rng, loop = world.random, world.loop
    admin = Admin(world, "admin")
    admins: list[Client] = [admin, Operator(world, "operator")]
    if len(world.plan.log_directories) > 1:
        admins.append(Mover(world, "mover"))
    consumers = [Consumer(world, f"consumer{n}", keys=[rng.choice(world.keys)], in_cluster=True) for n in range(3)]
    producers = [
        Producer(world, f"producer{n}", acks=rng.choice((-1, -1, 1, 0)), is_idempotent=n % 2 == 0) for n in range(3)
    ]
    committers = [Committer(world, f"committer{n}") for n in range(2)]
    members = [Member(world, f"member{n}", instance_id="static" if n == 2 else None) for n in range(rng.randint(1, 3))]
    writers: list[Client] = [*producers, *committers, *members]
    faults = ClusterFaults(world, [client.name for client in (*consumers, *writers)])
    await faults.start()
    await admin.make_topics()
    running = [loop.create_task(each.run(), name=each.name) for each in (*writers, *admins)]
    reading = [loop.create_task(consumer.run(), name=consumer.name) for consumer in consumers]
    for task in (*running, *reading):
        task.add_done_callback(raise_in(world))
    await faults.run(rng.randint(5, 9), rng.uniform(20, 40))
    await asyncio.sleep(PEACE_S)
    world.is_quiet = True
    loop.note("quiet")
    await all_through(world, running, within_s=QUIET_S)
    world.producers_are_done = True
    await all_through(world, reading, consumers, within_s=QUIET_S)
    await healed(world)
    assert isinstance(world.logs, ClusterLogChecker)
    if world.logs.expiry is not None:
        await asyncio.sleep(GRACE_MS / 1000)
    await reckon(world)
    world.coverage["virtual seconds"] += round(loop.time())


async def healed(world: ClusterWorld) -> None:
    """Every partition has a leader, and all of its replicas are in sync."""
    deadline_s = world.loop.time() + HEAL_S
    while world.loop.time() < deadline_s:
        if not world.unhealed():
            return
        await asyncio.sleep(0.2)
    world.report(f"not healed {HEAL_S} s after everybody is done: {world.unhealed()}")


async def reckon(world: ClusterWorld) -> None:
    """Read everything, stop, and compare the files."""
    assert isinstance(world.logs, ClusterLogChecker)
    starts = world.pruned_starts()
    for key in world.keys:
        reader = Consumer(world, f"reader-{key[0]}-{key[1]}", keys=[key], in_cluster=True)
        try:
            start, end = await reader.list_offset(key, EARLIEST), await reader.list_offset(key, LATEST)
            if start is None or end is None:
                world.report(f"{key} does not tell its ends")
                return
            starts[key] = start
            world.logs.at_rest(key, start, await reader.read_all(key, start, end), end)
        except Unavailable:
            world.report(f"{key} cannot be read")
            return
    replicas = {key: world.states.states[key].isr for key in world.all_keys() if key in world.states.states}
    for broker_id, machine in world.machines.items():
        ended = await machine.stop()
        if ended.how is not End.STOPPED:
            world.report(f"broker {broker_id} did not stop: {ended.reason}")
    files = {
        broker_id: partition_logs(machine.storage, durable=True, starts=starts)
        for broker_id, machine in world.machines.items()
    }
    for key, isr in replicas.items():
        if key[0] in world.compacted:
            continue
        world.logs.replicas_at_rest(key, _logs_of(key, isr, files))


def _logs_of(
    key: TopicPartition,
    broker_ids: list[int] | tuple[int, ...],
    files: dict[int, dict[TopicPartition, list[FoundBatch]]],
) -> dict[int, list[FoundBatch]]:
    return {broker_id: files[broker_id].get(key, []) for broker_id in broker_ids}
