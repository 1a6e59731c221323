"""A client's connection: made when it is needed, dropped when anything goes wrong."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from protocol.client import Client
from protocol.errors import ErrorCode
from protocol.primitives import DecodeError
from protocol.schema import Request, Response
from tests.simulation.world import BROKER, PORT, World

R = TypeVar("R", bound=Response)

REQUEST_TIMEOUT_S = 15.0

# Answers of a broker that is not ready for the client yet, or no more.
NOT_NOW = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
    }
)


class Unavailable(Exception):
    """No answer: it is not known whether the request was carried out."""


class Wire:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0  # of the broker that the connection is to
        self.connections_count = 0
        self._network = world.network.node(name)
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def call(self, request: Request, version: int, response_type: type[R]) -> R:
        """Raises Unavailable."""
        world, since_s, what = self.world, self.world.loop.time(), type(request).__name__
        world.count("requests")
        client: Client | None = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                client = await self._connected()
                response = await client.send(request, version, response_type)
        except TimeoutError as error:
            self._drop(client)
            world.liveness.timed_out(self.name, what, since_s)
            raise Unavailable(what) from error
        except OSError as error:
            self._drop(client)
            if self.life == world.machine.starts_count:  # else the connection was to a broker that is no more
                world.liveness.refused(self.name, what, since_s)
            raise Unavailable(what) from error
        except DecodeError as error:
            self._drop(client)
            world.report(f"{self.name}: the answer to {what} v{version} is malformed: {error}")
            raise Unavailable(what) from error
        world.count("answers")
        return response

    async def call_unanswered(self, request: Request, version: int) -> None:
        client: Client | None = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                client = await self._connected()
                client.send_unanswered(request, version)
        except OSError as error:
            self._drop(client)
            raise Unavailable(type(request).__name__) from error

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None or not self._client.is_open:
                self.connections_count += 1
                self._client = await Client.connect(self._network, BROKER, PORT, self.name)
                self.life = self.world.machine.starts_count
            return self._client

    def _drop(self, client: Client | None) -> None:
        if client is not None:
            client.close()
            if self._client is client:
                self._client = None

    def close(self) -> None:
        self._drop(self._client)

    async def pause(self) -> None:
        """Before another try."""
        await asyncio.sleep(self.world.random.uniform(0.05, 0.5))
