"""One history of the relay: brokers, processes of the relay, clients and faults from one seed, then peace, then the reckoning.

    make topics -> relays, clients and faults -> quiet: clients end -> the relay's clocks go forward by a year in some steps ->
    everything must have come -> relays stop -> read all and judge -> brokers stop

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from relay.relaying import session
from tests.simulation.clients.admin import Admin
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.history import PEACE_S, healed
from tests.simulation.cluster.observer import observing
from tests.simulation.history import Client, Outcome, all_through, play, raise_in
from tests.simulation.machine import End
from tests.simulation.relays.checkers.early import early
from tests.simulation.relays.checkers.intact import altered
from tests.simulation.relays.checkers.order import out_of_order
from tests.simulation.relays.checkers.outcomes import Outcomes, lost
from tests.simulation.relays.clients.operator import RuleOperator
from tests.simulation.relays.clients.scheduler import Scheduler
from tests.simulation.relays.clients.worker import Worker
from tests.simulation.relays.expected import due_ms
from tests.simulation.relays.facts import Finals
from tests.simulation.relays.faults import RelayFaults
from tests.simulation.relays.plan import AGAIN, FRAGILE, LATER, SOON
from tests.simulation.relays.reading import CommittedReader
from tests.simulation.relays.world import RelayWorld

QUIET_S = 90.0
SETTLE_S = 90.0
"""In which everything that is due must have come, once nothing is wrong any more."""
LOOK_S = 0.5
CLEANUP_S = 4.0
AFTERWARDS_S = 3.0
"""In which nothing may come twice."""
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
AHEAD_MS = (2 * MINUTE_MS, 30 * HOUR_MS, 40 * DAY_MS, 370 * DAY_MS)
SOON_LATE_MS = 250


def run(seed: int) -> Outcome:
    """The history of `seed`."""
    with _frequent_cleanups():
        return play(seed, RelayWorld, observing, _story)


@contextmanager
def _frequent_cleanups() -> Iterator[None]:
    """A history is short, and its rules change often: buckets are cleaned up all the same."""
    before = session.CLEANUP_S
    session.CLEANUP_S = CLEANUP_S  # type: ignore[misc]
    try:
        yield
    finally:
        session.CLEANUP_S = before  # type: ignore[misc]


def _clients(world: RelayWorld) -> list[Client]:
    """Of the sources that clients produce into, one has transactions."""
    found: list[Client] = [
        Scheduler(world, "later0", LATER),
        Scheduler(world, "later1", LATER),
        Scheduler(world, "soon0", SOON).unobserved(),
        Scheduler(world, "soon1", SOON, is_transactional=True),
        Scheduler(world, "again0", AGAIN),
        Worker(world, "worker"),
        RuleOperator(world, "operator"),
    ]
    if FRAGILE in world.rules:
        found.append(Scheduler(world, "fragile0", FRAGILE))
    return found


async def _story(world: RelayWorld) -> None:
    rng, loop = world.random, world.loop
    clients = _clients(world)
    names = [*(client.name for client in clients), *(machine.name for machine in world.relays)]
    faults, relay_faults = ClusterFaults(world, names), RelayFaults(world)
    await faults.start()
    await Admin(world, "admin").make_topics()
    for machine in world.relays:
        machine.start()
    running = [loop.create_task(each.run(), name=each.name) for each in clients]
    keeper = loop.create_task(relay_faults.keep(), name="keeper")
    for task in (*running, keeper):
        task.add_done_callback(raise_in(world))
    within_s = rng.uniform(20, 40)
    await asyncio.gather(
        faults.run(rng.randint(1, 4), within_s),
        relay_faults.run(rng.randint(3, 7), within_s),
    )
    await asyncio.sleep(PEACE_S)
    world.is_quiet = True
    loop.note("quiet")
    await all_through(world, running, within_s=QUIET_S)
    await _settle(world)
    keeper.cancel()
    for machine in world.relays:
        await machine.stop()
    await _judge(world)
    await healed(world)
    for broker in world.machines.values():
        ended = await broker.stop()
        if ended.how is not End.STOPPED:
            world.report(f"{broker.name} did not stop: {ended.reason}")
    world.coverage["virtual seconds"] += round(loop.time())


async def _settle(world: RelayWorld) -> None:
    """Everything is taken in; then time passes until everything is due, and something has come of each record."""
    sources, outputs = _readers(world)
    await sources.advance()
    while sources.has_open_transactions and not world.is_excused:  # they end with their timeouts
        await asyncio.sleep(LOOK_S)
        await sources.advance()
    if not await _within(world, lambda: _all_taken_in(world, sources)):
        world.report("not everything is taken in, though nothing is wrong any more")
        return
    for ahead_ms in AHEAD_MS:
        for machine in world.relays:
            machine.set_clock(ahead_ms)
        await asyncio.sleep(world.random.uniform(1.0, 5.0))

    async def unsettled() -> Outcomes:
        await outputs.advance()
        return _outcomes(world, Finals(sources.found, outputs.found))

    deadline_s = world.loop.time() + SETTLE_S
    outcomes = await unsettled()
    while outcomes.unsettled and world.loop.time() < deadline_s:
        await asyncio.sleep(1.0)
        outcomes = await unsettled()
    if not world.is_excused:
        for what in lost(outcomes):
            world.report(f"{what}; ready are {[each.name for each in world.relays if each.is_ready]}")
    await asyncio.sleep(AFTERWARDS_S)


async def _within(world: RelayWorld, holds: Callable[[], bool]) -> bool:
    for _ in range(round(SETTLE_S / LOOK_S)):
        if holds():
            return True
        await asyncio.sleep(LOOK_S)
    return holds() or world.is_excused


def _all_taken_in(world: RelayWorld, sources: CommittedReader) -> bool:
    """While ids of what was delivered are remembered: after the clocks have gone forward they are not."""
    for key, records in sources.found.items():
        position = max((position for _, position in world.known.taken.get(key, ())), default=0)
        if records and position <= records[-1].offset:
            return False
    return True


def _readers(world: RelayWorld) -> tuple[CommittedReader, CommittedReader]:
    """Of the source topics, and of what the relay writes; not of a target that was deleted."""
    fragile = world.rules[FRAGILE].target if FRAGILE in world.rules else None
    outputs = [topic for topic in world.relay_plan.outputs if topic != fragile]
    return (
        CommittedReader(world, "judge of sources", world.keys_of(world.rules)),
        CommittedReader(world, "judge of outputs", world.keys_of(outputs)),
    )


def _outcomes(world: RelayWorld, finals: Finals) -> Outcomes:
    outcomes = Outcomes(finals, world.known, world.rules, forgets=world.are_clocks_set)
    outcomes.judge(fragile=FRAGILE)
    return outcomes


async def _judge(world: RelayWorld) -> None:
    """Read everything and compare it with what was produced."""
    sources, outputs = _readers(world)
    await sources.advance()
    await outputs.advance()
    finals = Finals(sources.found, outputs.found)
    outcomes = _outcomes(world, finals)
    for what, count in outcomes.met.items():
        world.count(f"outcome: {what}", count)
    _count_punctual(world, finals)
    if world.is_excused:  # records that were delivered may be gone from their sources, and others be in their places
        world.count("histories in which every replica lost power")
        return
    found = [*early(finals, world.known, world.rules), *out_of_order(finals, world.known, world.rules)]
    found += [*outcomes.wrong, *lost(outcomes), *altered(finals, world.rules)]
    for what in found:
        world.report(what)


def _count_punctual(world: RelayWorld, finals: Finals) -> None:
    """Whether records come on time as well, where nothing is wrong."""
    sources = {each.value: each for records in finals.sources.values() for each in records}
    for records in finals.outputs.values():
        for stored in records:
            source = sources.get(stored.value)
            due = None if source is None else due_ms(source, world.rules[source.topic])
            if source is not None and due is not None and due > source.record.timestamp:
                late_ms = stored.record.timestamp - due
                world.count("records delivered on time" if late_ms <= SOON_LATE_MS else "records delivered late")
