"""The private socket of the program that has started this broker for tests: it injects faults, and prepares topics and ACLs.

    {"id": 1, "do": "inject", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "delay_ms": 0, "times": 1}
    {"id": 2, "do": "clear_faults"}
    {"id": 3, "do": "faults_left"}
    {"id": 4, "do": "create_topic", "name": "orders", "partitions": 3, "replicas": null, "settings": {"retention.ms": "1000"}}
    {"id": 5, "do": "await_metadata", "topics": ["orders"], "brokers": [0, 1, 2]}
    {"id": 6, "do": "create_acls", "acls": ["alice read topic orders"]}

Each line is answered by `{"id": 1, "ok": true}` once it is done: a fault is in force, a topic can be written to, this broker
knows what others have done. The answer to `faults_left` has the number as `left`. What cannot be done is answered by
`{"id": 1, "ok": false, "error": "text", "is_invalid": true}`, where `is_invalid` says that the request itself is wrong.

Rules: one end of a socket pair, which only the two processes have, so that nobody logs in and nobody is asked for rights. It is
read until the other end is closed; a broker of production has none. Requests are carried out side by side.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

from metadata.admin.metadata_wait import wait_for_image
from metadata.admin.topic_requests import NewTopic
from metadata.admin.topic_rules import DEFAULT_COUNT
from protocol.errors import ErrorCode, KafkaError
from runtime.tasks import TaskScope
from security.acls.words import binding_of_words

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from broker.network.faults.fault_table import FaultTable
    from broker.server import Broker
    from metadata.image import ClusterImage

_READ_BYTES = 64 * 1024
CREATE_TIMEOUT_MS = 30_000


class OwnerSocket:
    """`descriptor` is this broker's end, which is closed with the object. `faults` are those of `broker`."""

    def __init__(self, descriptor: int, faults: FaultTable, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._faults = faults
        self._broker = broker
        self._loop = loop
        self._tasks = TaskScope("requests of the owner")
        self._begun = b""
        loop.add_reader(self._socket, self._on_readable)

    async def close(self) -> None:
        """Read nothing any more, and end what is under way."""
        self._end()
        await self._tasks.close()

    def _end(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._end()
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._tasks.spawn(self._answer(json.loads(line)), name="request")

    async def _answer(self, asked: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": asked.pop("id", None), "ok": True}
        try:
            answer |= await self._do(asked.pop("do", None), asked)
        except ValueError as error:
            answer |= {"ok": False, "error": str(error), "is_invalid": True}
        except KafkaError as error:
            answer |= {"ok": False, "error": f"{error.code.name}: {error.message}", "is_invalid": False}
        if self._socket.fileno() >= 0:
            await self._loop.sock_sendall(self._socket, json.dumps(answer).encode() + b"\n")

    async def _do(self, what: object, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the answer has besides. Raises ValueError, KafkaError."""
        match what:
            case "inject":
                self._faults.inject(asked)
            case "clear_faults":
                self._faults.clear()
            case "faults_left":
                return {"left": self._faults.left}
            case "create_topic":
                await self._create_topic(**asked)
            case "await_metadata":
                await self._await_metadata(**asked)
            case "create_acls":
                await self._create_acls(**asked)
            case _:
                raise ValueError(f"nothing is done by {what!r}")
        return {}

    async def _create_topic(
        self, name: str, partitions: int | None, replicas: int | None, settings: Mapping[str, str]
    ) -> None:
        """Return when each partition has a leader. Raises KafkaError."""
        wanted = NewTopic(name, partitions or DEFAULT_COUNT, replicas or DEFAULT_COUNT, config=settings)
        outcome = (await self._broker.services.topic_admin.create([wanted], CREATE_TIMEOUT_MS))[name].outcome
        if outcome.code is not ErrorCode.NONE:
            raise KafkaError(outcome.code, outcome.message)

    async def _await_metadata(self, topics: list[str], brokers: list[int]) -> None:
        """Return when this broker knows these brokers, and a leader of each partition of the topics. Raises KafkaError."""

        def are_known(image: ClusterImage) -> bool:
            rows = [image.topics.get(name) for name in topics]
            have_leaders = all(row and all(each.leader >= 0 for each in row.partitions.values()) for row in rows)
            return have_leaders and image.brokers.keys() >= set(brokers)

        if not await wait_for_image(self._broker.metadata, are_known, CREATE_TIMEOUT_MS):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The broker does not know the topics and brokers.")

    async def _create_acls(self, acls: list[str]) -> None:
        """Return when they are in force here. Raises ValueError, KafkaError."""
        bindings = [binding_of_words(words) for words in acls]
        owner = self._broker.services.acls
        if owner is None:
            raise ValueError("the broker has no authorizer")
        for error in await owner.create(bindings):
            if error is not None:
                raise error
