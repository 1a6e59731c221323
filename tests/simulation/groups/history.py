"""One history of groups in a cluster: brokers, producers, services and faults from one seed, then peace, then the
reckoning.

    make topics -> producers, services and faults -> quiet: producers end -> a coordinator restarts -> every group gets
    stable, and its members read and commit everything -> they leave -> read all -> stop -> compare the files of the
    replicas, and judge the logs of the groups

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from client.membership.contract import GroupProtocol
from tests.simulation.clients.admin import Admin
from tests.simulation.clients.producer import Producer
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.history import PEACE_S, healed, reckon
from tests.simulation.cluster.observer import observing
from tests.simulation.disk_survey import partition_logs
from tests.simulation.groups.checkers.records import wrong_records
from tests.simulation.groups.clients.service import Service
from tests.simulation.groups.world import GroupWorld
from tests.simulation.history import Client, Outcome, all_through, play, raise_in

QUIET_S = 90.0
CONSUMER, CLASSIC = GroupProtocol.CONSUMER, GroupProtocol.CLASSIC


def run(seed: int) -> Outcome:
    """The history of `seed`."""
    return play(seed, GroupWorld, observing, _story)


def _services(world: GroupWorld) -> list[Service]:
    rng = world.random
    found = [
        Service(world, f"new{n}", "new", [CONSUMER], instance_id="static" if n == 2 else None)
        for n in range(rng.randint(2, 4))
    ]
    found += [Service(world, f"old{n}", "old", [CLASSIC]) for n in range(rng.randint(0, 2))]
    found += [Service(world, f"mixed{n}", "mixed", [CONSUMER, CLASSIC]) for n in range(rng.choice((0, 2, 3)))]
    world.services = {each.name for each in found}
    return found


async def _story(world: GroupWorld) -> None:
    rng, loop = world.random, world.loop
    services = _services(world)
    producers: list[Client] = [Producer(world, f"producer{n}", acks=-1, is_idempotent=True) for n in range(2)]
    faults = ClusterFaults(world, [client.name for client in (*services, *producers)])
    await faults.start()
    await Admin(world, "admin").make_topics()
    writing = [loop.create_task(each.run(), name=each.name) for each in producers]
    reading = [loop.create_task(each.run(), name=each.name) for each in services]
    for task in (*writing, *reading):
        task.add_done_callback(raise_in(world))
    await faults.run(rng.randint(4, 8), rng.uniform(20, 40))
    await asyncio.sleep(PEACE_S)
    world.is_quiet = True
    loop.note("quiet")
    await all_through(world, writing, within_s=QUIET_S)
    await _move_a_coordinator(world, faults, [each.group for each in services])
    world.producers_are_done = True
    await all_through(world, reading, within_s=QUIET_S)
    await healed(world)
    for group in sorted({each.group for each in services}):
        for key in world.keys:
            world.progress.at_rest(group, key, world.logs.partitions[key].known)
    await reckon(world)
    for broker_id, machine in world.machines.items():
        for key, batches in partition_logs(machine.storage, durable=True).items():
            if key in world.internal_keys():
                for what in wrong_records(batches):
                    world.report(f"broker {broker_id}: {key}: {what}")
    world.coverage["virtual seconds"] += round(loop.time())


async def _move_a_coordinator(world: GroupWorld, faults: ClusterFaults, groups: Sequence[str]) -> None:
    """Of a group that nobody joins or leaves any more: nothing but what was written tells the next one who has what."""
    group = world.random.choice(groups)
    for broker_id in [each for each in world.running() if world.is_group_coordinator(each, group)]:
        with world.fault(f"the coordinator of {group} restarts"):
            await faults.restart(broker_id)
