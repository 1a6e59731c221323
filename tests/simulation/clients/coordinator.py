"""Looking for the coordinator of a group or a transactional id, which also makes the topic that its state is kept in."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.simulation.line import Line, Unavailable
from tests.simulation.world import World

GROUP, TRANSACTION = 0, 1  # the types of coordinators


async def find_coordinator(world: World, wire: Line, name: str, key_type: int = GROUP) -> None:
    """Until there is one."""
    while True:
        version = world.random.randint(0 if key_type == GROUP else 1, 4)
        request = (
            FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
            if version >= 4
            else FindCoordinatorRequest(key_type=key_type, key=name)
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
