"""What goes wrong only when several things meet, which chance alone brings about too seldom: each is the story of a known
danger, told of whichever brokers are there at the time.

    late_requests       what a former controller, or a life before, was still being told arrives only now
    controller_deposed  another controller is elected while the one before it is in the middle of its work
    unseen_power_loss   a leader loses power and is back before anybody could take it out of its in-sync sets
    one_at_a_time       the replicas of a partition lead in turns, none of which hears of the other (KIP-279)
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from protocol.errors import ErrorCode
from tests.simulation.clients.wire import Wire
from tests.simulation.cluster.victims import Victims
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.line import Unavailable

STRAGGLER = "straggler"
LATE_REQUESTS_MAX = 8  # to one broker at a time
ANSWER_TIMEOUT_S = 1.0
START_S = 0.5  # in which a broker has most often found its place again
AT_WORK_S = 0.02  # how long a controller is busy with a broker that is gone, or a little longer
SHORTER_THAN_A_SESSION_S = (0.5, 1.5)


class Coincidences:
    def __init__(self, world: ClusterWorld, victims: Victims) -> None:
        self._world = world
        self._victims = victims

    async def late_requests(self) -> None:
        """A connection that its sender gave up long ago is read at last, half of the times by a broker that just starts.
        Only what is fenced by an epoch is told again: nothing protects from a request of the same term that overtakes
        another one."""
        rng, world = self._world.random, self._world
        victims = self._victims.take() if rng.random() < 0.5 else []
        for broker_id in victims:
            world.machines[broker_id].crash()
        back = [asyncio.ensure_future(self._victims.boot(world.machines[broker_id])) for broker_id in victims]
        await asyncio.sleep(rng.uniform(0.0, START_S))
        for broker_id in world.running():
            await self._tell_late(broker_id)
        await asyncio.gather(*back)
        self._victims.release(victims)

    async def _tell_late(self, broker_id: int) -> None:
        rng, world, machine = self._world.random, self._world, self._world.machines[broker_id]
        late = [each for each in world.control_requests[broker_id] if world.is_late(broker_id, each)]
        if machine.is_paused:
            return
        wire = Wire(world, STRAGGLER, world.address(broker_id), lambda: machine.starts_count)
        for at in sorted(rng.sample(range(len(late)), min(LATE_REQUESTS_MAX, len(late)))):
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer: Any = await wire.call(late[at].request, late[at].version, late[at].response_type)
                if answer.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH):
                    world.count("late control requests refused")
        wire.close()

    async def controller_deposed(self) -> None:
        """Somebody deletes /controller by hand, as one does to get another controller, just while its owner works and then
        stands still. Its session lives, so nothing but the epoch is between its writes and the state nodes."""
        rng, world = self._world.random, self._world
        victims = self._victims.take_these(each for each in (world.controller(),) if each is not None)
        others = [each for each in world.running() if each not in victims]
        for broker_id in victims if others else ():
            world.machines[rng.choice(others)].expire_session()
            await asyncio.sleep(rng.uniform(0.0, AT_WORK_S))
            world.machines[broker_id].pause()
            world.depose()
            await asyncio.sleep(rng.choice((0.1, 0.5, 1.5)))
            world.machines[broker_id].resume()
        self._victims.release(victims)

    async def unseen_power_loss(self) -> None:
        """The controller loses power, and is there again while nobody else can reach the ensemble."""
        rng, world = self._world.random, self._world
        victims = self._victims.take_these(each for each in (world.controller(),) if each is not None)
        for broker_id in victims:
            machine = world.machines[broker_id]
            others = [each for each in world.machines.values() if each is not machine]
            for other in others:
                other.cut_off()
            await asyncio.sleep(rng.uniform(0.0, 0.3))
            machine.crash(power=True)
            back = asyncio.ensure_future(self._victims.boot(machine))
            await asyncio.sleep(rng.uniform(*SHORTER_THAN_A_SESSION_S))
            for other in others:
                other.reach_again()
            await back
        self._victims.release(victims)

    async def one_at_a_time(self) -> None:
        rng, world = self._world.random, self._world
        unclean = [key for key in world.keys if world.is_unclean_allowed(key[0])]
        key = rng.choice(unclean or world.keys)
        replicas = world.replicas_of(key)
        victims = self._victims.take_these(replicas)
        machines = [world.machines[broker_id] for broker_id in victims]
        rng.shuffle(machines)
        for alive in [*machines, *machines[:1]]:
            for machine in machines:
                if machine is not alive:
                    machine.expire_session()
                    machine.crash()
            await self._victims.boot(alive)
            await asyncio.sleep(rng.uniform(0.5, 3.0))
        await asyncio.gather(*(self._victims.boot(machine) for machine in machines))
        self._victims.release(victims)
