"""A client's connection: made when it is needed, dropped when anything goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from client.event_loop.connection import OutgoingConnection
from protocol.primitives import DecodeError
from protocol.schema import Request
from tests.simulation.line import R, Unavailable
from tests.simulation.world import World

REQUEST_TIMEOUT_S = 15.0


class Wire:
    """`life_of_broker` counts the starts of the broker at `address`."""

    is_up_to_date = True

    def __init__(self, world: World, name: str, address: tuple[str, int], life_of_broker: Callable[[], int]) -> None:
        self.world = world
        self.name = name
        self.life = 0  # of the broker that the connection is to
        self.connections_count = 0
        self._address = address
        self._life_of_broker = life_of_broker
        self._network = world.network.node(name)
        self._attempts_over = 0
        self._was_unanswered = False
        self._client: OutgoingConnection | None = None
        self._connecting = asyncio.Lock()

    async def call(self, request: Request, version: int, response_type: type[R]) -> R:
        """Raises Unavailable."""
        world, since_s, what = self.world, self.world.loop.time(), type(request).__name__
        world.count("requests")
        client: OutgoingConnection | None = None
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
            # Else the connection was to a broker that is no more, or one that does not lead has said so by closing it.
            if self.life == self._life_of_broker() and not self._was_unanswered:
                world.liveness.refused(self.name, what, since_s)
            raise Unavailable(what) from error
        except DecodeError as error:
            self._drop(client)
            world.report(f"{self.name}: the answer to {what} v{version} is malformed: {error}")
            raise Unavailable(what) from error
        world.count("answers")
        return response

    async def call_unanswered(self, request: Request, version: int) -> None:
        client: OutgoingConnection | None = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                client = await self._connected()
                client.send_unanswered(request, version)
                self._was_unanswered = True
        except OSError as error:
            self._drop(client)
            raise Unavailable(type(request).__name__) from error

    @property
    def is_broken(self) -> bool:
        return self._client is not None and not self._client.is_open

    async def _connected(self) -> OutgoingConnection:
        attempts = self._attempts_over
        async with self._connecting:
            if self._client is None or not self._client.is_open:
                if self._attempts_over != attempts:  # what waited behind it must not overtake it
                    raise ConnectionError("the connection was not made")
                self.connections_count += 1
                try:
                    self._client = await OutgoingConnection.open(self._network, *self._address, self.name)
                finally:
                    self._attempts_over += 1
                self.life = self._life_of_broker()
            return self._client

    def _drop(self, client: OutgoingConnection | None) -> None:
        if client is not None:
            client.close()
            if self._client is client:
                self._client = None

    def close(self) -> None:
        self._drop(self._client)

    async def pause(self) -> None:
        """Before another try."""
        await asyncio.sleep(self.world.random.uniform(0.05, 0.5))
