"""Requests of the program that has started a broker come line by line, and each line is answered when it is done."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.handlers import ALL
from broker.network.faults.fault_table import FaultTable
from broker.owner_socket import OwnerSocket
from broker.server import Broker
from metadata.admin.topic_requests import CreatedTopic, NewTopic, Outcome
from metadata.image import NO_LEADER, BrokerImage, ClusterImage, MetadataCache, PartitionImage, TopicImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest
from security.acls.entries import AclBinding
from security.acls.words import binding_of_words

BROKER = BrokerImage(1, {}, None)


class World:
    """A broker with the administration of topics and the ACLs, and its owner's end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.faults = FaultTable(ALL)
        self.topics: list[NewTopic] = []
        self.acls: list[AclBinding] = []
        self.outcome = Outcome()
        self.has_authorizer = True
        self.metadata = MetadataCache()

    @property
    def services(self) -> Any:
        return SimpleNamespace(topic_admin=self, acls=self if self.has_authorizer else None)

    async def create(self, wanted: Any, timeout_ms: int = 0) -> Any:
        if timeout_ms:
            self.topics += wanted
            return {topic.name: CreatedTopic(self.outcome) for topic in wanted}
        self.acls += wanted
        refusal = None if self.outcome.code is ErrorCode.NONE else KafkaError(self.outcome.code)
        return [refusal for _ in wanted]

    def send(self, *requests: dict[str, object]) -> None:
        self.writer.write("".join(json.dumps(each) + "\n" for each in requests).encode())

    async def answer(self) -> Any:
        return json.loads(await self.reader.readline())


@asynccontextmanager
async def begun() -> AsyncIterator[World]:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    world = World(reader, writer)
    owner = OwnerSocket(ours.detach(), world.faults, cast("Broker", world), asyncio.get_running_loop())
    try:
        yield world
    finally:
        writer.close()
        await writer.wait_closed()
        await owner.close()


async def test_lines_are_answered_however_they_are_cut() -> None:
    async with begun() as world:
        key = HeartbeatRequest.api_key
        world.send({"id": 1, "do": "inject", "api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS", "times": 0})
        assert await world.answer() == {"id": 1, "ok": True}
        assert world.faults.of(key, is_follower=False) is not None
        world.send({"id": 1, "do": "inject", "api": "Fetch", "delay_ms": 1, "times": 2}, {"id": 9, "do": "faults_left"})
        assert [await world.answer(), await world.answer()] == [{"id": 1, "ok": True}, {"id": 9, "ok": True, "left": 2}]
        world.writer.write(b'{"id": 2, "do": "clear')
        world.writer.write(b'_faults"}\n{"id": 3, "do": "inject", "api": "Heartbea", "delay_ms": 1}\n')
        assert await world.answer() == {"id": 2, "ok": True}
        assert world.faults.of(key, is_follower=False) is None
        refused = {"ok": False, "error": "there is no API 'Heartbea': did you mean Heartbeat?", "is_invalid": True}
        assert await world.answer() == {"id": 3, **refused}
        world.send({"id": 4, "do": "nothing"})
        assert (await world.answer())["error"] == "nothing is done by 'nothing'"
        world.writer.write_eof()
        assert await world.reader.read() == b"", "it ends with the other end"


async def test_topics_and_their_refusals() -> None:
    async with begun() as world:
        asked = {
            "do": "create_topic",
            "name": "t",
            "partitions": 3,
            "replicas": None,
            "settings": {"retention.ms": "1"},
        }
        world.send({"id": 1, **asked})
        assert await world.answer() == {"id": 1, "ok": True}
        assert world.topics == [NewTopic("t", 3, -1, config={"retention.ms": "1"})]
        world.outcome = Outcome(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
        world.send({"id": 2, **asked})
        refused = {"ok": False, "error": "TOPIC_ALREADY_EXISTS: Topic 't' already exists.", "is_invalid": False}
        assert await world.answer() == {"id": 2, **refused}


async def test_metadata_is_awaited() -> None:
    async with begun() as world:
        world.send({"id": 1, "do": "await_metadata", "topics": ["t"], "brokers": [1]})
        for leader, brokers in ((None, {1: BROKER}), (NO_LEADER, {1: BROKER}), (1, {}), (1, {1: BROKER})):
            row = PartitionImage(leader, 0, (1,), (1,), (), 0, 1) if leader is not None else None
            topics = {"t": TopicImage("t", bytes(16), {0: row})} if row else {}
            world.metadata.publish(ClusterImage("c", 1, brokers, topics, {}))
            if leader != 1 or not brokers:
                world.send({"id": 2, "do": "faults_left"})
                assert (await world.answer())["id"] == 2, "the first is not answered yet"
        assert await world.answer() == {"id": 1, "ok": True}


async def test_acls_and_their_refusals() -> None:
    async with begun() as world:
        lines = ["alice read topic orders", "deny bob all group *"]
        world.send({"id": 1, "do": "create_acls", "acls": lines})
        assert await world.answer() == {"id": 1, "ok": True}
        assert world.acls == [binding_of_words(line) for line in lines]
        world.outcome = Outcome(ErrorCode.REQUEST_TIMED_OUT)
        world.send({"id": 2, "do": "create_acls", "acls": lines})
        assert (await world.answer())["error"].startswith("REQUEST_TIMED_OUT: ")
        world.has_authorizer = False
        world.send({"id": 3, "do": "create_acls", "acls": lines})
        assert await world.answer() == {
            "id": 3,
            "ok": False,
            "error": "the broker has no authorizer",
            "is_invalid": True,
        }


@pytest.mark.parametrize("line", ["alice", "alice read topic", "alice red topic t", "alice read topik t", "a b c d e"])
async def test_acls_that_are_none(line: str) -> None:
    async with begun() as world:
        world.send({"id": 1, "do": "create_acls", "acls": [line]})
        assert repr(line) in (await world.answer())["error"]
        assert not world.acls
