"""One history of share groups: brokers, producers, members and faults from one seed, then peace, then the reckoning.

    make topics and settings -> producers, members and faults -> quiet: producers end -> members accept all that is left
    -> leaders and coordinators restart, and nothing comes again -> members leave -> read all and judge -> stop ->
    compare the files of the replicas, and judge the logs of the coordinators

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio

from tests.simulation.clients.admin import Admin
from tests.simulation.clients.producer import Producer
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.history import PEACE_S, healed, reckon
from tests.simulation.disk_survey import partition_logs
from tests.simulation.history import Client, Outcome, all_through, play, raise_in
from tests.simulation.shares.checkers.states import wrong_states
from tests.simulation.shares.clients.auditor import Auditor
from tests.simulation.shares.clients.member import ShareMember
from tests.simulation.shares.clients.operator import make_settings
from tests.simulation.shares.clients.resetter import Resetter
from tests.simulation.shares.clients.transactor import Transactor
from tests.simulation.shares.clients.trimmer import Trimmer
from tests.simulation.shares.faults import ShareFaults
from tests.simulation.shares.observer import observing_shares
from tests.simulation.shares.plan import RESET, TRIMMED
from tests.simulation.shares.world import ShareWorld

QUIET_S = 90.0
AFTERWARDS_S = 6.0
"""In which nothing may come again."""


def run(seed: int) -> Outcome:
    """The history of `seed`."""
    return play(seed, ShareWorld, observing_shares, _story)


async def _story(world: ShareWorld) -> None:
    rng, loop = world.random, world.loop
    plans = world.groups_planned.values()
    members: list[Client] = [
        (Resetter if plan.name == RESET else ShareMember)(world, f"{plan.name}{n}", plan)
        for plan in plans
        for n in range(plan.members_count)
    ]
    producers: list[Client] = [Producer(world, f"producer{n}", acks=-1, is_idempotent=True) for n in range(2)]
    producers += [Transactor(world, f"transactor{n}") for n in range(2)]
    auditor = Auditor(world, "auditor")
    admin = Admin(world, "admin")
    producers.append(Trimmer(world, "trimmer", admin, TRIMMED))
    faults = ClusterFaults(world, [client.name for client in (*members, *producers)])
    await faults.start()
    await admin.make_topics()
    world.topic_ids[world.transactional.name] = await admin.make(world.transactional)
    for plan in plans:
        await make_settings(world, "operator", plan)
    running = [loop.create_task(each.run(), name=each.name) for each in members]
    writing = [loop.create_task(each.run(), name=each.name) for each in producers]
    auditing = loop.create_task(auditor.run(), name=auditor.name)
    for task in (*running, *writing, auditing):
        task.add_done_callback(raise_in(world))
    within_s = rng.uniform(20, 40)
    await asyncio.gather(
        faults.run(rng.randint(2, 5), within_s), ShareFaults(world, faults.victims).run(rng.randint(2, 5), within_s)
    )
    await asyncio.sleep(PEACE_S)
    world.is_quiet = True
    loop.note("quiet")
    await all_through(world, writing, within_s=QUIET_S)
    world.producers_are_done = True
    await all_through(world, [auditing], within_s=QUIET_S)
    await _move_all(world, faults)
    await asyncio.sleep(AFTERWARDS_S)
    world.is_over = True
    await all_through(world, running, within_s=QUIET_S)
    await healed(world)
    _judge(world)
    starts = world.pruned_starts()
    await reckon(world)
    for broker_id, machine in world.machines.items():
        logs = partition_logs(machine.storage, durable=True)
        for key, start in starts.items():
            kept = [batch for batch in logs.get(key, ()) if batch.base_offset >= start]
            for what in wrong_states(kept, lambda group: world.groups_planned[group].limit):
                world.report(f"broker {broker_id}: {key}: {what}")
    world.coverage["virtual seconds"] += round(loop.time())


async def _move_all(world: ShareWorld, faults: ClusterFaults) -> None:
    """Nothing but what was written tells the next leaders and coordinators what is done."""
    for broker_id in world.running():
        if world.random.random() < 0.5:
            with world.fault(f"broker {broker_id} restarts when all is done"):
                await faults.restart(broker_id)


def _judge(world: ShareWorld) -> None:
    for group in world.groups_planned:
        for key in world.keys_of(group):
            known = world.known(key)
            undone = world.deliveries.undone(group, key, known)
            world.count("records finished", len(known) - len(undone))
            for offset, why in undone.items():
                world.report(
                    f"{group}: {key} {offset} ({known[offset][:40]!r}) is lost: {why}; {len(undone)} of {len(known)}"
                )
