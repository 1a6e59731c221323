"""The ensemble's sessions when the client cannot be heard: what is under way, what waits, and who finds out when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from metadata.store.port import ConnectionLossError, SessionEvent, SessionExpiredError, StoreError, WatchEvent
from tests.async_tests import played_by
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.store import SimulatedEnsemble, SimulatedStore

T = TypeVar("T")


class Scene:
    """An ensemble, a client that may be cut off, and one that may not."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.ensemble = SimulatedEnsemble(SimClock(loop), lambda: 0.001)
        self.client = self.ensemble.connect()
        self.other = self.ensemble.connect()
        self.heard: list[SessionEvent] = []
        self.seen: list[WatchEvent] = []
        self.client.subscribe(self.heard.append)


def played(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def program(loop: SimLoop) -> None:
        await story(Scene(loop))

    simulate(1, program)


async def outcome(operation: Awaitable[T]) -> T | StoreError:
    try:
        return await operation
    except StoreError as error:
        return error


def begun(scene: Scene, operation: Awaitable[T]) -> asyncio.Task[T | StoreError]:
    return scene.loop.create_task(outcome(operation))


async def exists(store: SimulatedStore, path: str) -> bool:
    return await store.exists(path) is not None


@pytest.mark.parametrize("is_lost", [False, True])
@played_by(played)
async def test_a_write_under_way_is_carried_out_or_not_and_nobody_tells(scene: Scene, is_lost: bool) -> None:
    scene.ensemble.loses_request = lambda: is_lost
    write = begun(scene, scene.client.create("/a"))
    await asyncio.sleep(0)
    scene.client.session().cut()
    assert isinstance(await write, ConnectionLossError)
    await asyncio.sleep(0.1)
    assert await exists(scene.other, "/a") is not is_lost
    assert scene.heard == [SessionEvent.SUSPENDED]


@played_by(played)
async def test_reads_and_what_comes_later_wait_for_the_connection(scene: Scene) -> None:
    await scene.other.create("/a", b"1")
    read = begun(scene, scene.client.get("/a", scene.seen.append))
    await asyncio.sleep(0)
    scene.client.session().cut()
    write = begun(scene, scene.client.create("/b"))
    await scene.other.set("/a", b"2")
    await asyncio.sleep(2)
    assert not read.done()
    assert not write.done()
    scene.client.session().mend()
    data = await read
    assert isinstance(data, tuple)
    assert data[0] == b"2"
    assert await write == "/b"
    assert scene.heard == [SessionEvent.SUSPENDED, SessionEvent.CONNECTED]


@played_by(played)
async def test_watches_are_set_off_by_what_happened_meanwhile(scene: Scene) -> None:
    await scene.client.exists("/a", scene.seen.append)
    scene.client.session().cut()
    await scene.other.create("/a")
    await asyncio.sleep(1)
    assert not scene.seen
    scene.client.session().mend()
    await asyncio.sleep(1)
    assert [event.path for event in scene.seen] == ["/a"]


@played_by(played)
async def test_a_cut_that_outlives_the_session_is_told_at_the_reconnect_only(scene: Scene) -> None:
    session = scene.client.session()
    await scene.client.create("/mine", ephemeral=True)
    await scene.client.exists("/a", scene.seen.append)
    session.cut()
    await scene.other.create("/a")
    waits = begun(scene, session.create("/b"))
    await asyncio.sleep(scene.ensemble.session_timeout_s - 0.1)
    assert await exists(scene.other, "/mine")
    await asyncio.sleep(0.2)
    assert not await exists(scene.other, "/mine")
    assert isinstance(await waits, ConnectionLossError)
    assert scene.heard == [SessionEvent.SUSPENDED]
    session.mend()
    await asyncio.sleep(1)
    assert scene.heard == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED, SessionEvent.CONNECTED]
    assert not scene.seen
    assert isinstance(await outcome(session.create("/c")), SessionExpiredError)
    assert await scene.client.create("/c") == "/c"


@played_by(played)
async def test_a_client_that_does_not_run_loses_its_session_unless_it_runs_again_in_time(scene: Scene) -> None:
    session = scene.client.session()
    session.fall_silent()
    await asyncio.sleep(5)
    session.speak_again()
    await asyncio.sleep(5)
    assert not session.is_over
    session.fall_silent()
    await asyncio.sleep(7)
    assert session.is_over
    assert scene.heard == [SessionEvent.EXPIRED, SessionEvent.CONNECTED]
