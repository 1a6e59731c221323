"""A sampler over a broker, which looks when a test tells it to, at times that the test decides."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx

from barnabas.embedded import EmbeddedBroker
from client.settings.command_line import DEFAULTS
from client.settings.parsing import parse_client
from client.settings.values import ClientSettings
from tests.doubles.clock import ManualClock
from web.cluster.user_cluster import UserCluster
from web.cluster.users import UserClusters
from web.history.history import History, Measure
from web.history.response_times import ResponseTimes
from web.history.sampler import Sampler
from web.surroundings import Surroundings

INTERVAL_MS = 10_000
MiB = 1024 * 1024


_COUNT = re.compile(r'^kafka_network_requestmetrics_totaltimems_count\{request="(\w+)"\} (\S+)$', re.MULTILINE)


class World:
    """A sampler that looks when it is told to, at times that the test decides."""

    def __init__(self, client: ClientSettings, *, has_own: bool) -> None:
        self.clock = ManualClock(1_000_000)
        self.surroundings = Surroundings(clock=self.clock)
        self.users = UserClusters(client, self.surroundings)
        self.history = History(INTERVAL_MS, 16 * MiB)
        self.own = UserCluster(client, self.surroundings, "sampling")
        times = ResponseTimes((), self.surroundings.http)
        self.sampler = Sampler(self.history, self.users, self.own if has_own else None, times, self.clock)

    async def look(self) -> None:
        self.clock.now_ms += INTERVAL_MS
        await self.sampler.look()

    async def send(self, topic: str, count: int, partition: int = 0) -> None:
        producer = await self.own.producer()
        for _ in range(count):
            await producer.send(topic, b"value", partition=partition)
        await producer.flush()

    def latest(self, measure: Measure, subject: str, part: str = "") -> float | None:
        return self.history.latest(measure, subject, part)


def world_of(broker: EmbeddedBroker, *, has_own: bool = True) -> AbstractAsyncContextManager[World]:
    """A world over a broker of ours."""
    return opened(broker.client_settings(), has_own=has_own)


@asynccontextmanager
async def opened(client: Mapping[str, str], *, has_own: bool = True) -> AsyncIterator[World]:
    """A world over the cluster that a client's settings name."""
    world = World(parse_client(client, DEFAULTS), has_own=has_own)
    try:
        yield world
    finally:
        await world.users.close()
        await world.own.close()
        await world.surroundings.close()


def requests_of(broker: EmbeddedBroker) -> dict[str, int]:
    """How many requests of each API a broker has answered, by its metrics."""
    text = httpx.get(f"http://{broker.http}/metrics").text
    return {name: int(float(value)) for name, value in _COUNT.findall(text)}
