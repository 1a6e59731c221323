"""Looking for a group's coordinator, which also makes the topic that groups are kept in."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.simulation.line import Line, Unavailable
from tests.simulation.world import World


async def find_coordinator(world: World, wire: Line, group: str) -> None:
    """Until there is one."""
    while True:
        version = world.random.randint(0, 4)
        request = (
            FindCoordinatorRequest(coordinator_keys=[group]) if version >= 4 else FindCoordinatorRequest(key=group)
        )
        try:
            answer = await wire.call(request, version, FindCoordinatorResponse)
        except Unavailable:
            await wire.pause()
            continue
        code = answer.coordinators[0].error_code if version >= 4 else answer.error_code
        if code == ErrorCode.NONE:
            return
        if code not in world.not_now:
            world.report(f"{wire.name}: FindCoordinator was answered {ErrorCode(code)!r}")
        await wire.pause()
