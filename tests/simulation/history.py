"""One history: a broker, its clients and its faults from one seed, then peace, then the reckoning.

    make topics -> clients and faults, 30 to 60 s -> quiet: everybody must get through -> read all -> stop -> read the files

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.network.responses import response_queue
from protocol.topic_partition import TopicPartition
from storage.log.reading import log_reader
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.clients.admin import Admin
from tests.simulation.clients.committer import Committer
from tests.simulation.clients.consumer import EARLIEST, LATEST, Consumer
from tests.simulation.clients.member import Member
from tests.simulation.clients.producer import Producer
from tests.simulation.coverage import watching
from tests.simulation.disk_survey import partition_logs
from tests.simulation.faults import Faults
from tests.simulation.line import Unavailable
from tests.simulation.loop import Deadlock, SimLoop, simulate
from tests.simulation.machine import End
from tests.simulation.world import BareWorld, Violation, World, broker_log, quiet_logging

QUIET_S = 40.0  # everybody must have got through by then
LEAST_RANGE_BYTES = 400
LONGEST_S = 600.0  # of any history: one that goes on has somebody who waits for what never comes
PEACE_S = 6.0  # between the last fault and the end of the clients' work


@dataclass(slots=True)
class Outcome:
    seed: int
    violation: str | None
    digest: str
    virtual_s: float
    coverage: Counter[str]
    lines: list[str]


def run(seed: int) -> Outcome:
    """The history of `seed`."""
    return play(seed, BrokerWorld, watching, _story)


W = TypeVar("W", bound=BareWorld)


def play(
    seed: int,
    make: Callable[[SimLoop], W],
    watch: Callable[[W], AbstractContextManager[None]],
    story: Callable[[W], Coroutine[Any, Any, None]],
) -> Outcome:
    """Make a world and let the story happen in it, until its end or the first broken promise."""
    world: W | None = None

    async def program(loop: SimLoop) -> None:
        nonlocal world
        world = make(loop)
        with broker_log(world), watch(world):
            await _watched(world, story(world))
        world.count("ranges of files sent", world.network.ranges_count)

    violation = None
    try:
        with quiet_logging(), short_ranges():  # what is said while the loop closes
            simulate(seed, program)
    except Violation as error:
        violation = str(error)
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this seed
        violation = repr(_first(error)) if world is None or not world.broken.done() else world.broken.result()
    assert world is not None
    loop = world.loop
    return Outcome(seed, violation, loop.trace.digest(), loop.time(), world.coverage, loop.trace.lines)


def _first(error: BaseException) -> BaseException:
    """What went wrong, of what followed while the loop was closed."""
    return _first(error.__context__) if isinstance(error, Deadlock) and error.__context__ is not None else error


@contextmanager
def short_ranges() -> Iterator[None]:
    """What a history writes is short: responses leave as ranges of files all the same."""
    before = log_reader.RANGE_BYTES, response_queue.JOINED_WRITE_BYTES
    log_reader.RANGE_BYTES, response_queue.JOINED_WRITE_BYTES = LEAST_RANGE_BYTES, LEAST_RANGE_BYTES
    try:
        yield
    finally:
        log_reader.RANGE_BYTES, response_queue.JOINED_WRITE_BYTES = before


async def _watched(world: BareWorld, story: Coroutine[Any, Any, None]) -> None:
    """Raises Violation."""
    telling = asyncio.ensure_future(story)
    ended, _ = await asyncio.wait((telling, world.broken), timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
    if not ended:
        world.report(f"the history goes on after {LONGEST_S} s")
    if world.broken.done():
        telling.cancel()
        await asyncio.wait((telling,))
        raise Violation(world.broken.result())
    telling.result()


class Client(Protocol):
    name: str

    async def run(self) -> None: ...


async def _story(world: BrokerWorld) -> None:
    rng, loop = world.random, world.loop
    admin = Admin(world, "admin")
    consumers = [Consumer(world, f"consumer{n}") for n in range(rng.randint(2, 3))]
    consumers.append(Consumer(world, "consumer-one", keys=[rng.choice(world.keys)]))
    producers = [
        Producer(world, f"producer{n}", acks=rng.choice((-1, 1, 1, 0)), is_idempotent=n % 2 == 0) for n in range(4)
    ]
    committers = [Committer(world, f"committer{n}") for n in range(2)]
    members = [Member(world, f"member{n}", instance_id="static" if n == 2 else None) for n in range(rng.randint(1, 3))]
    writers: list[Client] = [*producers, *committers, *members]
    faults = Faults(world, [client.name for client in (*consumers, *writers)])
    await faults.start()
    await admin.make_topics()
    running = [loop.create_task(each.run(), name=each.name) for each in (*writers, admin)]
    reading = [loop.create_task(consumer.run(), name=consumer.name) for consumer in consumers]
    for task in (*running, *reading):
        task.add_done_callback(raise_in(world))
    await faults.run(rng.randint(5, 9), rng.uniform(20, 40))
    await asyncio.sleep(PEACE_S)
    world.is_quiet = True
    loop.note("quiet")
    await all_through(world, running)
    world.producers_are_done = True
    await all_through(world, reading, consumers)
    await _reckon(world)
    world.coverage["virtual seconds"] += round(loop.time())


def raise_in(world: BareWorld) -> Callable[[asyncio.Future[None]], None]:
    def done(task: asyncio.Future[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            world.report("a client failed: " + "".join(traceback.format_exception(error)))

    return done


async def all_through(
    world: World, tasks: list[asyncio.Task[None]], consumers: list[Consumer] | None = None, *, within_s: float = QUIET_S
) -> None:
    _, late = await asyncio.wait(tasks, timeout=within_s)
    if late:
        names = sorted(task.get_name() for task in late)
        behind = [consumer.backlog() for consumer in consumers or () if consumer.backlog()]
        world.report(f"{', '.join(names)} cannot finish, {within_s} s after the last fault {behind or ''}")
        await asyncio.Event().wait()


async def _reckon(world: BrokerWorld) -> None:
    """Read everything, stop, and look at the files."""
    reader = Consumer(world, "reader", keys=[])
    ends: dict[TopicPartition, tuple[int, int]] = {}
    for key in world.keys:
        try:
            start, end = await reader.list_offset(key, EARLIEST), await reader.list_offset(key, LATEST)
        except Unavailable:
            world.report(f"{key} cannot be asked for its ends")
            return
        if start is None or end is None:
            world.report(f"{key} does not tell its ends")
            return
        ends[key] = (start, end)
        world.logs.at_rest(key, start, await reader.read_all(key, start, end), end)
    ended = await world.machine.stop()
    if ended.how is not End.STOPPED:
        world.report(f"the broker did not stop: {ended.reason}")
    for key, batches in partition_logs(world.machine.storage, durable=True).items():
        if key in ends:
            world.logs.batches_at_rest(key, batches)
            if not batches or batches[-1].next_offset != ends[key][1]:
                world.count("empty logs at the end")
