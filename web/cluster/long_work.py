"""Carries long work out on the event loop, as one user: see `tools.reassignment.long_work`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from client.errors import ClusterUnavailable
from protocol.errors import ErrorCode, KafkaError
from tools.reassignment.long_work import Carry, Outcomes, Wait, Work

if TYPE_CHECKING:
    from web.cluster.user_cluster import UserCluster

T = TypeVar("T")


async def carry_out(work: Work[T], cluster: UserCluster, stop: asyncio.Event | None = None) -> T:
    """Return the result of work, which `stop` asks to end. Raises what it raises."""
    outcomes = Outcomes()
    while True:
        try:
            step = outcomes.next_of(work)
        except StopIteration as end:
            value: T = end.value
            return value
        if isinstance(step, Carry):
            try:
                outcomes.value = await cluster.run(step.steps)
            except ClusterUnavailable as error:
                outcomes.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
            except Exception as error:  # noqa: BLE001  it is the work's to judge
                outcomes.error = error
        else:
            outcomes.value = await _waited(step, stop)


async def _waited(step: Wait, stop: asyncio.Event | None) -> bool:
    """Return whether somebody has asked for the end."""
    if stop is None or not step.is_stoppable:
        await asyncio.sleep(step.seconds)
        return False
    if step.seconds > 0:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), step.seconds)
    return stop.is_set()
